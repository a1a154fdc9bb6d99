//! Collectives that run beside compute inside fusions.
//!
//! ```text
//! async-collective-start   fusion(all-gather, AsyncCollectiveStart)   starts it
//! fusion                   async_collective_fusion(all-gather, …)     computes meanwhile
//! async-collective-done    fusion(all-gather, AsyncCollectiveDone)    waits for it
//! ```
//!
//! Each holds the same collective, by its channel, which is transferred once.

use crate::program::{OpId, Program};

/// What a fusion is of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainPart {
    /// It starts the collective.
    Start,
    /// It computes while the collective is in flight.
    Carrier,
    /// It waits for the collective's end.
    Done,
}

/// A fusion's place in a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Which part it is.
    pub part: ChainPart,
    /// The collective's channel: the same in all parts.
    pub channel: Option<i64>,
}

impl Chain {
    /// The place of a fusion in a chain; none of any other operation.
    #[must_use]
    pub fn of(program: &Program, op: OpId) -> Option<Self> {
        program.get(op).filter(|i| i.opcode == "fusion")?;
        let body = program.body_of(op)?;
        let root = body.root.and_then(|root| program.get(root));
        let target = root.map_or("", |root| root.attributes.custom_call_target.as_str());
        let part = match target {
            "AsyncCollectiveStart" => ChainPart::Start,
            "AsyncCollectiveDone" => ChainPart::Done,
            _ if body.name.starts_with("async_collective_fusion") => ChainPart::Carrier,
            _ => return None,
        };
        let channel = body
            .ops()
            .filter_map(|inner| program.get(inner))
            .find(|inner| inner.opcode.is_collective())
            .and_then(|inner| inner.attributes.channel_id);
        Some(Self { part, channel })
    }
}
