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

/// A place in a text: a source file, a log, a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// The file as given or found.
    pub file: String,
    /// Its first line, from 1.
    pub line: u64,
    /// Its first column in characters, from 1; 0 where the whole line is meant.
    #[serde(default)]
    pub column: u64,
    /// Its last line, from 1.
    #[serde(default)]
    pub end_line: u64,
    /// The column after its last character, from 1; 0 where the whole line is meant.
    #[serde(default)]
    pub end_column: u64,
    /// The text of the line, without its end.
    #[serde(default)]
    pub snippet: String,
    /// What is to be seen there, in a few words; may be empty.
    #[serde(default)]
    pub label: String,
}

/// Whether a fix may be applied without being looked at.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Applicability {
    /// The program means the same afterwards; `--fix` applies it.
    Safe,
    /// It may mean something else in cases that the text does not show; `--unsafe-fixes` applies it.
    Unsafe,
    /// To be read: it is not applied.
    DisplayOnly,
}

impl Applicability {
    /// The name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Safe => "safe",
            Self::Unsafe => "unsafe",
            Self::DisplayOnly => "display only",
        }
    }
}

/// What a fix does to the numbers that the program computes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Numerics {
    /// The same bits.
    BitExact,
    /// The same up to rounding.
    WithinTolerance,
    /// Other numbers.
    Changes,
}

impl Numerics {
    /// The name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::BitExact => "bit-exact",
            Self::WithinTolerance => "within tolerance",
            Self::Changes => "changes numbers",
        }
    }
}

/// A replacement of bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Edit {
    /// The file, as [`Place::file`] names it.
    pub file: String,
    /// The first byte that is replaced.
    pub start: usize,
    /// The byte after the last one that is replaced.
    pub end: usize,
    /// What stands there afterwards.
    pub replacement: String,
}

/// A change of source text that answers a finding: all of its edits or none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fix {
    /// What it does, in a few words.
    pub title: String,
    /// Whether it may be applied without being looked at.
    pub applicability: Applicability,
    /// What it does to the numbers.
    pub numerics: Numerics,
    /// The edits, which do not overlap.
    pub edits: Vec<Edit>,
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
    /// Places in texts: sources, logs, configurations. The first is the main one.
    #[serde(default)]
    pub places: Vec<Place>,
    /// Time that a text itself says was lost, in seconds over all that the text is about.
    #[serde(default)]
    pub lost_s: Option<f64>,
    /// The evidence.
    pub evidence: Vec<Exhibit>,
    /// What to do, the best first.
    pub advice: Vec<String>,
    /// A change of the source that does it.
    #[serde(default)]
    pub fix: Option<Fix>,
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

/// What a rule says of text: a log, a report, source code. There are no steps of a core to take a
/// saving from; the rule itself says how much it weighs.
#[derive(Clone, Debug, PartialEq)]
pub struct Remark {
    /// One line that says what costs how much.
    pub title: String,
    /// The kind of advice, for its base rate.
    pub kind: knowledge::advice::AdviceKind,
    /// How much it weighs: high where a run does not work or loses most of its time, info where
    /// there is nothing to do.
    pub severity: Severity,
    /// Time that the text itself says was lost, in seconds.
    pub lost_s: Option<f64>,
    /// Where, the main place first.
    pub places: Vec<Place>,
    /// The evidence.
    pub evidence: Vec<Exhibit>,
    /// What to do, the best first.
    pub advice: Vec<String>,
    /// When not to.
    pub caveats: Vec<String>,
    /// A change that does it.
    pub fix: Option<Fix>,
}

impl Remark {
    /// A remark without evidence, to be filled.
    pub fn new(
        kind: knowledge::advice::AdviceKind,
        severity: Severity,
        title: impl Into<String>,
    ) -> Self {
        Self {
            title: title.into(),
            kind,
            severity,
            lost_s: None,
            places: Vec::new(),
            evidence: Vec::new(),
            advice: Vec::new(),
            caveats: Vec::new(),
            fix: None,
        }
    }
}
