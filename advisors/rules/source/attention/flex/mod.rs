//! FlexAttention: calls, masks and score functions read, and what they become.

mod call;
mod function;
mod mask;
mod plan;
mod rewrite;
mod score;
mod sources;

pub(crate) use function::Scope;
pub(crate) use plan::{Plan, Refused, all};
pub(crate) use rewrite::{call as rewrite_call, is_public};
