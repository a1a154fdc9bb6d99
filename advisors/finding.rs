//! A finding: what costs how much, on what evidence, and what to do about it.

use profiler::session::OpId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much of the step the expected saving is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// At least 5 % of the step.
    High,
    /// At least 1 % of the step.
    Medium,
    /// Less than 1 % of the step.
    Low,
    /// No saving is claimed: something to know.
    Info,
}

impl Severity {
    /// The name, as `--fail-on` takes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
            Self::Info => "info",
        }
    }
}

/// How a saving was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The time was measured and would vanish.
    Measured,
    /// A model (roofline, bandwidth, padding) says what would be left.
    Modelled,
    /// The changed program was compiled beside the original, and both priced by the same model.
    Compiled,
    /// A published measurement of a like case was scaled.
    LookedUp,
}

/// The saving of one finding in a step of the slowest core.
///
/// `low ≤ expected ≤ high ≤ upper bound`, and the upper bound is never above the self time of the
/// operations (or the idle time) that the finding is about. `expected` is the saving if the change
/// works; how often changes of this kind work is [`Confidence`]'s business.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Saving {
    /// Milliseconds a step that the change is expected to save when it works.
    pub expected_ms: f64,
    /// Low end of the band, in milliseconds a step.
    pub low_ms: f64,
    /// High end of the band, in milliseconds a step.
    pub high_ms: f64,
    /// No change of this kind can save more, in milliseconds a step.
    pub upper_bound_ms: f64,
    /// The expected saving as a share of the step.
    pub share_of_step: f64,
    /// How it was found.
    pub basis: Basis,
    /// The formula, with its figures.
    pub formula: String,
}

/// How often advice of this kind helped those who tried it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Confidence {
    /// Probability that the change helps: the posterior mean of the base rate.
    pub probability: f64,
    /// Low end of its 90 % interval.
    pub low: f64,
    /// High end of its 90 % interval.
    pub high: f64,
    /// The kind of advice.
    pub kind: String,
    /// Tries of this kind that helped.
    pub supported: u32,
    /// Tries of this kind that did not.
    pub refuted: u32,
    /// Where they were counted.
    pub source: String,
}

/// A value with its unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "type")]
pub enum Value {
    /// A number.
    Number {
        /// The number, unrounded.
        number: f64,
        /// Its unit, empty for a plain count or ratio.
        unit: String,
    },
    /// Words.
    Text {
        /// The words.
        text: String,
    },
}

/// One piece of evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Exhibit {
    /// What it is.
    pub what: String,
    /// Its value.
    pub value: Value,
    /// Where it comes from and how to check it.
    pub source: String,
}

impl Exhibit {
    /// A number with its unit.
    pub fn number(
        what: impl Into<String>,
        number: f64,
        unit: impl Into<String>,
        source: impl Into<String>,
    ) -> Self {
        let value = Value::Number {
            // An empty sum of floats is minus zero.
            number: number + 0.0,
            unit: unit.into(),
        };
        Self {
            what: what.into(),
            value,
            source: source.into(),
        }
    }

    /// Words.
    pub fn text(
        what: impl Into<String>,
        text: impl Into<String>,
        source: impl Into<String>,
    ) -> Self {
        Self {
            what: what.into(),
            value: Value::Text { text: text.into() },
            source: source.into(),
        }
    }
}

/// An operation that a finding is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OpMention {
    /// The operation's handle in this report.
    pub id: u32,
    /// Its short HLO name.
    pub name: String,
    /// Its program.
    pub module: String,
    /// XProf's category.
    pub category: String,
    /// The shape of its result, with layout.
    pub shape: String,
    /// The framework's op.
    pub framework_op: String,
    /// `file:line` of the user's own code, or of the nearest operation that it feeds or reads;
    /// empty where unknown.
    pub source: String,
    /// Self time a step, mean over cores, in milliseconds.
    pub self_ms_per_step: f64,
    /// Executions a step.
    pub executions_per_step: f64,
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The rule's code, as `TT301`.
    pub code: String,
    /// The rule's name, as `exposed-host-offload`.
    pub rule: String,
    /// One line that says what costs how much.
    pub title: String,
    /// How much of the step it is about.
    pub severity: Severity,
    /// How likely the advice helps.
    pub confidence: Confidence,
    /// What can be saved, if anything.
    pub saving: Option<Saving>,
    /// The operations, the one with the longest self time first.
    pub ops: Vec<OpMention>,
    /// How many operations there are, when only the first are listed.
    pub op_count: usize,
    /// The evidence.
    pub evidence: Vec<Exhibit>,
    /// What to do, the best first.
    pub advice: Vec<String>,
    /// When not to do it, and what is not known.
    pub caveats: Vec<String>,
    /// Stable over runs of the same program: code, module and operations without numbers.
    pub fingerprint: String,
}

/// Time that a saving is taken from. Two findings that claim the same bucket overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bucket {
    /// Self time of an operation.
    Op(OpId),
    /// Time without a program. Each gap has one cause and each cause one finding, so claims on
    /// it are on different gaps.
    IdleBetween,
    /// Time within a program but without an operation.
    IdleInside,
}

impl Bucket {
    /// Whether claims on it are on different parts of it, and so add up.
    #[must_use]
    pub fn adds_up(self) -> bool {
        matches!(self, Self::IdleBetween)
    }
}

/// A saving as a rule claims it, before it is limited to what is there.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Milliseconds a step, if it works.
    pub expected_ms: f64,
    /// Low end.
    pub low_ms: f64,
    /// High end.
    pub high_ms: f64,
    /// Nothing of this kind can save more.
    pub upper_bound_ms: f64,
    /// How it was found.
    pub basis: Basis,
    /// The formula, with its figures.
    pub formula: String,
    /// Where the time would come from.
    pub buckets: Vec<Bucket>,
}

/// What a rule returns: everything but what [`crate::rank`] decides.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// One line that says what costs how much.
    pub title: String,
    /// The kind of advice, for its base rate.
    pub kind: knowledge::advice::AdviceKind,
    /// The operations.
    pub ops: Vec<OpId>,
    /// The evidence.
    pub evidence: Vec<Exhibit>,
    /// The saving.
    pub claim: Option<Claim>,
    /// What to do.
    pub advice: Vec<String>,
    /// When not to.
    pub caveats: Vec<String>,
}
