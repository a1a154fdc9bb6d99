//! Loops that write slices across the layout of what they write into.

use knowledge::advice::AdviceKind;
use profiler::evidence::{OpClass, OpProfile};
use profiler::program::shape::Array;
use profiler::units::{self, Bytes, percent, with_digits};

use crate::finding::{Basis, Bucket, Claim, Draft, Exhibit};
use crate::rule::{Context, Rule};
use crate::rules::layout::exhibits::share_of_step;
use crate::rules::layout::group::{Group, groups, origin, times, worthwhile};
use crate::rules::layout::movers::{hlo, operand_arrays};
use crate::rules::memory::hbm::HbmRate;

/// See the card.
#[derive(Debug)]
pub struct DusOnMinorScanAxis;

/// Writes that take less than twice the time of contiguous ones are not worth a new layout.
const SLOW_BELOW: f64 = 0.5;

impl Rule for DusOnMinorScanAxis {
    fn code(&self) -> &'static str {
        "TT604"
    }

    fn name(&self) -> &'static str {
        "dus-on-minor-scan-axis"
    }

    fn card(&self) -> &'static str {
        include_str!("dus_on_minor_scan_axis.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        let rate = HbmRate::of(context);
        let strided = context
            .ops_above(0.0, |op| op.class == OpClass::DynamicUpdateSlice)
            .filter_map(|op| Strided::of(context, op, rate.as_ref()));
        let keyed = strided.map(|found| (origin(context, found.op), found));
        let groups = groups(keyed, |found| found.op.step_self_ms());
        worthwhile(context, groups)
            .filter_map(|group| draft(context, &group, rate.as_ref()))
            .collect()
    }
}

/// An update that is scattered over memory.
#[derive(Debug)]
struct Strided<'a> {
    op: &'a OpProfile,
    into: &'a Array,
    update_bytes: f64,
    /// The updated dimension.
    axis: usize,
    /// Pieces that the update falls into.
    pieces: u64,
    /// A step's updates if they were contiguous, in milliseconds; `None` without a known chip.
    floor_ms: Option<f64>,
}

impl<'a> Strided<'a> {
    fn of(context: &Context<'a>, op: &'a OpProfile, rate: Option<&HbmRate>) -> Option<Self> {
        let (into, update) = arrays(context, op)?;
        let order = into.major_to_minor();
        let size = |dim: usize| into.dims.get(dim).copied().unwrap_or(1);
        let position = order
            .iter()
            .position(|&dim| update.dims.get(dim).is_some_and(|part| *part < size(dim)))?;
        let axis = *order.get(position)?;
        let pieces = order
            .iter()
            .take(position)
            .fold(1u64, |product, &dim| product.saturating_mul(size(dim)));
        if pieces <= 1 {
            return None;
        }
        let update_bytes = update.bytes().0 as f64;
        // Read and written: the compiler may have the update in VMEM now, a contiguous one may
        // have to come from HBM.
        let floor_ms = rate.map(|rate| rate.ms(2.0 * update_bytes * op.step_occurrences));
        let slow = floor_ms.is_none_or(|floor| floor < SLOW_BELOW * op.step_self_ms());
        slow.then_some(Self {
            op,
            into,
            update_bytes,
            axis,
            pieces,
            floor_ms,
        })
    }
}

/// What is updated and with what: operands of the instruction itself, or of the one in a fusion.
fn arrays<'a>(context: &Context<'a>, op: &'a OpProfile) -> Option<(&'a Array, &'a Array)> {
    let into = op.result()?;
    let fits = |update: &Array| {
        let pairs = || update.dims.iter().zip(&into.dims);
        update.dims.len() == into.dims.len()
            && update.dtype == into.dtype
            && pairs().all(|(part, all)| part <= all)
            && pairs().any(|(part, all)| part < all)
    };
    if let Some((program, id)) = hlo(context.evidence, op)
        && let Some(body) = program.body_of(id)
    {
        return body.ops().find_map(|inner| {
            let made = program.get(inner)?;
            if made.opcode != "dynamic-update-slice" {
                return None;
            }
            let update = program.operand_shape(inner, 1)?.as_array()?;
            fits(update).then_some((into, update))
        });
    }
    let update = operand_arrays(context.evidence, op)
        .into_iter()
        .filter(|array| fits(array))
        .max_by_key(|array| array.bytes())?;
    Some((into, update))
}

fn draft(
    context: &Context<'_>,
    group: &Group<String, Strided<'_>>,
    rate: Option<&HbmRate>,
) -> Option<Draft> {
    let first = group.members.first()?;
    let mut evidence = vec![share_of_step(context, "time in these updates", group.sum)];
    for found in group.members.iter().take(3) {
        evidence.push(exhibit(context, found));
    }
    let floor: Option<f64> = group.members.iter().map(|found| found.floor_ms).sum();
    let (expected_ms, low_ms, formula) = match (floor, rate) {
        (Some(floor), Some(rate)) => (
            group.sum - floor,
            // Twice the contiguous time, as other operations may now read across the layout.
            group.sum - 2.0 * floor,
            format!(
                "{:.3} ms now less {floor:.3} ms: the updates read and written in one piece at {}",
                group.sum,
                rate.words()
            ),
        ),
        _ => (
            0.0,
            0.0,
            "without a known chip there is no rate to compare with: give --chip".to_owned(),
        ),
    };
    let best: f64 = rate.map_or(0.0, |rate| {
        let bytes = |found: &Strided<'_>| 2.0 * found.update_bytes * found.op.step_occurrences;
        rate.best_ms(group.members.iter().map(bytes).sum())
    });
    let mut into = first.into.clone();
    into.layout = None;
    Some(Draft {
        title: format!(
            "slices are written across the layout of {into} at {}: {} of each {} step ({})",
            group.key,
            units::ms(group.sum),
            context.evidence.step_time(),
            percent(context.share(group.sum)),
        ),
        kind: AdviceKind::ScanLayout,
        ops: group.members.iter().map(|found| found.op.id).collect(),
        evidence,
        claim: Some(Claim {
            expected_ms,
            low_ms,
            high_ms: group.sum - best,
            upper_bound_ms: group.sum,
            basis: Basis::Modelled,
            formula,
            buckets: group.members.iter().map(|f| Bucket::Op(f.op.id)).collect(),
        }),
        advice: vec![
            format!(
                "make dimension {}, over which the loop runs, the first one of the array (MaxText: param_scan_axis=0; flax: variable_axes and out_axes 0): each slice is then one piece of memory",
                first.axis
            ),
            "if the array must have that order at the end, transpose it once after the loop".to_owned(),
        ],
        caveats: vec![
            "the new order changes the shape of stored parameters: checkpoints have to be converted".to_owned(),
            "what reads the array along another dimension may become slower".to_owned(),
        ],
    })
}

fn exhibit(context: &Context<'_>, found: &Strided<'_>) -> Exhibit {
    let of = context.op(found.op);
    let rate = match found.op.mean_ps() {
        mean if mean > 0.0 => format!(
            ", {} of new data",
            with_digits(found.update_bytes * 1e3 / mean, "GB/s")
        ),
        _ => String::new(),
    };
    Exhibit::text(
        of.name.clone(),
        format!(
            "{}, {} each: {} into dimension {} of {} in {} pieces{rate}",
            times(found.op.step_occurrences),
            profiler::units::Picos(found.op.mean_ps() as u64),
            Bytes(found.update_bytes as u64),
            found.axis,
            found.into,
            found.pieces,
        ),
        "the layout lists dimensions minor to major; the update is smaller in that dimension",
    )
}
