//! Python source: parsed with exact ranges. The only user of the Python parser.
//!
//! ```text
//! bytes ──> file.rs (encoding, notebooks not, parser) ──> SourceFile
//!       ──> index.rs: every node with its parent, function and loops
//!       ──> names.rs: what a name or an attribute stands for, through imports
//!       ──> rules (SourceContext) ──> Remarks with Edits ──> edits.rs: new text, parsed again
//! ```

pub mod bindings;
pub mod edits;
mod file;
mod imports;
mod index;
mod names;
mod project;
pub mod rewrite;
mod unused;

pub use file::{SourceFile, SourceNote};
pub use index::{Index, Node, NodeId};
pub use names::Names;
pub use project::{Project, check};
pub use ruff_python_ast as ast;
pub use ruff_text_size::{Ranged, TextRange, TextSize};

use crate::finding::{Edit, Place};

/// What a rule of source code sees: one file, and what is known of the project.
#[derive(Clone, Copy, Debug)]
pub struct SourceContext<'a> {
    /// What all files have in common.
    pub project: &'a Project,
    /// The file.
    pub file: &'a SourceFile,
    /// Its nodes.
    pub index: &'a Index<'a>,
    /// What its names stand for.
    pub names: &'a Names<'a>,
}

impl<'a> SourceContext<'a> {
    /// The place of a range of the file.
    #[must_use]
    pub fn place(&self, range: TextRange, label: impl Into<String>) -> Place {
        self.file.place(range, label)
    }

    /// A replacement of a range of the file.
    #[must_use]
    pub fn edit(&self, range: TextRange, replacement: impl Into<String>) -> Edit {
        Edit {
            file: self.file.path.clone(),
            start: range.start().to_usize(),
            end: range.end().to_usize(),
            replacement: replacement.into(),
        }
    }

    /// The text of a node.
    #[must_use]
    pub fn text(&self, node: impl Ranged) -> &'a str {
        self.file
            .text
            .get(std::ops::Range::<usize>::from(node.range()))
            .unwrap_or_default()
    }

    /// What an expression stands for, through imports: `F.relu` is `torch.nn.functional.relu`
    /// after `import torch.nn.functional as F`. None for what is not imported.
    #[must_use]
    pub fn qualified(&self, expression: &ast::Expr) -> Option<String> {
        self.names.qualified(expression, self.index)
    }

    /// All calls of the file, in source order.
    pub fn calls(&self) -> impl Iterator<Item = (NodeId, &'a ast::ExprCall)> + use<'a> {
        let index = self.index;
        index.nodes().filter_map(|(id, node)| match node.node {
            ast::AnyNodeRef::ExprCall(call) => Some((id, call)),
            _ => None,
        })
    }

    /// All calls of what `wanted` accepts by its qualified name.
    pub fn calls_of(
        &self,
        wanted: impl Fn(&str) -> bool,
    ) -> impl Iterator<Item = (NodeId, &'a ast::ExprCall, String)> {
        let context = *self;
        self.calls().filter_map(move |(id, call)| {
            let name = context.qualified(&call.func)?;
            wanted(&name).then_some((id, call, name))
        })
    }
}
