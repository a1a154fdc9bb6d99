//! What a rule is.

use profiler::evidence::{Evidence, OpProfile};
use profiler::session::Op;

use crate::finding::{Bucket, Draft, Remark};
use crate::model_config::ModelConfig;
use crate::python::SourceContext;

/// What a rule sees: evidence, and nothing else. Facts come from `knowledge`'s data.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The evidence.
    pub evidence: &'a Evidence<'a>,
}

impl<'a> Context<'a> {
    /// What the profile says of an operation.
    #[must_use]
    pub fn op(&self, profile: &OpProfile) -> &'a Op {
        self.evidence.session.op(profile.id)
    }

    /// Operations of a kind whose self time is at least `share` of the step, longest first.
    pub fn ops_above(
        &self,
        share: f64,
        wanted: impl Fn(&OpProfile) -> bool,
    ) -> impl Iterator<Item = &'a OpProfile> {
        let evidence = self.evidence;
        evidence
            .ops
            .iter()
            .filter(move |op| evidence.share_of_step(op.step_self_ps) >= share && wanted(op))
    }

    /// A time as a share of the step, from milliseconds.
    #[must_use]
    pub fn share(&self, ms: f64) -> f64 {
        self.evidence.share_of_step(ms * 1e9)
    }

    /// Time of a step in milliseconds, the mean with what idles after it.
    #[must_use]
    pub fn step_ms(&self) -> f64 {
        self.evidence.step_time().as_ms()
    }

    /// What shares are of, in words.
    #[must_use]
    pub fn step_base(&self) -> String {
        format!(
            "of the {} that a step takes on average with what idles after it",
            self.evidence.step_time()
        )
    }

    /// What can be taken from a bucket in a step, in milliseconds.
    #[must_use]
    pub fn capacity_ms(&self, bucket: Bucket) -> f64 {
        let evidence = self.evidence;
        match bucket {
            // Of the core where it is longest: a step ends with its slowest core.
            Bucket::Op(id) => evidence
                .op(id)
                .map_or(0.0, |op| op.step_self_slowest_ps / 1e9),
            Bucket::IdleBetween => evidence.mean_per_step(|core| core.idle_between_ps) / 1e9,
            Bucket::IdleInside => evidence.mean_per_step(|core| core.idle_inside_ps) / 1e9,
        }
    }
}

/// A rule: one kind of trouble, one file, one card. It looks at one kind of evidence or at several.
pub trait Rule: Sync {
    /// The code, as `TT301`: never reused. `TT` are rules of profiles, `TL` of logs and other text,
    /// `TS` of source code.
    fn code(&self) -> &'static str;
    /// The name, as `exposed-host-offload`.
    fn name(&self) -> &'static str;
    /// The card: Markdown that says what the rule does, why it matters, an example, what to do,
    /// when not to, and its sources.
    fn card(&self) -> &'static str;
    /// Looks at a profile.
    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        let _ = context;
        Vec::new()
    }
    /// Looks at what texts tell of a run: `context.evidence.session.logs`.
    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let _ = context;
        Vec::new()
    }
    /// Looks at one Python file.
    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        let _ = context;
        Vec::new()
    }

    /// Looks at the configuration of one model.
    fn check_config(&self, config: &ModelConfig) -> Vec<Remark> {
        let _ = config;
        Vec::new()
    }

    /// The card's first sentence under `## What it does`.
    fn summary(&self) -> &'static str {
        let (_, after) = self
            .card()
            .split_once("## What it does")
            .unwrap_or_default();
        let paragraph = after.trim_start().split("\n\n").next().unwrap_or_default();
        let end = paragraph.find(". ").map_or(paragraph.len(), |at| at + 1);
        paragraph.get(..end).unwrap_or(paragraph).trim_end()
    }
}
