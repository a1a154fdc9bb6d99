//! Calls whose tensors are on the host: what prepares data and weights there runs as it is.

use std::collections::{BTreeMap, BTreeSet};

use crate::python::ast::{AnyNodeRef, Expr};

use super::used::Use;
use crate::python::{NodeId, SourceContext};

/// Words of a statement that reads or writes the host.
const HOST_WORDS: &[&str] = &[".cpu()", "\"cpu\"", "numpy", "np."];
/// Words of a class that prepares inputs.
const DATA_WORDS: &[&str] = &["Processor", "Dataset", "Transform", "Collator"];

/// What a file computes on the host.
#[derive(Debug, Default)]
pub struct OnHost<'a> {
    /// Functions that are called in the file, and whether only by what builds modules.
    builders: BTreeMap<&'a str, bool>,
    /// Names that `torch.tensor` without a device is assigned to, by function.
    plain: BTreeSet<(Option<NodeId>, &'a str)>,
}

impl<'a> OnHost<'a> {
    /// Looks through a file.
    #[must_use]
    pub fn new(context: &SourceContext<'a>) -> Self {
        let mut host = Self::default();
        for (id, node) in context.index.nodes() {
            match node.node {
                AnyNodeRef::ExprCall(call) => {
                    if let Expr::Name(name) = call.func.as_ref() {
                        let caller = context.index.function_of(id);
                        let builds = caller.is_some_and(|caller| caller.name.contains("init"));
                        let only = host.builders.entry(name.id.as_str()).or_insert(true);
                        *only &= builds;
                    }
                }
                AnyNodeRef::StmtAssign(assign) => {
                    let Some(call) = assign.value.as_call_expr() else {
                        continue;
                    };
                    let maker = context.qualified(&call.func);
                    if maker.as_deref() == Some("torch.tensor")
                        && call.arguments.find_keyword("device").is_none()
                    {
                        let names = assign.targets.iter().filter_map(Expr::as_name_expr);
                        let names = names.map(|name| (node.function, name.id.as_str()));
                        host.plain.extend(names);
                    }
                }
                _ => {}
            }
        }
        host
    }

    /// Whether a call's tensors are on the host.
    #[must_use]
    pub fn has(&self, context: &SourceContext<'a>, used: &Use<'a>) -> bool {
        let text = match context.index.statement_of(used.id) {
            // The test of a branch is not its body.
            Some(
                AnyNodeRef::StmtIf(_)
                | AnyNodeRef::StmtFor(_)
                | AnyNodeRef::StmtWhile(_)
                | AnyNodeRef::StmtWith(_),
            )
            | None => context.text(used.call),
            Some(simple) => context.text(simple),
        };
        HOST_WORDS.iter().any(|word| text.contains(word))
            || prepares_data(context, used)
            || self.prepares_weights(context, used)
            || self.is_of_plain_tensors(context, used)
    }

    /// Whether it stands in a function that fills weights, which are moved afterwards. Modules are
    /// built there, too, and called elsewhere.
    fn prepares_weights(&self, context: &SourceContext<'a>, used: &Use<'a>) -> bool {
        let Some(function) = context.index.function_of(used.id) else {
            return false;
        };
        let name = function.name.as_str();
        let fills = name.contains("init")
            || name.starts_with("convert")
            || name.contains("reset_parameters")
            || self.builders.get(name) == Some(&true);
        fills && !used.name.starts_with("torch.nn.")
    }

    fn is_of_plain_tensors(&self, context: &SourceContext<'a>, used: &Use<'a>) -> bool {
        let function = context.index.get(used.id).and_then(|node| node.function);
        let arguments = &used.call.arguments.args;
        !arguments.is_empty()
            && arguments.iter().all(|argument| {
                let name = argument.as_name_expr();
                name.is_some_and(|name| self.plain.contains(&(function, name.id.as_str())))
            })
    }
}

/// Whether a call is in a class or file that prepares inputs.
fn prepares_data(context: &SourceContext<'_>, used: &Use<'_>) -> bool {
    let class = context.index.class_of(used.id);
    let of_class = class.is_some_and(|class| {
        let name = class.name.as_str();
        DATA_WORDS.iter().any(|word| name.contains(word))
    });
    let file = context.file.path.rsplit(['/', '\\']).next();
    of_class || file.is_some_and(|name| name.contains("processing"))
}
