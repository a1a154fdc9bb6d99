//! What rules on operations need to know of a file: names, hot functions, masks.

use crate::finding::{Place, Remark};
use crate::python::bindings::{Bindings, Bound};
use crate::python::{Framework, HeatKind, NodeId, Ranged, SourceContext, ast};
use ast::{AnyNodeRef, CmpOp, Expr, ExprCall, StmtFunctionDef, UnaryOp};

/// Places that a finding lists.
const MAX_PLACES: usize = 12;
/// Names are followed this deep.
const MAX_DEPTH: usize = 6;

/// What a file's code is.
#[derive(Debug)]
pub(crate) struct Code<'c, 'a> {
    pub(crate) context: &'c SourceContext<'a>,
    pub(crate) bindings: &'a Bindings<'a>,
    /// An excerpt: no imports, so the usual names stand for themselves.
    excerpt: bool,
}

impl<'c, 'a> Code<'c, 'a> {
    /// Reads a file; none for tests and converters, and for what uses neither PyTorch nor JAX.
    pub(crate) fn new(context: &'c SourceContext<'a>) -> Option<Self> {
        let excerpt = context.names.imported().next().is_none();
        let uses = |module: &str| context.names.imports(module);
        if context.runs_once() || !(excerpt || uses("torch") || uses("jax") || uses("torch_xla")) {
            return None;
        }
        Some(Self {
            context,
            bindings: context.bindings,
            excerpt,
        })
    }

    /// What an expression stands for, through imports.
    pub(crate) fn name(&self, expression: &Expr) -> Option<String> {
        self.context.qualified(expression)
    }

    /// Whether the file uses PyTorch.
    pub(crate) fn is_torch(&self) -> bool {
        self.context.names.imports("torch") || self.context.names.imports("torch_xla")
    }

    /// Whether it is for PyTorch/XLA, and not for TorchTPU.
    pub(crate) fn is_torch_xla(&self) -> bool {
        self.context.names.imports("torch_xla") && !self.context.names.imports("torch_tpu")
    }

    /// Calls with what they call, where that is known.
    pub(crate) fn named_calls(&self) -> impl Iterator<Item = (NodeId, &'a ExprCall, String)> {
        self.context
            .calls()
            .filter_map(|(id, call)| Some((id, call, self.name(&call.func)?)))
    }

    /// Why a node runs in each step, as a clause.
    pub(crate) fn heat(&self, id: NodeId) -> Option<String> {
        if let Some(heat) = self.context.heat(id) {
            return Some(heat.why.clone());
        }
        let is_top = self.context.index.function_of(id).is_none();
        (self.excerpt && is_top).then(|| "the excerpt runs in each step".to_owned())
    }

    /// Whether JAX traces the function that a node is in.
    pub(crate) fn is_traced(&self, id: NodeId) -> bool {
        self.context
            .heat(id)
            .is_some_and(|heat| heat.kind == HeatKind::Traced && heat.framework == Framework::Jax)
    }

    /// Whether an expression is a mask: a tensor of truth values.
    pub(crate) fn is_mask(&self, expression: &'a Expr) -> bool {
        self.mask(expression, 0)
    }

    fn mask(&self, expression: &'a Expr, depth: usize) -> bool {
        if depth > MAX_DEPTH {
            return false;
        }
        let inner = |expression: &'a Expr| self.mask(expression, depth + 1);
        match expression {
            Expr::Compare(it) => {
                // A comparison of a tensor: with a subscript, a call or a name against a value.
                !it.ops
                    .iter()
                    .any(|op| matches!(op, CmpOp::Is | CmpOp::IsNot | CmpOp::In | CmpOp::NotIn))
                    && !it.comparators.iter().any(Expr::is_string_literal_expr)
            }
            Expr::UnaryOp(it) if it.op == UnaryOp::Invert => {
                inner(&it.operand) || mask_name(self.context.text(&*it.operand))
            }
            Expr::BinOp(it)
                if matches!(
                    it.op,
                    ast::Operator::BitAnd | ast::Operator::BitOr | ast::Operator::BitXor
                ) =>
            {
                inner(&it.left) || inner(&it.right)
            }
            Expr::Call(call) => {
                if let Some(name) = self.name(&call.func) {
                    let last = name.rsplit('.').next().unwrap_or_default();
                    return MASKS.contains(&last)
                        && (name.starts_with("torch.") || name.starts_with("jax."));
                }
                match &*call.func {
                    Expr::Attribute(method) => {
                        MASKS.contains(&method.attr.as_str())
                            || (SAME.contains(&method.attr.as_str()) && inner(&method.value))
                    }
                    _ => false,
                }
            }
            Expr::Name(name) => {
                match self.bindings.only(name, self.context.index).map(|b| b.what) {
                    Some(Bound::Assigned(assign)) => inner(&assign.value),
                    _ => false,
                }
            }
            _ => false,
        }
    }

    /// Whether nothing says that a value is NumPy's, pandas', or a list.
    pub(crate) fn may_be_tensor(&self, base: &'a Expr) -> bool {
        const FOREIGN: &[&str] = &["np.", "numpy.", "pd.", "cv2.", "[", "list(", "{"];
        let text = self.context.text(base);
        if FOREIGN.iter().any(|start| text.starts_with(start)) || text == "df" {
            return false;
        }
        let Expr::Name(name) = base else { return true };
        let index = self.context.index;
        let Some(id) = index.id_of(name) else {
            return true;
        };
        self.bindings
            .visible(name.id.as_str(), id, index)
            .iter()
            .all(|binding| match binding.what {
                Bound::Assigned(assign) => {
                    let value = self.context.text(&*assign.value);
                    !FOREIGN.iter().any(|start| value.starts_with(start))
                        && !value.ends_with(".numpy()")
                }
                _ => true,
            })
    }

    /// A place.
    pub(crate) fn place(&self, node: impl Ranged, label: impl Into<String>) -> Place {
        self.context.place(node.range(), label)
    }

    /// The function that a name is of, when its only binding is one.
    pub(crate) fn function(&self, expression: &'a Expr) -> Option<&'a StmtFunctionDef> {
        let Expr::Name(name) = expression else {
            return None;
        };
        match self.bindings.only(name, self.context.index)?.what {
            Bound::Function(function) => Some(function),
            _ => None,
        }
    }

    /// The value that a name had last before its use, in the order of the text; other expressions
    /// stand for themselves.
    pub(crate) fn latest(&self, expression: &'a Expr) -> &'a Expr {
        let Expr::Name(name) = expression else {
            return expression;
        };
        let index = self.context.index;
        let Some(id) = index.id_of(name) else {
            return expression;
        };
        let visible = self.bindings.visible(name.id.as_str(), id, index);
        visible
            .iter()
            .rev()
            .find_map(|binding| match binding.what {
                Bound::Assigned(assign) if assign.range.end() <= name.range.start() => {
                    Some(&*assign.value)
                }
                _ => None,
            })
            .unwrap_or(expression)
    }

    /// All nodes within a range that is one node.
    pub(crate) fn within(&self, id: NodeId) -> impl Iterator<Item = (NodeId, AnyNodeRef<'a>)> {
        self.context
            .index
            .descendants(id)
            .map(|(id, node)| (id, node.node))
    }

    /// What an attribute of `self` is set to in the class around a node, if once.
    pub(crate) fn self_value(&self, attribute: &'a ast::ExprAttribute) -> Option<&'a Expr> {
        let index = self.context.index;
        if !matches!(&*attribute.value, Expr::Name(own) if own.id == "self") {
            return None;
        }
        let class = index.class_of(index.id_of(attribute)?)?;
        let mut found = None;
        for (_, node) in self.within(index.id_of(class)?) {
            let AnyNodeRef::StmtAssign(assign) = node else {
                continue;
            };
            let [Expr::Attribute(target)] = assign.targets.as_slice() else {
                continue;
            };
            let own = matches!(&*target.value, Expr::Name(own) if own.id == "self");
            if own
                && target.attr.as_str() == attribute.attr.as_str()
                && found.replace(&*assign.value).is_some()
            {
                return None;
            }
        }
        found
    }
}

/// Adds places to a remark, those beyond the limit counted in a caveat.
pub(crate) fn with_places(remark: &mut Remark, places: Vec<Place>) {
    let more = places.len().saturating_sub(MAX_PLACES);
    remark.places.extend(places.into_iter().take(MAX_PLACES));
    if more > 0 {
        remark
            .caveats
            .push(format!("{more} more places are not listed."));
    }
}

/// Functions and methods whose result is a mask.
const MASKS: &[&str] = &[
    "bool",
    "eq",
    "ne",
    "gt",
    "ge",
    "lt",
    "le",
    "isnan",
    "isinf",
    "isfinite",
    "isin",
    "logical_and",
    "logical_or",
    "logical_not",
    "logical_xor",
    "equal",
    "not_equal",
    "greater",
    "greater_equal",
    "less",
    "less_equal",
];
/// Methods that leave a mask a mask.
const SAME: &[&str] = &[
    "transpose",
    "unsqueeze",
    "squeeze",
    "view",
    "reshape",
    "flatten",
    "expand",
    "expand_as",
    "to",
    "permute",
    "t",
    "contiguous",
];

/// Whether a text names a mask.
pub(crate) fn mask_name(text: &str) -> bool {
    let last = text.split('(').next().unwrap_or(text);
    last.split('.')
        .any(|part| part == "mask" || part.ends_with("_mask"))
}
