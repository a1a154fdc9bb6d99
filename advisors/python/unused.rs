//! Code that a rewrite leaves unused: definitions, values, attributes.

use std::collections::BTreeSet;

use ruff_python_ast::{AnyNodeRef, Expr};
use ruff_text_size::{Ranged as _, TextRange};

use crate::python::SourceContext;
use crate::python::bindings::{Binding, Bound};
use crate::python::index::NodeId;
use crate::python::rewrite::Rewrite;

/// Rounds of looking for code that became unused.
const MAX_ROUNDS: usize = 16;

/// What defines a name, and may go.
#[derive(Clone, Copy, Debug)]
struct Definition {
    binding: NodeId,
    statement: NodeId,
    import: bool,
}

impl<'a> Rewrite<'_, 'a> {
    /// Removes what nothing uses any more, and what only that used.
    pub(super) fn remove_all_unused(&mut self) {
        self.delete_unused_attributes();
        for _ in 0..MAX_ROUNDS {
            if !self.remove_unused() {
                break;
            }
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
