//! The capture itself: what it cannot tell, and how to take a better one. Nothing here claims a
//! saving.

pub mod asymmetric_cores;
pub mod missing_hlo;
pub mod missing_steps;
pub mod rates_above_peak;
pub mod truncated_capture;
pub mod unsteady_steps;

use knowledge::advice::AdviceKind;
use profiler::session::{OpId, Origin};

use crate::finding::{Draft, Exhibit};
use crate::rule::Context;

/// Whether times were measured: a predicted profile has no capture to improve.
fn is_measured(context: &Context<'_>) -> bool {
    context.evidence.session.origin == Origin::Measured
}

/// Something to know about the capture.
struct Remark {
    title: String,
    ops: Vec<OpId>,
    evidence: Vec<Exhibit>,
    advice: Vec<String>,
    caveats: Vec<String>,
}

impl Remark {
    fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            ops: Vec::new(),
            evidence: Vec::new(),
            advice: Vec::new(),
            caveats: Vec::new(),
        }
    }

    fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice.push(advice.into());
        self
    }

    fn draft(self) -> Draft {
        Draft {
            title: self.title,
            kind: AdviceKind::CaptureQuality,
            ops: self.ops,
            evidence: self.evidence,
            claim: None,
            advice: self.advice,
            caveats: self.caveats,
        }
    }
}
