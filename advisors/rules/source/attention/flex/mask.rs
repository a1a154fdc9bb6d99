//! What a `mask_mod` masks: causal, sliding window, documents, padding, and combinations.

use crate::python::{Ranged as _, TextRange, ast};
use crate::rules::source::attention::flex::function::{self, Function, Scope, short};
use ast::{AnyNodeRef, CmpOp, Expr, Number, Operator, UnaryOp};

const FLEX: &str = "torch.nn.attention.flex_attention.";
/// Combinations are followed this deep.
const MAX_DEPTH: usize = 8;

/// Positions of the parameters of a mask_mod.
const BATCH: usize = 0;
const HEAD: usize = 1;
const QUERY: usize = 2;
const KEY: usize = 3;

/// What a part of a mask does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Nothing is masked.
    Full,
    /// `q >= kv`.
    Causal,
    /// The distance is limited.
    Window,
    /// Both positions have the same label.
    Document,
    /// Keys (or queries) are masked by position and batch alone.
    Padding,
    /// One of several is enough.
    Either,
    /// Something else, on each element.
    Other,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Causal => "causal",
            Self::Window => "sliding-window",
            Self::Document => "document",
            Self::Padding => "padding",
            Self::Either => "one-of-several",
            Self::Other => "custom",
        }
    }
}

/// A mask whose value at each position can be computed densely.
#[derive(Clone, Debug)]
pub(crate) enum Mask<'a> {
    /// A function of the indices.
    Leaf {
        /// How it is named.
        callable: &'a Expr,
        /// Its text; none where only its name is known to be elementwise.
        function: Option<Function<'a>>,
        /// What its parts do, all of them at once.
        kinds: Vec<Kind>,
        /// Every position sees itself.
        diagonal: bool,
        /// Whether it depends on the batch, the head, the query and the key.
        uses: [bool; 4],
    },
    /// All of them.
    And(Vec<Self>),
    /// Any of them.
    Or(Vec<Self>),
}

/// The mask that an expression stands for, or why it is not known.
pub(crate) fn of<'a>(
    scope: Scope<'_, 'a>,
    expression: &'a Expr,
    depth: usize,
) -> Result<Mask<'a>, String> {
    let context = scope.context;
    if depth > MAX_DEPTH {
        return Err("the mask is combined too deeply".to_owned());
    }
    let value = scope.bindings.value(expression, context.index);
    if let Expr::Call(call) = value
        && let Some(name) = context.qualified(&call.func)
    {
        let combined = match name.strip_prefix(FLEX) {
            Some("and_masks") => Some(true),
            Some("or_masks") => Some(false),
            _ => None,
        };
        if let Some(all) = combined {
            if !call.arguments.keywords.is_empty()
                || call.arguments.args.iter().any(Expr::is_starred_expr)
            {
                return Err(format!(
                    "the masks of `{}` are not listed",
                    short(context.text(value))
                ));
            }
            let parts: Result<Vec<Mask<'a>>, String> = call
                .arguments
                .args
                .iter()
                .map(|part| of(scope, part, depth + 1))
                .collect();
            return Ok(if all {
                Mask::And(parts?)
            } else {
                Mask::Or(parts?)
            });
        }
        if let Some(kinds) = gallery(&name) {
            return Ok(known(expression, kinds));
        }
    }
    if let Some(name) = context.qualified(value) {
        if name == format!("{FLEX}noop_mask") {
            return Ok(known(expression, vec![Kind::Full]));
        }
        if let Some(kinds) = gallery(&name) {
            return Ok(known(expression, kinds));
        }
    }
    let function = function::resolve(scope, expression, 4, 0)?;
    leaf(scope, expression, function)
}

/// Masks of the gallery of examples, <https://github.com/meta-pytorch/attention-gym>.
fn gallery(name: &str) -> Option<Vec<Kind>> {
    let name = name.strip_prefix("attn_gym.")?;
    Some(match name.rsplit('.').next()? {
        "causal_mask" => vec![Kind::Causal],
        "generate_sliding_window" => vec![Kind::Causal, Kind::Window],
        "generate_doc_mask_mod" => vec![Kind::Document, Kind::Other],
        "generate_prefix_lm_mask" => vec![Kind::Either],
        _ => return None,
    })
}

fn known<'a>(callable: &'a Expr, kinds: Vec<Kind>) -> Mask<'a> {
    Mask::Leaf {
        callable,
        function: None,
        diagonal: !kinds.contains(&Kind::Other),
        kinds,
        uses: [false, false, true, true],
    }
}

fn leaf<'a>(
    scope: Scope<'_, 'a>,
    callable: &'a Expr,
    function: Function<'a>,
) -> Result<Mask<'a>, String> {
    if let Some(reason) = function.not_elementwise(scope) {
        return Err(format!(
            "`{}` cannot be computed for all positions at once: {reason}",
            short(scope.context.text(callable))
        ));
    }
    let mut terms = Vec::new();
    flatten(scope, &function, function.value, &mut terms, 0);
    let diagonal = terms.iter().all(|(_, keeps)| *keeps);
    let mut kinds: Vec<Kind> = terms.into_iter().map(|(kind, _)| kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let used = function.uses(scope, function.value);
    let uses = |at: usize| used.get(at).copied().unwrap_or(true);
    Ok(Mask::Leaf {
        callable,
        uses: [BATCH, HEAD, QUERY, KEY].map(uses),
        function: Some(function),
        kinds,
        diagonal,
    })
}

/// The terms of a conjunction: what each does, and whether every position sees itself by it.
fn flatten<'a>(
    scope: Scope<'_, 'a>,
    function: &Function<'a>,
    expression: &'a Expr,
    terms: &mut Vec<(Kind, bool)>,
    depth: usize,
) {
    let expression = function.look(expression);
    if depth > MAX_DEPTH {
        terms.push((Kind::Other, false));
        return;
    }
    match expression {
        Expr::BinOp(it) if it.op == Operator::BitAnd => {
            flatten(scope, function, &it.left, terms, depth + 1);
            flatten(scope, function, &it.right, terms, depth + 1);
        }
        Expr::BinOp(it) if it.op == Operator::BitOr => {
            let mut sides = [Vec::new(), Vec::new()];
            let [left, right] = &mut sides;
            flatten(scope, function, &it.left, left, depth + 1);
            flatten(scope, function, &it.right, right, depth + 1);
            let keeps = sides
                .iter()
                .any(|side| side.iter().all(|(_, keeps)| *keeps));
            terms.push((Kind::Either, keeps));
        }
        Expr::Call(call) => {
            let name = scope.context.qualified(&call.func);
            if name.as_deref() == Some("torch.logical_and")
                && let [left, right] = &*call.arguments.args
            {
                flatten(scope, function, left, terms, depth + 1);
                flatten(scope, function, right, terms, depth + 1);
            } else if let Some(nested) = function.nested(scope, call) {
                flatten(scope, &nested, nested.value, terms, depth + 1);
            } else {
                terms.push((Kind::Other, false));
            }
        }
        _ => terms.push(term(scope, function, expression)),
    }
}

fn term<'a>(scope: Scope<'_, 'a>, function: &Function<'a>, expression: &'a Expr) -> (Kind, bool) {
    if matches!(expression, Expr::BooleanLiteral(it) if it.value) {
        return (Kind::Full, true);
    }
    let used = function.uses(scope, expression);
    let uses = |at: usize| used.get(at).copied().unwrap_or(true);
    if uses(QUERY) != uses(KEY) && !uses(HEAD) {
        let zero = |e: &Expr| number(e) == Some(0.0);
        let full = matches!(expression, Expr::Compare(it)
            if *it.ops == [CmpOp::GtE] && it.comparators.iter().all(zero)
                && (function.is(&it.left, QUERY) || function.is(&it.left, KEY)));
        return if full {
            (Kind::Full, true)
        } else {
            (Kind::Padding, false)
        };
    }
    let Expr::Compare(compare) = expression else {
        return (Kind::Other, false);
    };
    let ([op], [right]) = (&*compare.ops, &*compare.comparators) else {
        return (Kind::Other, false);
    };
    let (left, right) = (function.look(&compare.left), function.look(right));
    // As `large >= small`.
    let (large, small, strict) = match op {
        CmpOp::GtE => (left, right, false),
        CmpOp::LtE => (right, left, false),
        CmpOp::Gt => (left, right, true),
        CmpOp::Lt => (right, left, true),
        CmpOp::Eq if same_label(scope, function, left, right) => return (Kind::Document, true),
        _ => return (Kind::Other, false),
    };
    if function.is(large, QUERY) && function.is(small, KEY) {
        return if strict {
            (Kind::Other, false)
        } else {
            (Kind::Causal, true)
        };
    }
    let limit = |e: &'a Expr| !function.uses(scope, e).contains(&true);
    let window = |e: &'a Expr, limit_of: &'a Expr| {
        limit(limit_of)
            && (is_difference(scope, function, e))
            && number(limit_of).is_none_or(|n| n > 0.0 || (n == 0.0 && !strict))
    };
    // `q - kv <= W`, `|q - kv| <= W`.
    if window(small, large) {
        return (Kind::Window, true);
    }
    // `kv >= q - W`.
    let minus = |a: &'a Expr, from: usize, to: usize| {
        matches!(a, Expr::BinOp(it) if it.op == Operator::Sub
            && function.is(&it.left, from) && limit(&it.right)
            && number(&it.right).is_none_or(|n| n > 0.0))
            && to != from
    };
    let plus = |a: &'a Expr, from: usize| {
        matches!(a, Expr::BinOp(it) if it.op == Operator::Add
            && function.is(&it.left, from) && limit(&it.right)
            && number(&it.right).is_none_or(|n| n > 0.0))
    };
    if (function.is(large, KEY) && minus(small, QUERY, KEY))
        || (function.is(large, QUERY) && minus(small, KEY, QUERY))
        || (plus(large, KEY) && function.is(small, QUERY))
        || (plus(large, QUERY) && function.is(small, KEY))
    {
        return (Kind::Window, true);
    }
    (Kind::Other, false)
}

/// `q - kv`, `kv - q`, or the absolute value of one.
fn is_difference<'a>(scope: Scope<'_, 'a>, function: &Function<'a>, expression: &'a Expr) -> bool {
    match function.look(expression) {
        Expr::BinOp(it) => {
            it.op == Operator::Sub
                && ((function.is(&it.left, QUERY) && function.is(&it.right, KEY))
                    || (function.is(&it.left, KEY) && function.is(&it.right, QUERY)))
        }
        Expr::Call(call) => {
            let inner = match (&*call.func, &*call.arguments.args) {
                (Expr::Attribute(it), []) if it.attr.as_str() == "abs" => &*it.value,
                (func, [inner])
                    if scope.context.qualified(func).as_deref() == Some("torch.abs") =>
                {
                    inner
                }
                (Expr::Name(name), [inner]) if name.id == "abs" => inner,
                _ => return false,
            };
            matches!(function.look(inner), Expr::BinOp(_)) && is_difference(scope, function, inner)
        }
        _ => false,
    }
}

/// `label[q] == label[kv]`.
fn same_label<'a>(
    scope: Scope<'_, 'a>,
    function: &Function<'a>,
    left: &'a Expr,
    right: &'a Expr,
) -> bool {
    let (a, b) = (
        index_free(scope, function, left),
        index_free(scope, function, right),
    );
    let uses = |e: &'a Expr, at: usize| function.uses(scope, e).get(at).copied().unwrap_or(false);
    a == b
        && left.is_subscript_expr()
        && ((uses(left, QUERY) && uses(right, KEY)) || (uses(left, KEY) && uses(right, QUERY)))
}

/// The text with one sign for both positions.
fn index_free<'a>(scope: Scope<'_, 'a>, function: &Function<'a>, expression: &'a Expr) -> String {
    substitute(scope, function, expression, &|at| {
        (at == QUERY || at == KEY).then_some("#")
    })
}

/// The text of an expression with parameters replaced.
pub(crate) fn substitute<'a, 't>(
    scope: Scope<'_, 'a>,
    function: &Function<'a>,
    expression: &'a Expr,
    by: &dyn Fn(usize) -> Option<&'t str>,
) -> String {
    let index = scope.context.index;
    let base = expression.range().start();
    let mut out = String::new();
    let text = scope.context.text(expression);
    let mut from = 0;
    if let Some(id) = index.id_of_expr(expression) {
        let own = index.get(id).into_iter().map(|node| node.node);
        for node in own.chain(index.descendants(id).map(|(_, node)| node.node)) {
            let AnyNodeRef::ExprName(name) = node else {
                continue;
            };
            let at = function
                .parameters
                .iter()
                .position(|own| *own == name.id.as_str());
            let Some(new) = at.and_then(by) else { continue };
            let range = TextRange::new(name.range.start() - base, name.range.end() - base);
            out.push_str(text.get(from..range.start().to_usize()).unwrap_or_default());
            out.push_str(new);
            from = range.end().to_usize();
        }
    }
    out.push_str(text.get(from..).unwrap_or_default());
    out
}

/// The value of a number, with its sign.
pub(crate) fn number(expression: &Expr) -> Option<f64> {
    match expression {
        Expr::NumberLiteral(it) => match &it.value {
            Number::Int(int) => int.as_i64().map(|int| int as f64),
            Number::Float(float) => Some(*float),
            Number::Complex { .. } => None,
        },
        Expr::UnaryOp(it) if it.op == UnaryOp::USub => number(&it.operand).map(|n| -n),
        _ => None,
    }
}

impl<'a> Mask<'a> {
    fn leaves(&self) -> Vec<&Self> {
        match self {
            Self::Leaf { .. } => vec![self],
            Self::And(parts) | Self::Or(parts) => parts.iter().flat_map(Self::leaves).collect(),
        }
    }

    /// What its parts do.
    pub(crate) fn kinds(&self) -> Vec<Kind> {
        let mut kinds: Vec<Kind> = self
            .leaves()
            .into_iter()
            .flat_map(|leaf| match leaf {
                Self::Leaf { kinds, .. } => kinds.clone(),
                _ => Vec::new(),
            })
            .collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    /// Words for what it masks.
    pub(crate) fn words(&self) -> String {
        let mut kinds = self.kinds();
        if kinds.len() > 1 {
            kinds.retain(|kind| *kind != Kind::Full);
        }
        let names: Vec<&str> = kinds.into_iter().map(Kind::name).collect();
        names.join(" and ")
    }

    fn is_conjunction(&self) -> bool {
        match self {
            Self::Leaf { .. } => true,
            Self::And(parts) => parts.iter().all(Self::is_conjunction),
            Self::Or(_) => false,
        }
    }

    /// Nothing is masked.
    pub(crate) fn is_full(&self) -> bool {
        self.kinds() == [Kind::Full]
    }

    /// Exactly `q >= kv`.
    pub(crate) fn is_causal(&self) -> bool {
        let mut kinds = self.kinds();
        kinds.retain(|kind| *kind != Kind::Full);
        kinds == [Kind::Causal] && self.is_conjunction()
    }

    /// Whether every position certainly sees itself, so that no row is masked wholly.
    pub(crate) fn keeps_diagonal(&self) -> bool {
        match self {
            Self::Leaf { diagonal, .. } => *diagonal,
            Self::And(parts) => parts.iter().all(Self::keeps_diagonal),
            Self::Or(parts) => parts.iter().any(Self::keeps_diagonal),
        }
    }

    /// Whether its text is known.
    pub(crate) fn is_seen(&self) -> bool {
        self.leaves().into_iter().all(|leaf| {
            matches!(
                leaf,
                Self::Leaf {
                    function: Some(_),
                    ..
                }
            )
        })
    }

    /// Whether it depends on the batch, the head, the query and the key.
    pub(crate) fn uses(&self) -> [bool; 4] {
        let mut out = [false; 4];
        for leaf in self.leaves() {
            if let Self::Leaf { uses, .. } = leaf {
                for (out, uses) in out.iter_mut().zip(uses) {
                    *out |= uses;
                }
            }
        }
        out
    }

    /// The dense mask from index tensors: batch, head, query, key.
    pub(crate) fn dense(&self, scope: Scope<'_, 'a>, indices: [&str; 4]) -> String {
        match self {
            Self::Leaf {
                callable, function, ..
            } => match function {
                Some(function) if function.is_lambda && callable.is_lambda_expr() => {
                    substitute(scope, function, function.value, &|at| {
                        indices.get(at).copied()
                    })
                }
                _ => format!("{}({})", scope.context.text(*callable), indices.join(", ")),
            },
            Self::And(parts) | Self::Or(parts) => {
                let sign = if matches!(self, Self::And(_)) {
                    " & "
                } else {
                    " | "
                };
                let parts: Vec<String> = parts
                    .iter()
                    .map(|part| {
                        let bare = matches!(part, Self::Leaf { callable, .. } if !callable.is_lambda_expr());
                        let text = part.dense(scope, indices);
                        if bare { text } else { format!("({text})") }
                    })
                    .collect();
                parts.join(sign)
            }
        }
    }
}
