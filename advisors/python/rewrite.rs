//! A rewrite of a file: replacements and deletions; what they need and what they leave unused is
//! seen to by `imports.rs` and `unused.rs`.
//!
//! Comments stand: a statement goes with its own lines, the comments above it do not.

use std::collections::BTreeSet;

use ruff_python_ast::AnyNodeRef;
use ruff_text_size::{Ranged, TextRange, TextSize};

use crate::finding::Edit;
use crate::python::SourceContext;
use crate::python::bindings::Bindings;
use crate::python::index::NodeId;

/// A rewrite in the making.
#[derive(Debug)]
pub struct Rewrite<'c, 'a> {
    pub(super) context: &'c SourceContext<'a>,
    pub(super) bindings: &'c Bindings<'a>,
    pub(super) replaced: Vec<(TextRange, String)>,
    pub(super) deleted: Vec<(TextRange, String)>,
    pub(super) gone: Vec<TextRange>,
    pub(super) attributes: Vec<NodeId>,
    pub(super) imports: BTreeSet<String>,
    /// Names of functions and values that went because nothing uses them any more.
    pub(super) removed: BTreeSet<String>,
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

    pub(super) fn delete_range(&mut self, range: TextRange, text: String) {
        if !self.deleted.iter().any(|(known, _)| *known == range) {
            self.deleted.push((range, text));
        }
    }

    /// The edits, after what nothing uses any more has been removed, and the imports added.
    #[must_use]
    pub fn finish(mut self) -> (Vec<Edit>, BTreeSet<String>) {
        self.remove_all_unused();
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

    pub(super) fn is_gone(&self, range: TextRange) -> bool {
        self.gone.iter().any(|gone| gone.contains_range(range))
    }

    pub(super) fn is_gone_id(&self, id: NodeId) -> bool {
        let node = self.context.index.get(id);
        node.is_none_or(|node| self.is_gone(node.node.range()))
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
    pub(super) fn own_line(&self, range: TextRange) -> Option<TextRange> {
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
