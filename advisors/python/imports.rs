//! A rewrite of a file: replacements, imports that they need, and code that they leave unused.
//!
//! Comments stand: a statement goes with its own lines, the comments above it do not.

use std::collections::BTreeSet;

use ruff_python_ast::{Alias, AnyNodeRef, Expr, StmtImportFrom};
use ruff_text_size::{Ranged, TextRange, TextSize};

use crate::finding::Edit;
use crate::python::SourceContext;
use crate::python::bindings::{Binding, Bindings, Bound};
use crate::python::index::NodeId;

/// Rounds of looking for code that became unused.
const MAX_ROUNDS: usize = 16;

/// A rewrite in the making.
#[derive(Debug)]
pub struct Rewrite<'c, 'a> {
    context: &'c SourceContext<'a>,
    bindings: &'c Bindings<'a>,
    replaced: Vec<(TextRange, String)>,
    deleted: Vec<(TextRange, String)>,
    gone: Vec<TextRange>,
    attributes: Vec<NodeId>,
    imports: BTreeSet<String>,
    /// Names of functions and values that went because nothing uses them any more.
    pub removed: BTreeSet<String>,
}

/// What defines a name, and may go.
#[derive(Clone, Copy, Debug)]
struct Definition {
    binding: NodeId,
    statement: NodeId,
    import: bool,
}

impl<'c, 'a> Rewrite<'c, 'a> {
    /// Nothing changed yet.
    #[must_use]
    pub fn new(context: &'c SourceContext<'a>, bindings: &'c Bindings<'a>) -> Self {
        Self {
            context,
            bindings,
            replaced: Vec::new(),
            deleted: Vec::new(),
            gone: Vec::new(),
            attributes: Vec::new(),
            imports: BTreeSet::new(),
            removed: BTreeSet::new(),
        }
    }

    /// Replaces a range. The same replacement twice is one.
    pub fn replace(&mut self, range: TextRange, text: impl Into<String>) {
        let edit = (range, text.into());
        if !self.replaced.contains(&edit) {
            self.replaced.push(edit);
            self.gone.push(range);
        }
    }

    /// Inserts text.
    pub fn insert(&mut self, at: TextSize, text: impl Into<String>) {
        let edit = (TextRange::empty(at), text.into());
        if !self.replaced.contains(&edit) {
            self.replaced.push(edit);
        }
    }

    /// Removes an argument of a call that is not the first: with its line where it has one of its
    /// own, else with the comma before it.
    pub fn remove_argument(&mut self, argument: TextRange, before: TextRange) {
        self.gone.push(argument);
        let range = self
            .own_line(argument)
            .unwrap_or_else(|| TextRange::new(before.end(), argument.end()));
        self.delete_range(range, String::new());
    }

    /// Removes a statement with its lines; `pass` takes its place where a block would be empty.
    pub fn delete(&mut self, id: NodeId) {
        let Some(node) = self.context.index.get(id) else {
            return;
        };
        let range = node.node.range();
        self.gone.push(range);
        let alone = self.siblings(id) <= 1;
        match self.lines_of(range) {
            Some(lines) if !alone => {
                let lines = self.with_blank_lines(lines);
                self.delete_range(lines, String::new());
            }
            _ => self.delete_range(range, "pass".to_owned()),
        }
    }

    /// Removes the assignment of an attribute when nothing that stays reads it.
    pub fn delete_unused_attribute(&mut self, id: NodeId) {
        if !self.attributes.contains(&id) {
            self.attributes.push(id);
        }
    }

    fn delete_unused_attributes(&mut self) {
        let index = self.context.index;
        for id in std::mem::take(&mut self.attributes) {
            let Some(AnyNodeRef::StmtAssign(assign)) = index.get(id).map(|node| node.node) else {
                continue;
            };
            let [Expr::Attribute(target)] = assign.targets.as_slice() else {
                continue;
            };
            let name = target.attr.as_str();
            let read = index.nodes().any(|(_, node)| match node.node {
                AnyNodeRef::ExprAttribute(it) => {
                    it.attr.as_str() == name && !it.ctx.is_store() && !self.is_gone(it.range)
                }
                AnyNodeRef::ExprStringLiteral(text) => text.value.to_str() == name,
                _ => false,
            });
            if !read {
                self.delete(id);
            }
        }
    }

    fn delete_range(&mut self, range: TextRange, text: String) {
        if !self.deleted.iter().any(|(known, _)| *known == range) {
            self.deleted.push((range, text));
        }
    }

    /// How a function of `torch.nn.functional` is called in this file; the import is added where
    /// there is none.
    pub fn functional(&mut self, name: &str) -> String {
        let context = self.context;
        let mut best: Option<(usize, String)> = None;
        for (local, full) in context.names.imported() {
            let only = self.bindings.of(local);
            let clear = only
                .iter()
                .all(|b| matches!(b.what, Bound::Import) && b.scope.is_none());
            if !clear {
                continue;
            }
            let path = match full {
                "torch.nn.functional" => (0, format!("{local}.{name}")),
                "torch.nn" => (1, format!("{local}.functional.{name}")),
                _ if full == format!("torch.nn.functional.{name}") => (2, local.to_owned()),
                _ => continue,
            };
            if best.as_ref().is_none_or(|known| path.0 < known.0) {
                best = Some(path);
            }
        }
        if let Some((0 | 2, path)) = best {
            return path;
        }
        if !self.bindings.is_bound("F") {
            self.imports
                .insert("import torch.nn.functional as F".to_owned());
            return format!("F.{name}");
        }
        best.map_or_else(
            || self.torch(&format!("nn.functional.{name}")),
            |(_, path)| path,
        )
    }

    /// How something of `torch` is called in this file; the import is added where there is none.
    pub fn torch(&mut self, path: &str) -> String {
        let local = self
            .context
            .names
            .imported()
            .find(|(_, full)| *full == "torch")
            .map(|(local, _)| local.to_owned());
        let local = local.unwrap_or_else(|| {
            self.imports.insert("import torch".to_owned());
            "torch".to_owned()
        });
        format!("{local}.{path}")
    }

    /// The edits, after what nothing uses any more has been removed, and the imports added.
    #[must_use]
    pub fn finish(mut self) -> (Vec<Edit>, BTreeSet<String>) {
        self.delete_unused_attributes();
        for _ in 0..MAX_ROUNDS {
            if !self.remove_unused() {
                break;
            }
        }
        self.add_imports();
        let Self {
            context,
            mut deleted,
            mut replaced,
            removed,
            ..
        } = self;
        // Deletions that touch are one; what is replaced within a deletion goes with it.
        deleted.sort_by_key(|(range, _)| (range.start(), range.end()));
        let mut merged: Vec<(TextRange, String)> = Vec::new();
        for (range, text) in deleted {
            match merged.last_mut() {
                Some((last, words)) if range.start() < last.end() => {
                    *last = last.cover(range);
                    if words.is_empty() {
                        *words = text;
                    }
                }
                _ => merged.push((range, text)),
            }
        }
        replaced.retain(|(range, _)| {
            !merged.iter().any(|(gone, _)| {
                gone.contains_range(*range) && !(range.is_empty() && range.start() == gone.start())
            })
        });
        let mut edits: Vec<Edit> = merged
            .into_iter()
            .chain(replaced)
            .map(|(range, text)| context.edit(range, text))
            .collect();
        edits.sort();
        edits.dedup();
        (edits, removed)
    }

    /// One round: names whose uses are all gone lose their definitions. Whether anything went.
    fn remove_unused(&mut self) -> bool {
        let mut changed = false;
        let index = self.context.index;
        let mut seen: BTreeSet<NodeId> = BTreeSet::new();
        for (id, node) in index.nodes() {
            let AnyNodeRef::ExprName(name) = node.node else {
                continue;
            };
            if !name.ctx.is_load() || !self.is_gone(name.range()) {
                continue;
            }
            let name = name.id.as_str();
            let group: Vec<Definition> = self
                .bindings
                .visible(name, id, index)
                .iter()
                .filter(|binding| !self.is_gone_id(binding.id))
                .filter_map(|binding| self.definition(binding))
                .collect();
            let all = self.bindings.visible(name, id, index).len();
            let gone = self
                .bindings
                .visible(name, id, index)
                .iter()
                .filter(|binding| self.is_gone_id(binding.id))
                .count();
            let Some(first) = group.first() else { continue };
            if group.len() + gone != all || !seen.insert(first.binding) {
                continue;
            }
            if self.is_used(name, id, &group) {
                continue;
            }
            changed = true;
            for definition in group {
                if definition.import {
                    self.remove_import(definition.binding);
                } else {
                    self.delete(definition.statement);
                    self.removed.insert(name.to_owned());
                }
            }
        }
        changed
    }

    /// What defines a name, where it may go without changing anything else.
    fn definition(&self, binding: &Binding<'a>) -> Option<Definition> {
        let index = self.context.index;
        let guarded = index
            .ancestors(binding.id)
            .take_while(|(_, node)| !matches!(node.node, AnyNodeRef::StmtFunctionDef(_)))
            .any(|(_, node)| matches!(node.node, AnyNodeRef::StmtTry(_) | AnyNodeRef::StmtIf(_)));
        let exported = binding.scope.is_none() && self.context.file.path.ends_with("__init__.py");
        if guarded || exported {
            return None;
        }
        let (statement, import) = match binding.what {
            Bound::Import => {
                let statement = index.get(binding.id)?.parent?;
                // `import torch` may be there for what it does.
                let node = index.get(statement)?.node;
                matches!(node, AnyNodeRef::StmtImportFrom(_)).then_some((statement, true))?
            }
            Bound::Function(function) => {
                let plain = function.decorator_list.iter().all(|decorator| {
                    let name = self.context.qualified(&decorator.expression);
                    name.as_deref() == Some("torch.compile")
                });
                plain.then_some((binding.id, false))?
            }
            Bound::Assigned(assign) => {
                let plain = is_plain(&assign.value, self.context);
                plain.then_some((index.id_of(assign)?, false))?
            }
            Bound::Parameter | Bound::Other => return None,
        };
        Some(Definition {
            binding: binding.id,
            statement,
            import,
        })
    }

    fn is_gone(&self, range: TextRange) -> bool {
        self.gone.iter().any(|gone| gone.contains_range(range))
    }

    fn is_gone_id(&self, id: NodeId) -> bool {
        let node = self.context.index.get(id);
        node.is_none_or(|node| self.is_gone(node.node.range()))
    }

    /// Whether anything that stays uses a name, its own definitions not counted.
    fn is_used(&self, name: &str, at: NodeId, group: &[Definition]) -> bool {
        let index = self.context.index;
        let written = self
            .replaced
            .iter()
            .chain(&self.deleted)
            .any(|(_, text)| words(text).any(|word| word == name));
        let own: Vec<TextRange> = group
            .iter()
            .filter_map(|definition| Some(index.get(definition.statement)?.node.range()))
            .collect();
        let stays = |range: TextRange| {
            !self.is_gone(range) && !own.iter().any(|own| own.contains_range(range))
        };
        let meant: Vec<NodeId> = self.seen(name, at);
        written
            || index.nodes().any(|(id, node)| match node.node {
                AnyNodeRef::ExprName(used) => {
                    used.id.as_str() == name
                        && !used.ctx.is_store()
                        && stays(used.range())
                        && self.seen(name, id) == meant
                }
                AnyNodeRef::ExprStringLiteral(text) => {
                    text.value.to_str() == name && stays(text.range())
                }
                _ => false,
            })
    }

    fn seen(&self, name: &str, at: NodeId) -> Vec<NodeId> {
        let visible = self.bindings.visible(name, at, self.context.index);
        visible.iter().map(|binding| binding.id).collect()
    }

    /// Removes one name of an import.
    fn remove_import(&mut self, alias: NodeId) {
        let index = self.context.index;
        let Some(statement) = index.get(alias).and_then(|node| node.parent) else {
            return;
        };
        let Some(AnyNodeRef::StmtImportFrom(import)) = index.get(statement).map(|n| n.node) else {
            return;
        };
        let Some(AnyNodeRef::Alias(own)) = index.get(alias).map(|node| node.node) else {
            return;
        };
        self.gone.push(own.range());
        let left = import.names.iter().any(|name| !self.is_gone(name.range()));
        if left {
            self.shorten_import(import, own);
        } else {
            self.delete(statement);
        }
    }

    fn shorten_import(&mut self, import: &StmtImportFrom, own: &Alias) {
        let at = import.names.iter().position(|name| name == own);
        let Some(at) = at else { return };
        if let Some(line) = self.own_line(own.range()) {
            self.delete_range(line, String::new());
            return;
        }
        let next = import.names.get(at + 1..).unwrap_or_default();
        let stays = |name: &&Alias| !self.is_gone(name.range());
        let range = if next.iter().any(|name| stays(&name)) {
            let end = next.first().map_or(own.end(), Ranged::start);
            TextRange::new(own.start(), end)
        } else {
            let before = import.names.get(..at).unwrap_or_default();
            let start = before.iter().rfind(stays).map_or(own.start(), Ranged::end);
            TextRange::new(start, own.end())
        };
        self.delete_range(range, String::new());
    }

    /// Adds the imports: in the place of one that went, else after the last of the leading ones.
    fn add_imports(&mut self) {
        if self.imports.is_empty() {
            return;
        }
        let text: Vec<String> = std::mem::take(&mut self.imports).into_iter().collect();
        let text = text.join("\n");
        let module = self.context.file.module();
        let is_import = |range: TextRange| {
            module.body.iter().any(|statement| {
                (statement.is_import_from_stmt() || statement.is_import_stmt())
                    && statement.range() == range
            })
        };
        let free = self.deleted.iter().position(|(lines, words)| {
            words.is_empty()
                && self
                    .gone
                    .iter()
                    .any(|gone| lines.contains_range(*gone) && is_import(*gone))
        });
        if let Some(at) = free
            && let Some((lines, words)) = self.deleted.get_mut(at)
        {
            let source = &self.context.file.text;
            let old = source
                .get(std::ops::Range::<usize>::from(*lines))
                .unwrap_or_default();
            // The statement alone is replaced: the end of its line and blank lines stand.
            let kept = old.trim_end().len();
            let size = TextSize::try_from(kept).unwrap_or_else(|_| lines.len());
            *lines = TextRange::at(lines.start(), size);
            *words = text;
            return;
        }
        let last = module
            .body
            .iter()
            .enumerate()
            .take_while(|(at, statement)| {
                statement.is_import_from_stmt()
                    || statement.is_import_stmt()
                    || (*at == 0 && statement.is_expr_stmt())
            })
            .last();
        match last {
            Some((_, statement)) => self.insert(statement.end(), format!("\n{text}")),
            None => {
                let start = module.body.first().map_or(TextSize::new(0), Ranged::start);
                self.insert(start, format!("{text}\n"));
            }
        }
    }

    /// How many statements the block of a statement has that are not gone.
    fn siblings(&self, id: NodeId) -> usize {
        let index = self.context.index;
        let Some(parent) = index.get(id).and_then(|node| node.parent) else {
            return usize::MAX;
        };
        let Some(above) = index.get(parent) else {
            return usize::MAX;
        };
        let mut blocks: Vec<&[ruff_python_ast::Stmt]> = Vec::new();
        match above.node {
            AnyNodeRef::ModModule(_) => return usize::MAX,
            AnyNodeRef::StmtFunctionDef(it) => blocks.push(&it.body),
            AnyNodeRef::StmtClassDef(it) => blocks.push(&it.body),
            AnyNodeRef::StmtFor(it) => blocks.extend([&it.body[..], &it.orelse[..]]),
            AnyNodeRef::StmtWhile(it) => blocks.extend([&it.body[..], &it.orelse[..]]),
            AnyNodeRef::StmtIf(it) => blocks.push(&it.body),
            AnyNodeRef::StmtWith(it) => blocks.push(&it.body),
            AnyNodeRef::ElifElseClause(it) => blocks.push(&it.body),
            _ => return 1,
        }
        let own = index.get(id).map(|node| node.node.range());
        let block = blocks
            .into_iter()
            .find(|block| block.iter().any(|statement| Some(statement.range()) == own));
        let others = block
            .unwrap_or_default()
            .iter()
            .filter(|statement| Some(statement.range()) != own && !self.is_gone(statement.range()));
        others.count() + 1
    }

    /// The line that holds nothing but a range and a comma.
    fn own_line(&self, range: TextRange) -> Option<TextRange> {
        let lines = self.whole_lines(range);
        let text = &self.context.file.text;
        let before = text.get(lines.start().to_usize()..range.start().to_usize())?;
        let after = text.get(range.end().to_usize()..lines.end().to_usize())?;
        (before.trim().is_empty() && after.trim() == "," && after.ends_with('\n')).then_some(lines)
    }

    /// The lines of a statement, where nothing else stands on them but a comment behind it.
    fn lines_of(&self, range: TextRange) -> Option<TextRange> {
        let lines = self.whole_lines(range);
        let text = &self.context.file.text;
        let before = text.get(lines.start().to_usize()..range.start().to_usize())?;
        let after = text.get(range.end().to_usize()..lines.end().to_usize())?;
        let after = after.trim_start();
        (before.trim().is_empty() && (after.is_empty() || after.starts_with('#'))).then_some(lines)
    }

    fn whole_lines(&self, range: TextRange) -> TextRange {
        let file = self.context.file;
        let first = file.line_range(file.line_of(range.start()));
        let last = file.line_range(file.line_of(range.end()));
        first.cover(last)
    }

    /// With as many blank lines behind as there are before: what is left has the larger number.
    fn with_blank_lines(&self, lines: TextRange) -> TextRange {
        let text = &self.context.file.text;
        let before = text.get(..lines.start().to_usize()).unwrap_or_default();
        let after = text.get(lines.end().to_usize()..).unwrap_or_default();
        let blank = |line: &&str| line.trim().is_empty();
        let above = before.lines().rev().take_while(blank).count();
        let header = before.trim_end().ends_with(':') || before.trim().is_empty();
        let mut end = lines.end().to_usize();
        let mut left = if header { usize::MAX } else { above };
        for line in after.split_inclusive('\n') {
            if left == 0 || !line.trim().is_empty() {
                break;
            }
            end += line.len();
            left -= 1;
        }
        let end = TextSize::try_from(end).unwrap_or_else(|_| lines.end());
        TextRange::new(lines.start(), end)
    }
}

/// The identifiers of a text.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty())
}

/// Methods of tensors that only give a value.
const PURE_METHODS: &[&str] = &[
    "size",
    "dim",
    "bool",
    "to",
    "tril",
    "triu",
    "unsqueeze",
    "view",
];

/// Whether evaluating an expression does nothing but give its value.
fn is_plain(expression: &Expr, context: &SourceContext<'_>) -> bool {
    const PURE: &[&str] = &[
        "torch.compile",
        "torch.arange",
        "torch.device",
        "torch.ones",
        "torch.zeros",
        "torch.tril",
        "torch.triu",
        "functools.partial",
        "torch.nn.attention.flex_attention.create_block_mask",
        "torch.nn.attention.flex_attention.and_masks",
        "torch.nn.attention.flex_attention.or_masks",
    ];
    let plain = |expression: &Expr| is_plain(expression, context);
    match expression {
        Expr::Name(_)
        | Expr::Lambda(_)
        | Expr::NumberLiteral(_)
        | Expr::StringLiteral(_)
        | Expr::BooleanLiteral(_)
        | Expr::NoneLiteral(_)
        | Expr::Slice(_) => true,
        Expr::Attribute(attribute) => plain(&attribute.value),
        Expr::Subscript(subscript) => plain(&subscript.value) && plain(&subscript.slice),
        Expr::BinOp(operation) => plain(&operation.left) && plain(&operation.right),
        Expr::UnaryOp(operation) => plain(&operation.operand),
        Expr::Tuple(tuple) => tuple.elts.iter().all(plain),
        Expr::Call(call) => {
            let known = context
                .qualified(&call.func)
                .is_some_and(|name| PURE.contains(&name.as_str()));
            let size = matches!(&*call.func, Expr::Attribute(method)
                if PURE_METHODS.contains(&method.attr.as_str()) && plain(&method.value));
            (known || size)
                && call.arguments.args.iter().all(plain)
                && call
                    .arguments
                    .keywords
                    .iter()
                    .all(|keyword| plain(&keyword.value))
        }
        _ => false,
    }
}
