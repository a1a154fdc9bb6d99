//! Kernels that are far slower than the chip allows for their work.

use knowledge::advice::AdviceKind;
use knowledge::efficiency::{Reachable, Work, reachable};
use profiler::chip::Generation;
use profiler::evidence::OpProfile;
use profiler::evidence::ops::FlopsBasis;
use profiler::program::kernel::KernelKind;
use profiler::units::{self, Picos, percent, with_digits};

use crate::finding::{Basis, Claim, Draft, Exhibit};
use crate::rule::{Context, Rule};
use crate::rules::kernels::blocks::{blocks, listed};
use crate::rules::kernels::custom::Calls;
use crate::rules::kernels::paged;

/// See the card.
#[derive(Debug)]
pub struct KernelFarFromRoof;

/// Below this share of the step a kernel is left out.
const MIN_SHARE: f64 = 0.005;
/// A kernel is far when it takes this many times what a good one does.
const FAR: f64 = 2.0;
/// Findings of this rule.
const MAX_FINDINGS: usize = 4;

impl Rule for KernelFarFromRoof {
    fn code(&self) -> &'static str {
        "TT504"
    }

    fn name(&self) -> &'static str {
        "kernel-far-from-roof"
    }

    fn card(&self) -> &'static str {
        include_str!("kernel_far_from_roof.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        let Some(chip) = &context.evidence.chip else {
            return Vec::new();
        };
        let kernels = Calls::all(context);
        let mut found: Vec<(f64, Draft)> = kernels
            .iter()
            .filter(|calls| context.share(calls.time_ms()) >= MIN_SHARE)
            .filter_map(|calls| {
                let kind = calls.first()?.model.kernel.as_ref().map(|k| k.kind);
                let draft = match kind {
                    Some(KernelKind::PagedAttention) => {
                        paged::draft(context, calls, chip.generation)
                    }
                    _ => roof_draft(context, calls, &kernels, chip.generation),
                }?;
                Some((calls.time_ms(), draft))
            })
            .collect();
        found.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.title.cmp(&b.1.title)));
        found.truncate(MAX_FINDINGS);
        found.into_iter().map(|(_, draft)| draft).collect()
    }
}

/// The share of the MXU's peak that a kernel of that kind can be expected to reach.
fn ceiling(kind: Option<KernelKind>, name: &str, generation: Generation) -> &'static Reachable {
    let multiplies = ["matmul", "gemm", "gmm"]
        .iter()
        .any(|word| name.contains(word));
    let work = match kind {
        Some(KernelKind::GroupedMatmul) => Work::Matmul,
        None if multiplies => Work::Matmul,
        // Of a kernel that is not known, no more than of attention.
        _ => Work::Attention,
    };
    reachable(work, generation).reachable
}

/// A kernel whose FLOPs are known, against the roof.
fn roof_draft(
    context: &Context<'_>,
    calls: &Calls<'_>,
    kernels: &[Calls<'_>],
    generation: Generation,
) -> Option<Draft> {
    let op = calls.first()?;
    let evidence = context.evidence;
    let flops = op.cost.flops.filter(|flops| *flops > 0.0)?;
    let peak = evidence.peaks.matmul_tflops("bf16")?;
    let bandwidth = evidence.peaks.hbm_gb_per_s.as_ref()?.value;
    let kind = op.model.kernel.as_ref().map(|kernel| kernel.kind);
    let mxu = ceiling(kind, &calls.name, generation);
    let hbm = reachable(Work::HbmStream, generation).reachable;
    let compute_ps = flops / peak;
    let hbm_ps = op.cost.hbm_bytes.unwrap_or(0.0).max(0.0) * 1e3 / bandwidth;
    let reach = |mxu: f64, hbm: f64| (compute_ps / mxu).max(hbm_ps / hbm);
    let mean_ps = calls.mean_ps();
    let good_ps = reach(mxu.typical, hbm.typical);
    if mean_ps <= FAR * good_ps {
        return None;
    }
    let sibling = sibling(calls, kernels, flops);
    let sibling_ps = sibling.map(Calls::mean_ps);
    let saved_ms = |left_ps: f64| calls.time_ms() * (1.0 - left_ps / mean_ps).max(0.0);
    let expected_ps = sibling_ps.unwrap_or(good_ps);
    let name_blocks = blocks(&calls.name);
    let share = compute_ps.max(hbm_ps) / mean_ps;
    let mut exhibits = vec![
        Exhibit::text(
            "rate",
            format!(
                "{} of {}: {} of the roof",
                with_digits(flops / mean_ps, "TFLOP/s"),
                with_digits(peak, "TFLOP/s"),
                percent(share)
            ),
            match op.cost.flops_basis {
                Some(FlopsBasis::Stated) => "the kernel's own cost estimate over its duration",
                _ => {
                    "FLOPs from its shapes over its duration; attention without a mask, so at most that"
                }
            },
        ),
        calls_exhibit(calls),
    ];
    if !name_blocks.is_empty() {
        exhibits.push(Exhibit::text(
            "blocks",
            listed(&name_blocks),
            "the kernel's name",
        ));
    }
    if let Some(sibling) = sibling {
        exhibits.push(Exhibit::text(
            "the same work in this profile",
            format!(
                "{} takes {}, {:.0} times less",
                sibling.name,
                Picos(sibling.mean_ps() as u64),
                mean_ps / sibling.mean_ps().max(1.0)
            ),
            "another kernel with the same FLOPs and operands",
        ));
    }
    head_exhibit(context, op)
        .into_iter()
        .for_each(|e| exhibits.push(e));
    let with_blocks = if name_blocks.is_empty() {
        String::new()
    } else {
        format!(" with blocks {}", listed(&name_blocks))
    };
    Some(Draft {
        title: format!(
            "kernel {} runs at {} of the roof{with_blocks}: {} of each {} step",
            calls.name,
            percent(share),
            units::ms(calls.time_ms()),
            evidence.step_time()
        ),
        kind: AdviceKind::KernelTuning,
        ops: calls.ids(),
        evidence: exhibits,
        claim: Some(Claim {
            expected_ms: saved_ms(expected_ps),
            low_ms: saved_ms(reach(mxu.low, hbm.low).max(expected_ps)),
            high_ms: saved_ms(reach(mxu.high, hbm.high)),
            upper_bound_ms: saved_ms(reach(1.0, 1.0)),
            basis: if sibling.is_some() { Basis::Measured } else { Basis::Modelled },
            formula: format!(
                "{} measured - {} {}; high at {:.0} % of the peak",
                Picos(mean_ps as u64),
                Picos(expected_ps as u64),
                if sibling.is_some() {
                    "that the same work takes in this profile".to_owned()
                } else {
                    format!("at {:.0} % of the peak, which good kernels of its kind reach", 100.0 * mxu.typical)
                },
                100.0 * mxu.high
            ),
            buckets: calls.buckets(),
        }),
        advice: tuning_advice(),
        caveats: vec![
            "FLOPs that a kernel states are its author's estimate; a mask or padding that they leave out moves this figure".to_owned(),
            format!("the ceiling was measured on other kernels: {}", mxu.source),
        ],
    })
}

/// Another kernel of the same work that is faster.
fn sibling<'k>(calls: &Calls<'_>, kernels: &'k [Calls<'k>], flops: f64) -> Option<&'k Calls<'k>> {
    let shapes = |op: &OpProfile| -> Vec<(profiler::program::dtype::DType, Vec<u64>)> {
        let operands = op.instruction.iter().flat_map(|i| &i.operands);
        operands
            .filter_map(|operand| operand.shape.as_ref()?.as_array())
            .map(|array| (array.dtype, array.dims.clone()))
            .collect()
    };
    let own = shapes(calls.first()?);
    kernels
        .iter()
        .filter(|other| {
            other.first().is_some_and(|op| {
                op.cost.flops == Some(flops) && other.name != calls.name && shapes(op) == own
            })
        })
        .filter(|other| other.mean_ps() > 0.0 && other.mean_ps() < calls.mean_ps())
        .min_by(|a, b| a.mean_ps().total_cmp(&b.mean_ps()))
}

/// How many calls there are and how long each takes.
pub(super) fn calls_exhibit(calls: &Calls<'_>) -> Exhibit {
    Exhibit::text(
        "calls",
        format!(
            "{:.0} a step, {} each",
            calls.count(),
            Picos(calls.mean_ps() as u64)
        ),
        "mean over cores and calls of the same name and shape",
    )
}

/// A head narrower than the MXU leaves a part of it empty, whatever the blocks.
fn head_exhibit(context: &Context<'_>, op: &OpProfile) -> Option<Exhibit> {
    let side = context.evidence.chip.as_ref()?.facts.mxu_size.value;
    let dim = op.model.kernel.as_ref()?.attention?.head_dim;
    narrow_head(dim, side)
}

/// What an MXU of that side makes of a head of that size.
pub(super) fn narrow_head(dim: u64, side: u32) -> Option<Exhibit> {
    (dim > 0 && dim < u64::from(side)).then(|| {
        Exhibit::text(
            "head size",
            format!(
                "{dim} fills {} of an MXU of {side} in either product: no block size changes that",
                percent(dim as f64 / f64::from(side))
            ),
            "shapes of the call; the chip's MXU",
        )
    })
}

/// What to do about blocks.
pub(super) fn tuning_advice() -> Vec<String> {
    vec![
        "look for a missed entry in the kernel's table of tuned block sizes first (a warning in the log, or a key of chip, dtype, heads and lengths that is not in the table): the fallback cost a factor of 12 in one published case and 10 to 49 % of the throughput in others".to_owned(),
        "then search block sizes for this very shape on the chip, and add the best to the table; larger blocks first, as far as VMEM holds".to_owned(),
    ]
}
