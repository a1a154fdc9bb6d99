//! What each call of FlexAttention becomes, or why it cannot.

use crate::finding::Applicability;
use crate::python::{NodeId, Ranged as _, TextRange, ast};
use crate::rules::source::attention::flex::call::{self, Argument, Creation, Holder};
use crate::rules::source::attention::flex::function::{self, Scope, short};
use crate::rules::source::attention::flex::mask::{self, Mask};
use crate::rules::source::attention::flex::score::{self, Score};
use crate::rules::source::attention::flex::{rewrite, sources};
use ast::{Expr, ExprCall};

/// Parameters of `flex_attention`, in order.
pub(crate) const PARAMETERS: &[&str] = &[
    "query",
    "key",
    "value",
    "score_mod",
    "block_mask",
    "scale",
    "enable_gqa",
    "return_lse",
    "kernel_options",
    "return_aux",
];
pub(crate) const QUERY: usize = 0;
pub(crate) const KEY: usize = 1;
pub(crate) const SCORE: usize = 3;
pub(crate) const MASK: usize = 4;
pub(crate) const SCALE: usize = 5;
pub(crate) const GQA: usize = 6;

/// What a call becomes.
#[derive(Clone, Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) id: NodeId,
    pub(crate) call: &'a ExprCall,
    pub(crate) arguments: Vec<Argument<'a>>,
    /// What the score_mod does; none where there is none.
    pub(crate) score: Option<Score>,
    /// The block mask, and where it is made; none where nothing is masked.
    pub(crate) mask: Option<(Mask<'a>, Creation<'a>)>,
    pub(crate) applicability: Applicability,
    /// Why it is not safe.
    pub(crate) doubts: Vec<String>,
}

/// A call that is left alone, and why.
#[derive(Clone, Debug)]
pub(crate) struct Refused<'a> {
    pub(crate) call: &'a ExprCall,
    pub(crate) has_score: bool,
    pub(crate) reason: String,
}

impl<'a> Plan<'a> {
    /// Words for what is masked and added.
    pub(crate) fn words(&self) -> String {
        let mask = match (&self.mask, &self.score) {
            (Some((mask, _)), _) => format!("a {} mask", mask.words()),
            (None, Some(Score::Causal)) => "a causal mask".to_owned(),
            (None, _) => "no mask".to_owned(),
        };
        match &self.score {
            Some(Score::Additive) => format!("{mask} and a bias"),
            Some(Score::Scale(_)) => format!("{mask} and a factor"),
            _ => mask,
        }
    }

    /// Whether `is_causal=True` says it all.
    pub(crate) fn is_causal(&self) -> bool {
        let mask = self.mask.as_ref().map(|(mask, _)| mask);
        match (&self.score, mask) {
            (Some(Score::Additive), _) => false,
            (Some(Score::Causal), mask) => mask.is_none_or(Mask::is_causal),
            (_, mask) => mask.is_some_and(Mask::is_causal),
        }
    }

    /// The creation of the mask, where it has to become a dense mask.
    pub(crate) fn dense(&self) -> Option<&(Mask<'a>, Creation<'a>)> {
        self.mask.as_ref().filter(|(mask, _)| !mask.is_causal())
    }
}

/// Plans for all calls of a file.
pub(crate) fn all<'a>(scope: Scope<'_, 'a>) -> (Vec<Plan<'a>>, Vec<Refused<'a>>) {
    let (mut plans, mut refused) = (Vec::new(), Vec::new());
    for (id, call) in call::calls(scope) {
        match plan(scope, id, call) {
            Ok(plan) => plans.push(plan),
            Err(reason) => refused.push(refuse(call, reason)),
        }
    }
    // A mask that something else uses too stays a block mask, and so do the calls that share it.
    loop {
        let known: Vec<TextRange> = plans
            .iter()
            .filter_map(|plan| call::value(&plan.arguments, MASK))
            .map(ast::Expr::range)
            .collect();
        let shared = plans.iter().position(|plan| {
            plan.dense()
                .is_some_and(|(_, made)| call::other_uses(scope, made.holder, &known).is_some())
        });
        let Some(at) = shared else { break };
        let plan = plans.remove(at);
        let line = plan
            .dense()
            .and_then(|(_, made)| call::other_uses(scope, made.holder, &known))
            .map_or(0, |range| scope.context.file.line_of(range.start()));
        let reason = format!(
            "line {line} also uses the block mask, and not as an argument that could change with it"
        );
        refused.push(refuse(plan.call, reason));
    }
    (plans, refused)
}

fn refuse(call: &ExprCall, reason: String) -> Refused<'_> {
    let has_score = call::arguments(call, PARAMETERS)
        .and_then(|arguments| call::value(&arguments, SCORE))
        .is_some_and(|score| !score.is_none_literal_expr());
    Refused {
        call,
        has_score,
        reason,
    }
}

fn plan<'a>(scope: Scope<'_, 'a>, id: NodeId, call: &'a ExprCall) -> Result<Plan<'a>, String> {
    let context = scope.context;
    let arguments = call::arguments(call, PARAMETERS)
        .ok_or_else(|| "its arguments are passed on with stars".to_owned())?;
    let given = |parameter: usize| {
        call::value(&arguments, parameter).filter(|value| !value.is_none_literal_expr())
    };
    if let Some(unknown) = arguments
        .iter()
        .find(|argument| argument.parameter.is_none())
    {
        return Err(format!(
            "`{}` is not an argument that is known",
            short(context.text(unknown.range))
        ));
    }
    let off = |value: &Expr| matches!(value, Expr::BooleanLiteral(it) if !it.value);
    if given(7).is_some_and(|value| !off(value)) || given(9).is_some() {
        return Err("it also returns the log-sum-exp of the scores, which scaled_dot_product_attention does not".to_owned());
    }
    let (Some(query), Some(key)) = (given(QUERY), given(KEY)) else {
        return Err("query and key are not to be seen".to_owned());
    };
    let mut doubts = Vec::new();
    let score = match given(SCORE) {
        None => None,
        Some(score_mod) => {
            let function = function::resolve(scope, score_mod, 5, 0)?;
            Some(score::of(
                scope,
                &function,
                &short(context.text(score_mod)),
            )?)
        }
    };
    let mask = match given(MASK) {
        None => None,
        Some(block_mask) => {
            let creation = call::creation(scope, block_mask)?;
            let mask_mod = call::value(&creation.arguments, 0)
                .ok_or_else(|| "create_block_mask has no mask_mod".to_owned())?;
            let mask = mask::of(scope, mask_mod, 0)?;
            (!mask.is_full()).then_some((mask, creation))
        }
    };
    if score == Some(Score::Additive) {
        if !(query.is_name_expr() && key.is_name_expr()) {
            return Err(
                "the bias needs the sizes of query and key, which are not names here".to_owned(),
            );
        }
        if rewrite::simple_statement(scope, id).is_none() {
            return Err(
                "the bias needs a line of its own, and the call is within another statement"
                    .to_owned(),
            );
        }
        let infinite = given(SCORE).is_some_and(|score_mod| score::masks(scope, score_mod));
        if infinite && mask.is_none() {
            doubts.push("a row may be masked wholly: FlexAttention gives zeros for it, and so does PyTorch, but not every kernel".to_owned());
        }
    }
    if let Some((mask, made)) = &mask {
        let text =
            |parameter| call::value(&made.arguments, parameter).map(|value| context.text(value));
        if mask.is_causal() {
            if text(3) != text(4) {
                doubts.push("the numbers of queries and keys differ".to_owned());
            }
        } else if !mask.keeps_diagonal() {
            doubts.push("a row may be masked wholly: FlexAttention gives zeros for it, and so does PyTorch, but not every kernel".to_owned());
        }
        if !mask.is_seen() {
            doubts.push("the text of a mask function is not in this file".to_owned());
        }
        if score == Some(Score::Causal) && !mask.is_causal() {
            return Err(
                "a causal score_mod and another block mask together are left to a person"
                    .to_owned(),
            );
        }
    } else if score == Some(Score::Causal) && !sources::same(scope, query, key) {
        doubts.push("query and key may differ in length".to_owned());
    }
    let plan = Plan {
        id,
        call,
        arguments,
        score,
        mask,
        applicability: Applicability::Safe,
        doubts,
    };
    check_dense(scope, &plan, query)?;
    Ok(Plan {
        applicability: if plan.doubts.is_empty() {
            Applicability::Safe
        } else {
            Applicability::Unsafe
        },
        ..plan
    })
}

/// Whether a dense mask can be made where the block mask is made.
fn check_dense<'a>(scope: Scope<'_, 'a>, plan: &Plan<'a>, query: &'a Expr) -> Result<(), String> {
    let Some((mask, made)) = plan.dense() else {
        return Ok(());
    };
    let given = |parameter| call::value(&made.arguments, parameter);
    if given(3).is_none() || given(4).is_none() {
        return Err("create_block_mask does not name Q_LEN and KV_LEN".to_owned());
    }
    device(scope, plan, query)
        .map(|_| ())
        .ok_or_else(|| "create_block_mask names no device".to_owned())?;
    let [batch, head, ..] = mask.uses();
    for (used, parameter, name) in [(batch, 1, "B"), (head, 2, "H")] {
        if used && given(parameter).is_none() {
            return Err(format!(
                "the mask depends on an index whose size, {name}, is not named"
            ));
        }
    }
    Ok(())
}

/// The text of the device of a mask.
pub(crate) fn device<'a>(scope: Scope<'_, 'a>, plan: &Plan<'a>, query: &'a Expr) -> Option<String> {
    let (_, made) = plan.mask.as_ref()?;
    let named = call::value(&made.arguments, 5).filter(|value| !value.is_none_literal_expr());
    if let Some(device) = named {
        return Some(scope.context.text(device).to_owned());
    }
    let Expr::Name(name) = query else { return None };
    let index = scope.context.index;
    let same_function = index.get(made.id).and_then(|node| node.function)
        == index.get(plan.id).and_then(|node| node.function);
    let before = scope
        .bindings
        .visible(name.id.as_str(), plan.id, index)
        .iter()
        .all(|binding| {
            index
                .get(binding.id)
                .is_some_and(|node| node.node.range().start() < made.call.range().start())
        });
    let inline = made.holder == Holder::Inline;
    (inline || (same_function && before)).then(|| format!("{}.device", name.id))
}
