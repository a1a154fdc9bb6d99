//! Python source: parsed with exact ranges. The only user of the Python parser.
//!
//! ```text
//! bytes ──> file.rs (encoding, notebooks not, parser) ──> SourceFile
//!       ──> index.rs: every node with its parent, function and loops
//!       ──> names.rs: what a name or an attribute stands for, through imports
//!       ──> scopes.rs: bindings; transforms.rs: what is traced; tensors.rs: what is a tensor
//!           (libraries.rs, annotations.rs); hot.rs: what runs in every step
//!       ──> rules (SourceContext) ──> Remarks with Edits ──> edits.rs: new text, parsed again
//! ```

mod annotations;
pub mod bindings;
mod calls;
pub mod edits;
mod file;
mod flow;
mod hot;
mod imports;
mod index;
mod libraries;
mod modules;
mod names;
mod nesting;
mod project;
pub mod rewrite;
mod scopes;
mod tensors;
mod transforms;
mod turns;
mod unused;
mod value;

pub use file::{SourceFile, SourceNote};
pub use hot::{Heat, HeatKind, Hot};
pub use index::{Index, Node, NodeId};
pub use names::Names;
pub use project::{Project, check, with_context};
pub use ruff_python_ast as ast;
pub use ruff_text_size::{Ranged, TextRange, TextSize};
pub use tensors::Tensors;
pub use transforms::{Trace, Transforms};
pub use value::{Certainty, Framework, Tensor, Value};

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
    /// Where its names are bound.
    pub bindings: &'a bindings::Bindings<'a>,
    /// Which of its functions are traced.
    pub transforms: &'a Transforms<'a>,
    /// Which of its expressions are tensors.
    pub tensors: &'a Tensors<'a>,
    /// Which of its code runs in every step.
    pub hot: &'a Hot<'a>,
    /// What is bound where.
    scopes: &'a scopes::Scopes<'a>,
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

    /// Whether an expression of the file is a tensor, how surely, and whose.
    #[must_use]
    pub fn tensor(&self, expression: &'a ast::Expr) -> Option<Tensor> {
        self.tensors.tensor(expression)
    }

    /// What is known of an expression of the file: a tensor, a module, a loader, a Python value.
    #[must_use]
    pub fn value(&self, expression: &'a ast::Expr) -> Value {
        self.tensors.value(expression)
    }

    /// Why a node runs in every step or is traced; none where it does not, as far as can be seen.
    #[must_use]
    pub fn heat(&self, id: NodeId) -> Option<&'a Heat> {
        self.hot.heat(id)
    }

    /// The function of the file that a call calls: by its name, or as a method of `self`.
    #[must_use]
    pub fn callee(&self, call: &'a ast::ExprCall) -> Option<&'a ast::StmtFunctionDef> {
        let at = self.index.id_of(call)?;
        let id = self.scopes.callee(self.index, at, &call.func)?;
        match self.index.get(id)?.node {
            ast::AnyNodeRef::StmtFunctionDef(function) => Some(function),
            _ => None,
        }
    }

    /// The calls of a function in this file.
    #[must_use]
    pub fn calls_to(&self, function: NodeId) -> &'a [&'a ast::ExprCall] {
        self.scopes.calls_of(function)
    }

    /// The expressions that are assigned to a name in the scope of a node, in source order;
    /// loop variables, parameters and parts of tuples are left out.
    #[must_use]
    pub fn assigned(&self, at: NodeId, name: &str) -> Vec<&'a ast::Expr> {
        self.scopes.assigned(self.index, at, name)
    }

    /// What a name is a part of: the value that a tuple of targets, its name among them, unpacks.
    #[must_use]
    pub fn unpacked_from(&self, at: NodeId, name: &str) -> Option<&'a ast::Expr> {
        self.scopes.unpacked_from(self.index, at, name)
    }

    /// Whether the file is one whose code runs once: a test, a converter, a set-up script.
    #[must_use]
    pub fn runs_once(&self) -> bool {
        hot::runs_once(&self.file.path)
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
