//! Grouped products in which each group has few rows.

use knowledge::advice::AdviceKind;
use profiler::evidence::{OpClass, OpProfile};
use profiler::program::kernel::KernelKind;
use profiler::program::shape::Array;
use profiler::units;

use crate::finding::{Draft, Exhibit};
use crate::rule::{Context, Rule};

/// See the card.
#[derive(Debug)]
pub struct SmallExpertMatmul;

/// Below this share of the step it is not worth a line.
const MIN_SHARE: f64 = 0.005;

impl Rule for SmallExpertMatmul {
    fn code(&self) -> &'static str {
        "TT508"
    }

    fn name(&self) -> &'static str {
        "small-expert-matmul"
    }

    fn card(&self) -> &'static str {
        include_str!("small_expert_matmul.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        let found: Vec<Grouped<'_>> = context
            .ops_above(0.0, |_| true)
            .filter_map(|op| Grouped::of(context, op))
            .filter(|grouped| grouped.rows < grouped.ridge)
            .collect();
        let time: f64 = found.iter().map(|grouped| grouped.op.step_self_ms()).sum();
        if context.share(time) < MIN_SHARE {
            return Vec::new();
        }
        vec![draft(context, &found, time)]
    }
}

/// A grouped product.
struct Grouped<'a> {
    op: &'a OpProfile,
    groups: u64,
    total_rows: u64,
    k: u64,
    n: u64,
    /// Rows of a group, on average.
    rows: f64,
    /// Rows of a group from which on the MXU and not the reading of weights is the limit.
    ridge: f64,
}

impl<'a> Grouped<'a> {
    fn of(context: &Context<'_>, op: &'a OpProfile) -> Option<Self> {
        let instruction = op.instruction.as_ref()?;
        let kernel = op.model.kernel.as_ref().map(|kernel| kernel.kind);
        let is_grouped = kernel == Some(KernelKind::GroupedMatmul)
            || (op.class == OpClass::Matmul && instruction.opcode.as_str() == "ragged-dot");
        if !is_grouped {
            return None;
        }
        let arrays: Vec<&Array> = instruction
            .operands
            .iter()
            .filter_map(|operand| operand.shape.as_ref()?.as_array())
            .filter(|array| array.dtype.is_float() || array.dtype.bits() <= 8)
            .collect();
        let rows = arrays.iter().find(|array| array.dims.len() == 2)?;
        let weights = arrays.iter().find(|array| array.dims.len() == 3)?;
        let (&[total_rows, k], &[groups, a, b]) = (&rows.dims[..], &weights.dims[..]) else {
            return None;
        };
        let n = if a == k { b } else { a };
        let peaks = &context.evidence.peaks;
        let flops = peaks.matmul_tflops(rows.dtype.name())?;
        let hbm = peaks.hbm_gb_per_s.as_ref()?.value;
        let bytes = f64::from(weights.element_bits()) / 8.0;
        (groups > 1).then(|| Self {
            op,
            groups,
            total_rows,
            k,
            n,
            rows: total_rows as f64 / groups as f64,
            ridge: flops * 1e3 * bytes / 2.0 / hbm,
        })
    }
}

fn draft(context: &Context<'_>, found: &[Grouped<'_>], time: f64) -> Draft {
    let fewest = found
        .iter()
        .map(|grouped| grouped.rows)
        .fold(f64::INFINITY, f64::min);
    let ridge = found.first().map_or(0.0, |grouped| grouped.ridge);
    Draft {
        title: format!(
            "expert matmuls have about {fewest:.0} rows each: {} of each {} step",
            units::ms(time),
            context.evidence.step_time(),
        ),
        kind: AdviceKind::MatmulShape,
        ops: found.iter().map(|grouped| grouped.op.id).collect(),
        evidence: found
            .iter()
            .take(6)
            .map(|grouped| {
                Exhibit::text(
                    context.op(grouped.op).name.clone(),
                    format!(
                        "{} rows over {} groups of {} x {}: {:.0} rows each on average, {ridge:.0} would balance reading a group's weights",
                        grouped.total_rows, grouped.groups, grouped.k, grouped.n, grouped.rows
                    ),
                    "shapes of the operands; peak FLOP/s times bytes of an element over twice the bandwidth",
                )
            })
            .collect(),
        claim: None,
        advice: vec![
            "give each group more rows: a larger batch, or groups spread over fewer chips so that each chip's groups get more".to_owned(),
            "look whether the kernel's tile was chosen for this number of groups (a missed entry in its table of tuned tiles cost a factor of 12 in one case); a tile taller than a group's rows computes zeros".to_owned(),
        ],
        caveats: vec![
            "no saving is stated: how rows are spread over groups is data, and fewer, wider experts are another model".to_owned(),
        ],
    }
}
