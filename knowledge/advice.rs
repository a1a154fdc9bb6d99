//! How often a kind of advice helped those who tried it.
//!
//! A finding says what an op costs; whether the change that it proposes pays is another question,
//! and most plausible changes do not: of 339 decided experiments in a public ledger 123 helped.
//! Ranking by cost alone therefore puts well-meant advice first that rarely works.
//!
//! # The rate
//!
//! `s` runs of a kind helped, `f` did not. Over all kinds the rate was `m = 123/339 = 0.363`. That
//! is the prior: a Beta distribution of mean `m` and weight `w = 10`, as if ten runs had been seen.
//! The posterior is `Beta(w·m + s, w·(1 − m) + f)`, the rate its mean
//!
//! ```text
//! rate = (w·m + s) / (w + s + f)
//! ```
//!
//! and the interval its 5 % and 95 % quantiles. Kinds without runs of their own get the prior: 0.363
//! with an interval of about 0.14 to 0.61, which says "unknown, but do not expect better than usual".
//!
//! Why ten: the eight kinds with counts scatter little more than chance makes them (matching the
//! variance between them would give a weight near 50), but repeated runs make the counts less certain
//! than they look, and a kind's own runs ought to prevail once there are more than a handful.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::beta;

const FILE: &str = "advice/base_rates.toml";
const TEXT: &str = include_str!("data/advice/base_rates.toml");

/// A kind of advice: what one would try, not what is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdviceKind {
    /// Use an attention kernel instead of materialised scores.
    AttentionKernel,
    /// Take a better profile before concluding anything.
    CaptureQuality,
    /// Decompose collectives into the matmuls beside them (windowed einsum).
    CollectiveMatmul,
    /// Use a fused cross-entropy kernel.
    CrossEntropyKernel,
    /// Avoid transposes and reshapes that only move data.
    DataFormatting,
    /// Size the decode batch and its KV cache.
    DecodeBatch,
    /// Use a smaller dtype.
    Dtype,
    /// Hide a collective behind compute.
    ExposedCollective,
    /// Fuse ops, or leave the fusing to XLA.
    Fusion,
    /// Keep the host off the critical path: fewer dispatches, reads and callbacks.
    HostDispatch,
    /// Move tensors to host memory, or stop doing so.
    HostOffload,
    /// Feed the device faster.
    InputPipeline,
    /// Choose block sizes of a kernel.
    KernelTuning,
    /// Avoid the copy of a whole buffer.
    LayoutCopy,
    /// Change the shapes of a matmul so that it fills the MXU.
    MatmulShape,
    /// Fit into memory, or spend what is left of it.
    MemoryLimit,
    /// Make a program run on TPUs at all.
    Migration,
    /// Replace an op that is slow on TPUs.
    OpSubstitution,
    /// Avoid padding.
    Padding,
    /// Stop recompiling.
    Recompilation,
    /// Use reduce-scatter where all-reduce does more than is needed.
    ReduceScatter,
    /// Change what is recomputed in the backward pass.
    Remat,
    /// Avoid a change of sharding between ops.
    Resharding,
    /// Make the scanned axis the major one of what a loop reads and writes.
    ScanLayout,
    /// Scan over layers, or unroll the scan.
    ScanUnroll,
    /// Set flags of the scheduler or of asynchronous collectives.
    SchedulerFlags,
    /// Change the mesh or the kind of parallelism.
    ShardingMesh,
    /// Offload collectives to the SparseCore.
    SparseCoreOffload,
    /// Find the device that the others wait for.
    Straggler,
    /// Change the scoped VMEM limit.
    VmemLimit,
}

impl AdviceKind {
    /// All kinds, by name.
    pub const ALL: [Self; 30] = [
        Self::AttentionKernel,
        Self::CaptureQuality,
        Self::CollectiveMatmul,
        Self::CrossEntropyKernel,
        Self::DataFormatting,
        Self::DecodeBatch,
        Self::Dtype,
        Self::ExposedCollective,
        Self::Fusion,
        Self::HostDispatch,
        Self::HostOffload,
        Self::InputPipeline,
        Self::KernelTuning,
        Self::LayoutCopy,
        Self::MatmulShape,
        Self::MemoryLimit,
        Self::Migration,
        Self::OpSubstitution,
        Self::Padding,
        Self::Recompilation,
        Self::ReduceScatter,
        Self::Remat,
        Self::Resharding,
        Self::ScanLayout,
        Self::ScanUnroll,
        Self::SchedulerFlags,
        Self::ShardingMesh,
        Self::SparseCoreOffload,
        Self::Straggler,
        Self::VmemLimit,
    ];

    /// The kind's name in data and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AttentionKernel => "attention-kernel",
            Self::CaptureQuality => "capture-quality",
            Self::CollectiveMatmul => "collective-matmul",
            Self::CrossEntropyKernel => "cross-entropy-kernel",
            Self::DataFormatting => "data-formatting",
            Self::DecodeBatch => "decode-batch",
            Self::Dtype => "dtype",
            Self::ExposedCollective => "exposed-collective",
            Self::Fusion => "fusion",
            Self::HostDispatch => "host-dispatch",
            Self::HostOffload => "host-offload",
            Self::InputPipeline => "input-pipeline",
            Self::KernelTuning => "kernel-tuning",
            Self::LayoutCopy => "layout-copy",
            Self::MatmulShape => "matmul-shape",
            Self::MemoryLimit => "memory-limit",
            Self::Migration => "migration",
            Self::OpSubstitution => "op-substitution",
            Self::Padding => "padding",
            Self::Recompilation => "recompilation",
            Self::ReduceScatter => "reduce-scatter",
            Self::Remat => "remat",
            Self::Resharding => "resharding",
            Self::ScanLayout => "scan-layout",
            Self::ScanUnroll => "scan-unroll",
            Self::SchedulerFlags => "scheduler-flags",
            Self::ShardingMesh => "sharding-mesh",
            Self::SparseCoreOffload => "sparse-core-offload",
            Self::Straggler => "straggler",
            Self::VmemLimit => "vmem-limit",
        }
    }

    /// The kind of that name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Decided runs, and where they were counted.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Runs that helped.
    pub supported: u32,
    /// Runs that did not.
    pub refuted: u32,
    /// Where they were counted.
    pub source: String,
}

/// A public case in which an advice was followed and the outcome confirmed or measured.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// What was tried.
    pub kind: AdviceKind,
    /// Whether it helped.
    pub helped: bool,
    /// What was done, on what, to what effect.
    pub what: String,
    /// Where it is told.
    pub url: String,
}

/// How often a kind of advice helped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BaseRate {
    /// The kind.
    pub kind: AdviceKind,
    /// Decided runs of this very kind; `None` where nobody counted any.
    pub own: Option<&'static Counts>,
    /// Decided runs of all kinds, the prior.
    pub pooled: &'static Counts,
    /// How many runs the prior counts for.
    pub prior_weight: f64,
}

impl BaseRate {
    /// Runs of this kind that helped.
    #[must_use]
    pub fn supported(&self) -> u32 {
        self.own.map_or(0, |own| own.supported)
    }

    /// Runs of this kind that did not help.
    #[must_use]
    pub fn refuted(&self) -> u32 {
        self.own.map_or(0, |own| own.refuted)
    }

    /// Where the rate comes from, the fallback named as such.
    #[must_use]
    pub fn source(&self) -> String {
        match self.own {
            Some(own) => own.source.clone(),
            None => format!("{} (no runs of this kind)", self.pooled.source),
        }
    }

    /// The chance that following the advice helps: the posterior mean.
    #[must_use]
    pub fn rate(&self) -> f64 {
        let (a, b) = self.posterior();
        a / (a + b)
    }

    /// Where the rate lies with 90 % probability, from and to.
    #[must_use]
    pub fn interval(&self) -> (f64, f64) {
        let (a, b) = self.posterior();
        let [low, high] = beta::quantiles(a, b, [0.05, 0.95]);
        (low, high)
    }

    /// The two shape parameters of the posterior.
    fn posterior(&self) -> (f64, f64) {
        let supported = f64::from(self.pooled.supported);
        let mean = supported / (supported + f64::from(self.pooled.refuted)).max(1.0);
        (
            self.prior_weight * mean + f64::from(self.supported()),
            self.prior_weight * (1.0 - mean) + f64::from(self.refuted()),
        )
    }
}

/// How often a kind of advice helped; kinds that nobody counted have the pooled rate and say so.
///
/// ```
/// use knowledge::advice::{AdviceKind, base_rate};
///
/// let offload = base_rate(AdviceKind::SparseCoreOffload);
/// assert_eq!((offload.supported(), offload.refuted()), (24, 25));
/// assert!(offload.rate() > base_rate(AdviceKind::CollectiveMatmul).rate());
/// ```
#[must_use]
pub fn base_rate(kind: AdviceKind) -> BaseRate {
    let rates = rates();
    BaseRate {
        kind,
        own: rates.ledger.get(&kind),
        pooled: &rates.pooled,
        prior_weight: rates.prior_weight,
    }
}

/// The public cases of a kind: evidence to show beside a proposal, no part of its rate.
pub fn cases(kind: AdviceKind) -> impl Iterator<Item = &'static Case> {
    rates().case.iter().filter(move |case| case.kind == kind)
}

/// The data file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rates {
    prior_weight: f64,
    pooled: Counts,
    ledger: BTreeMap<AdviceKind, Counts>,
    case: Vec<Case>,
}

fn rates() -> &'static Rates {
    static RATES: LazyLock<Rates> =
        LazyLock::new(|| crate::parse(FILE, TEXT).expect("the tests parse this built-in file"));
    &RATES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_data_and_lead_back_to_the_kind() {
        for kind in AdviceKind::ALL {
            assert_eq!(AdviceKind::parse(kind.name()), Some(kind));
            let written = toml::Value::try_from(kind).expect("a kind is a string");
            assert_eq!(written.as_str(), Some(kind.name()));
        }
        assert!(
            AdviceKind::ALL
                .windows(2)
                .all(|pair| pair[0].name() < pair[1].name())
        );
        assert_eq!(AdviceKind::parse("try-harder"), None);
    }

    #[test]
    fn counted_kinds_have_their_counts() {
        let counted = [
            (AdviceKind::SparseCoreOffload, 24, 49),
            (AdviceKind::SchedulerFlags, 16, 35),
            (AdviceKind::VmemLimit, 9, 29),
            (AdviceKind::Remat, 13, 41),
            (AdviceKind::HostOffload, 13, 41),
            (AdviceKind::ScanUnroll, 24, 69),
            (AdviceKind::CrossEntropyKernel, 7, 31),
            (AdviceKind::ShardingMesh, 23, 87),
            (AdviceKind::CollectiveMatmul, 1, 8),
        ];
        for (kind, supported, decided) in counted {
            let rate = base_rate(kind);
            let found = (rate.supported(), rate.supported() + rate.refuted());
            assert_eq!(found, (supported, decided), "{}", kind.name());
        }
        let own = AdviceKind::ALL
            .iter()
            .filter(|kind| base_rate(**kind).own.is_some())
            .count();
        assert_eq!(own, counted.len());
    }

    #[test]
    fn a_kind_that_nobody_counted_has_the_pooled_rate_and_says_so() {
        let rate = base_rate(AdviceKind::LayoutCopy);
        assert!((rate.rate() - 123.0 / 339.0).abs() < 1e-12);
        assert!(
            rate.source().contains("no runs of this kind"),
            "{}",
            rate.source()
        );
        let (low, high) = rate.interval();
        assert!(
            (low - 0.139).abs() < 0.01 && (high - 0.614).abs() < 0.01,
            "{low} to {high}"
        );
    }

    #[test]
    fn own_runs_move_the_rate_and_narrow_the_interval() {
        // (10 · 0.3628 + 1) / 18 and (10 · 0.3628 + 23) / 97.
        let einsum = base_rate(AdviceKind::CollectiveMatmul);
        assert!((einsum.rate() - 0.2571).abs() < 1e-4, "{}", einsum.rate());
        let mesh = base_rate(AdviceKind::ShardingMesh);
        assert!((mesh.rate() - 0.2745).abs() < 1e-4, "{}", mesh.rate());
        let width = |rate: BaseRate| rate.interval().1 - rate.interval().0;
        assert!(width(mesh) < width(einsum));
        assert!(width(einsum) < width(base_rate(AdviceKind::Padding)));
    }

    #[test]
    fn every_rate_lies_within_its_interval() {
        for kind in AdviceKind::ALL {
            let rate = base_rate(kind);
            let (low, high) = rate.interval();
            assert!(low < rate.rate() && rate.rate() < high, "{}", kind.name());
        }
    }

    #[test]
    fn cases_are_told_somewhere_and_some_are_warnings() {
        let all: Vec<&Case> = AdviceKind::ALL.into_iter().flat_map(cases).collect();
        assert_eq!(all.len(), rates().case.len());
        assert!(
            all.iter()
                .all(|case| case.url.starts_with("https://") && case.what.len() > 10)
        );
        let mut told: Vec<(&str, &str)> = all
            .iter()
            .map(|case| (case.url.as_str(), case.what.as_str()))
            .collect();
        told.sort_unstable();
        told.dedup();
        assert_eq!(told.len(), all.len(), "a case is told twice");
        assert!(cases(AdviceKind::CollectiveMatmul).all(|case| !case.helped));
        assert!(cases(AdviceKind::Recompilation).all(|case| case.helped));
    }
}
