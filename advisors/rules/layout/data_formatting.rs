//! Time that goes into moving data for no kernel's and no argument's sake.

use knowledge::advice::AdviceKind;
use profiler::program::shape::{Array, MemorySpace};
use profiler::units::{percent, with_digits};

use crate::finding::{Basis, Claim, Draft, Exhibit};
use crate::rule::{Context, Rule};
use crate::rules::layout::exhibits::{buckets, patterns, share_of_step};
use crate::rules::layout::group::{Group, groups, origin, worthwhile};
use crate::rules::layout::movers::{Mover, Role, movers};
use crate::rules::memory::hbm::HbmRate;

/// See the card.
#[derive(Debug)]
pub struct DataFormatting;

/// A copy that takes less than this part of its time at HBM's rate is slow in itself.
const SLOW_BELOW: f64 = 0.5;
/// Padding from which sizes are called odd.
const ODD_FACTOR: f64 = 1.1;

impl Rule for DataFormatting {
    fn code(&self) -> &'static str {
        "TT603"
    }

    fn name(&self) -> &'static str {
        "data-formatting"
    }

    fn card(&self) -> &'static str {
        include_str!("data_formatting.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        let plain = movers(context)
            .into_iter()
            .filter(|mover| mover.role == Role::Plain)
            .map(|mover| (origin(context, mover.op), mover));
        let groups = groups(plain, Mover::ms);
        let total: f64 = groups.iter().map(|group| group.ms).sum();
        worthwhile(context, groups)
            .map(|group| draft(context, &group, total))
            .collect()
    }
}

/// What could be saved of a group, and why.
#[derive(Default)]
struct Savings {
    slow_ms: f64,
    slow_floor_ms: f64,
    padding_ms: f64,
    odd: Option<String>,
}

fn draft(context: &Context<'_>, group: &Group<String, Mover<'_>>, total: f64) -> Draft {
    let place = &group.key;
    let rate = HbmRate::of(context);
    let mut savings = Savings::default();
    for mover in &group.members {
        savings.add(mover, rate.as_ref());
    }
    let saved_slow = savings.slow_ms - savings.slow_floor_ms;
    let expected_ms = saved_slow.max(0.0) + savings.padding_ms;
    let mut evidence = vec![
        share_of_step(context, "time here", group.ms),
        share_of_step(context, "all data formatting without kernels and arguments", total),
    ];
    evidence.extend(patterns(context, &group.members));
    if let Some(odd) = &savings.odd {
        evidence.push(Exhibit::text("sizes that fill no tile", odd.clone(), "shapes and tiles of the copies"));
    }
    let mut advice = Vec::new();
    if savings.odd.is_some() {
        advice.push("round the size up where it is chosen (a multiple of 128 for the minor dimension, of 8 for the one before, 16 in bf16), or move it away from the two minor dimensions".to_owned());
    }
    advice.push("keep one order of dimensions from where the value is made to where it is used: name dimensions in einsum instead of transposing, split or merge only major dimensions in reshapes".to_owned());
    if saved_slow > 0.0 {
        advice.push("these copies are slower than memory: what moves between the minor dimensions goes through the vector unit piece by piece; transpose once, early, where the array is smallest".to_owned());
    }
    let formula = formula(&savings, rate.as_ref());
    Draft {
        title: format!(
            "data is only moved at {place}: {} of each {} step ({})",
            with_digits(group.ms, "ms"),
            context.evidence.step_time(),
            percent(context.share(group.ms)),
        ),
        kind: AdviceKind::DataFormatting,
        ops: group.members.iter().map(|mover| mover.op.id).collect(),
        evidence,
        claim: Some(Claim {
            expected_ms,
            low_ms: 0.0,
            high_ms: group.ms,
            upper_bound_ms: group.ms,
            basis: Basis::Modelled,
            formula,
            buckets: buckets(&group.members),
        }),
        advice,
        caveats: vec![
            "XLA places such copies where two operations want different layouts: changing one of them may move the copy instead of removing it".to_owned(),
        ],
    }
}

impl Savings {
    fn add(&mut self, mover: &Mover<'_>, rate: Option<&HbmRate>) {
        let arrays = [mover.from, mover.to];
        let in_hbm = |array: &&Array| array.memory_space() == MemorySpace::Hbm;
        let of = |size: fn(&Array) -> u64| -> f64 {
            let arrays = arrays.iter().copied().flatten().filter(in_hbm);
            arrays.map(|array| size(array) as f64).sum()
        };
        let padded = of(|array| array.padded_bytes().0);
        let bytes = of(|array| array.bytes().0);
        if let Some(rate) = rate {
            let floor = rate.ms(padded * mover.op.step_occurrences);
            if floor > 0.0 && floor < SLOW_BELOW * mover.ms() {
                self.slow_ms += mover.ms();
                self.slow_floor_ms += floor;
                return;
            }
        }
        let odd = arrays
            .iter()
            .copied()
            .flatten()
            .filter(|array| array.padding_factor() >= ODD_FACTOR)
            .max_by(|a, b| a.padding_factor().total_cmp(&b.padding_factor()));
        if let Some(odd) = odd.filter(|_| padded > bytes) {
            self.padding_ms += mover.ms() * (1.0 - bytes / padded);
            self.odd.get_or_insert_with(|| {
                format!("{odd} takes {:.2} times its elements", odd.padding_factor())
            });
        }
    }
}

fn formula(savings: &Savings, rate: Option<&HbmRate>) -> String {
    let mut parts = Vec::new();
    if let Some(rate) = rate.filter(|_| savings.slow_ms > 0.0) {
        parts.push(format!(
            "copies below half of HBM's rate: {:.3} ms less {:.3} ms at {}",
            savings.slow_ms,
            savings.slow_floor_ms,
            rate.words()
        ));
    }
    if savings.padding_ms > 0.0 {
        parts.push(format!(
            "the part of the copies that moves padding: {:.3} ms",
            savings.padding_ms
        ));
    }
    if parts.is_empty() {
        parts.push(
            "none expected: the copies run near HBM's rate and no odd size provokes them; high is all of their time".to_owned(),
        );
    }
    parts.join("; ")
}
