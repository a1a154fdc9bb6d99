//! Time that goes into moving data for no kernel's and no argument's sake.

use knowledge::advice::AdviceKind;
use profiler::program::shape::{Array, MemorySpace};
use profiler::units::{self, percent};

use crate::finding::{Basis, Claim, Draft, Exhibit};
use crate::rule::{Context, Rule};
use crate::rules::layout::exhibits::{buckets, patterns, share_of_step};
use crate::rules::layout::group::{Group, groups, origin, worthwhile};
use crate::rules::layout::movers::{Mover, Role, movers};
use crate::rules::memory::hbm::HbmRate;

/// See the card.
#[derive(Debug)]
pub struct DataFormatting;

/// A copy whose bytes would take less than this part of its time at HBM's rate is slow in itself.
const SLOW_BELOW: f64 = 0.5;
/// Padding from which sizes are called odd.
const ODD_FACTOR: f64 = 1.1;
/// What cannot be helped is worth a word from this share of the step.
const MIN_INHERENT_SHARE: f64 = 0.02;

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
        let rate = HbmRate::of(context);
        let plain: Vec<Mover<'_>> = movers(context)
            .into_iter()
            .filter(|mover| mover.role == Role::Plain)
            .collect();
        let keyed = plain
            .iter()
            .filter(|mover| Savings::of(mover, rate.as_ref()).is_some())
            .map(|mover| (origin(context, mover.op), *mover));
        let groups = groups(keyed, Mover::ms);
        let mut drafts: Vec<Draft> = worthwhile(context, groups)
            .map(|group| draft(context, &group, rate.as_ref()))
            .collect();
        drafts.extend(inherent(context, &plain, rate.as_ref()));
        drafts
    }
}

/// What could be saved of a copy, and why.
#[derive(Clone, Debug, Default)]
struct Savings {
    /// Time of copies that are slow in themselves, and what their bytes would take.
    slow_ms: f64,
    slow_floor_ms: f64,
    /// Time that goes into padding.
    padding_ms: f64,
    /// An array that fills no tile.
    odd: Option<String>,
}

impl Savings {
    fn of(mover: &Mover<'_>, rate: Option<&HbmRate>) -> Option<Self> {
        let arrays: Vec<&Array> = [mover.from, mover.to].into_iter().flatten().collect();
        let in_hbm = |size: fn(&Array) -> u64| -> f64 {
            arrays
                .iter()
                .filter(|array| array.memory_space() == MemorySpace::Hbm)
                .map(|array| size(array) as f64)
                .sum()
        };
        let padded = in_hbm(|array| array.padded_bytes().0);
        let bytes = in_hbm(|array| array.bytes().0);
        let floor = rate.map_or(0.0, |rate| rate.ms(padded * mover.op.step_occurrences));
        if floor > 0.0 && floor < SLOW_BELOW * mover.ms() {
            return Some(Self {
                slow_ms: mover.ms(),
                slow_floor_ms: floor,
                ..Self::default()
            });
        }
        let odd = arrays
            .iter()
            .filter(|array| array.padding_factor() >= ODD_FACTOR)
            .max_by(|a, b| a.padding_factor().total_cmp(&b.padding_factor()))?;
        (padded > bytes).then(|| Self {
            padding_ms: mover.ms() * (1.0 - bytes / padded),
            odd: Some(format!(
                "{odd} takes {:.2} times the bytes of its elements",
                odd.padding_factor()
            )),
            ..Self::default()
        })
    }

    fn add(&mut self, other: Self) {
        self.slow_ms += other.slow_ms;
        self.slow_floor_ms += other.slow_floor_ms;
        self.padding_ms += other.padding_ms;
        self.odd = self.odd.take().or(other.odd);
    }

    fn expected_ms(&self) -> f64 {
        self.slow_ms - self.slow_floor_ms + self.padding_ms
    }

    fn formula(&self, rate: Option<&HbmRate>) -> String {
        let mut parts = Vec::new();
        if let Some(rate) = rate.filter(|_| self.slow_ms > 0.0) {
            parts.push(format!(
                "copies below half of HBM's rate: {:.3} ms less {:.3} ms for their bytes at {}",
                self.slow_ms,
                self.slow_floor_ms,
                rate.words()
            ));
        }
        if self.padding_ms > 0.0 {
            parts.push(format!(
                "the part of the copies that moves padding: {:.3} ms",
                self.padding_ms
            ));
        }
        parts.join("; ")
    }
}

/// Copies at one place that are slow or move padding.
fn draft(context: &Context<'_>, group: &Group<String, Mover<'_>>, rate: Option<&HbmRate>) -> Draft {
    let mut savings = Savings::default();
    for mover in &group.members {
        savings.add(Savings::of(mover, rate).unwrap_or_default());
    }
    let mut evidence = vec![share_of_step(context, "time here", group.sum)];
    evidence.extend(patterns(context, &group.members));
    let mut advice = Vec::new();
    if let Some(odd) = &savings.odd {
        evidence.push(Exhibit::text(
            "sizes that fill no tile",
            odd.clone(),
            "shapes and tiles of the copies",
        ));
        advice.push("round the size up where it is chosen (a multiple of 128 for the minor dimension, of 8 for the one before, 16 in bf16), or move it away from the two minor dimensions".to_owned());
    }
    if savings.slow_ms > 0.0 {
        advice.push("these copies are slower than memory: what moves between the minor dimensions goes through the vector unit piece by piece; transpose once, where the array is smallest".to_owned());
    }
    advice.push("keep one order of dimensions from where the value is made to where it is used: name dimensions in einsum instead of transposing, split or merge only major dimensions in reshapes".to_owned());
    Draft {
        title: format!(
            "data is only moved at {}: {} of each {} step ({})",
            group.key,
            units::ms(group.sum),
            context.evidence.step_time(),
            percent(context.share(group.sum)),
        ),
        kind: AdviceKind::DataFormatting,
        ops: group.members.iter().map(|mover| mover.op.id).collect(),
        evidence,
        claim: Some(Claim {
            expected_ms: savings.expected_ms(),
            low_ms: 0.0,
            high_ms: group.sum,
            upper_bound_ms: group.sum,
            basis: Basis::Modelled,
            formula: savings.formula(rate),
            buckets: buckets(&group.members),
        }),
        advice,
        caveats: vec![CAVEAT.to_owned()],
    }
}

const CAVEAT: &str = "XLA places such copies where two operations want different layouts: changing one of them may move the copy instead of removing it";

/// The copies that run as fast as memory and have no odd size to blame: good to know, nothing is
/// promised.
fn inherent(context: &Context<'_>, plain: &[Mover<'_>], rate: Option<&HbmRate>) -> Option<Draft> {
    let rest: Vec<Mover<'_>> = plain
        .iter()
        .filter(|mover| Savings::of(mover, rate).is_none())
        .copied()
        .collect();
    let ms: f64 = rest.iter().map(Mover::ms).sum();
    if context.share(ms) < MIN_INHERENT_SHARE {
        return None;
    }
    let mut evidence = vec![share_of_step(context, "time only moving data", ms)];
    evidence.extend(patterns(context, &rest));
    Some(Draft {
        title: format!(
            "data formatting takes {} of each {} step ({}), with no cause that stands out",
            units::ms(ms),
            context.evidence.step_time(),
            percent(context.share(ms)),
        ),
        kind: AdviceKind::DataFormatting,
        ops: rest.iter().map(|mover| mover.op.id).collect(),
        evidence,
        claim: None,
        advice: vec!["look at the largest: one order of dimensions from where the value is made to where it is used needs no copy".to_owned()],
        caveats: vec![
            "no saving is expected: these copies are not slower than memory and no odd size provokes them; such time is often inherent".to_owned(),
            CAVEAT.to_owned(),
        ],
    })
}
