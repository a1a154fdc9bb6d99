//! Device memory that is nearly full.

use knowledge::advice::AdviceKind;
use profiler::evidence::MemorySource;
use profiler::units::{Bytes, percent};

use crate::finding::{Draft, Exhibit};
use crate::rule::{Context, Rule};
use crate::rules::memory::room;

/// See the card.
#[derive(Debug)]
pub struct MemoryNearLimit;

/// From this part in use on, a little more of anything fails.
const FULL: f64 = 0.92;

impl Rule for MemoryNearLimit {
    fn code(&self) -> &'static str {
        "TT802"
    }

    fn name(&self) -> &'static str {
        "memory-near-limit"
    }

    fn card(&self) -> &'static str {
        include_str!("memory_near_limit.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        let Some(memory) = context.evidence.memory().filter(|m| m.fullness() > FULL) else {
            return Vec::new();
        };
        let mut evidence = vec![room::exhibit(&memory)];
        let mut caveats = Vec::from_iter(room::caveat(&memory));
        if memory.source == MemorySource::Events {
            evidence.push(Exhibit::text(
                "reserved for the stacks of programs",
                Bytes(memory.reserved_bytes).to_string(),
                "part of what is in use; a program that is compiled anew may need another",
            ));
            caveats.push(
                "a long run can fail with memory free, when no free piece is large enough: the events show sums, not pieces".to_owned(),
            );
        }
        vec![Draft {
            title: format!(
                "device memory is {} full at its peak: {} of {} are left",
                percent(memory.fullness()),
                Bytes(memory.free_bytes()),
                Bytes(memory.capacity_bytes),
            ),
            kind: AdviceKind::MemoryLimit,
            ops: Vec::new(),
            evidence,
            claim: None,
            advice: vec![
                "compile before you run: compiled.memory_analysis() tells to the byte what a larger batch or another remat policy needs".to_owned(),
                "donate what is updated, keep only what the next step needs, and free the arrays of evaluation and checkpointing before the step that follows".to_owned(),
            ],
            caveats,
        }]
    }
}
