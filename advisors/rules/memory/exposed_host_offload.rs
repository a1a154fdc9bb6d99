//! Copies over PCIe that the TensorCore waits for.

use knowledge::advice::AdviceKind;
use profiler::evidence::{CopyRoute, MemoryUse, OpClass, OpProfile};
use profiler::units::{self, Bytes, gib_per_s, percent, with_digits};

use crate::finding::{Basis, Bucket, Claim, Draft, Exhibit};
use crate::rule::{Context, Rule};
use crate::rules::memory::room;

/// See the card.
#[derive(Debug)]
pub struct ExposedHostOffload;

/// Below this share of the step it is not worth a line.
const MIN_SHARE: f64 = 0.005;

impl Rule for ExposedHostOffload {
    fn code(&self) -> &'static str {
        "TT301"
    }

    fn name(&self) -> &'static str {
        "exposed-host-offload"
    }

    fn card(&self) -> &'static str {
        include_str!("exposed_host_offload.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        let copies: Vec<&OpProfile> = context.ops_above(0.0, is_host_copy).collect();
        let exposed_ms: f64 = copies.iter().map(|op| op.step_self_ms()).sum();
        if context.share(exposed_ms) < MIN_SHARE {
            return Vec::new();
        }
        // Copies that hide behind others cost nothing and stay out of the finding.
        let waits: Vec<&OpProfile> = copies
            .iter()
            .copied()
            .filter(|op| op.step_self_ms() >= exposed_ms * 0.005)
            .collect();
        vec![draft(context, &copies, &waits, exposed_ms)]
    }
}

fn is_host_copy(op: &OpProfile) -> bool {
    matches!(op.class, OpClass::AsyncCopy(route) if route.is_host())
}

fn draft(
    context: &Context<'_>,
    copies: &[&OpProfile],
    waits: &[&OpProfile],
    exposed_ms: f64,
) -> Draft {
    let evidence = context.evidence;
    let of_route = |wanted: CopyRoute| -> f64 {
        let class = OpClass::AsyncCopy(wanted);
        waits
            .iter()
            .filter(|op| op.class == class)
            .fold(0.0, |sum, op| sum + op.step_self_ms())
    };
    let into_ms = of_route(CopyRoute::HostToDevice);
    let out_ms = of_route(CopyRoute::DeviceToHost);
    let overlap_ms = into_ms.min(out_ms);
    let fit = fits(context, copies);
    let mut exhibits = vec![Exhibit::text(
        "copies that are waited for",
        format!(
            "{} from the host, {} to it, a step",
            units::ms(into_ms),
            units::ms(out_ms)
        ),
        format!(
            "self times of the operations below, mean over cores: {} % of {}",
            (100.0 * context.share(exposed_ms)).round(),
            context.step_base()
        ),
    )];
    exhibits.extend(fit.as_ref().map(Fit::exhibit));
    exhibits.extend(waits.iter().map(|op| copy_exhibit(context, op)));
    let fits_all = fit.as_ref().is_some_and(Fit::holds);
    let overlap = if overlap_ms > 0.0 {
        format!(
            "copies out overlapping the next copies in (full-duplex PCIe): min({} in, {} out) = {}",
            units::ms(into_ms),
            units::ms(out_ms),
            units::ms(overlap_ms)
        )
    } else {
        "copies go one way only, so none can overlap another".to_owned()
    };
    let exposed = units::ms(exposed_ms);
    let (expected_ms, low_ms, formula) = if fits_all {
        let formula =
            format!("without offload: all exposed copy time, {exposed}; with it: {overlap}");
        (exposed_ms, overlap_ms, formula)
    } else {
        let formula = format!("{overlap}; without offload it would be {exposed}");
        (overlap_ms, 0.0, formula)
    };
    let mut advice = vec![if fits_all {
        "keep these buffers in device memory: they fit, so the offload buys nothing".to_owned()
    } else {
        "offload less: bring back by recomputation what is cheap, and keep in device memory what is used soonest".to_owned()
    }];
    if overlap_ms > 0.0 {
        advice.push(format!(
            "if the offload must stay, let the copy out of one step run while the copy in of the next does: up to {} ({} of the step)",
            units::ms(overlap_ms),
            percent(context.share(overlap_ms)),
        ));
    }
    let mut caveats = vec![
        "XProf counts this time as busy and as HBM traffic; both are wrong for copies to S(5)"
            .to_owned(),
    ];
    match &fit {
        Some(fit) => caveats.extend(room::caveat(&fit.memory)),
        None => caveats.push(
            "whether the buffers fit in HBM is not known: the profile has neither memory events nor the compiler's buffers"
                .to_owned(),
        ),
    }
    Draft {
        title: format!(
            "copies to and from host memory are exposed: {} of each {} step",
            units::ms(exposed_ms),
            evidence.step_time()
        ),
        kind: AdviceKind::HostOffload,
        ops: waits.iter().map(|op| op.id).collect(),
        evidence: exhibits,
        claim: Some(Claim {
            expected_ms,
            low_ms,
            high_ms: exposed_ms,
            upper_bound_ms: exposed_ms,
            basis: Basis::Measured,
            formula,
            buckets: waits.iter().map(|op| Bucket::Op(op.id)).collect(),
        }),
        advice,
        caveats,
    }
}

fn copy_exhibit(context: &Context<'_>, op: &OpProfile) -> Exhibit {
    let name = &context.op(op).name;
    let bytes = op.cost.host_bytes.unwrap_or(0.0);
    let route = match op.class {
        OpClass::AsyncCopy(CopyRoute::DeviceToHost) => "to the host",
        _ => "from the host",
    };
    let source = context
        .evidence
        .source_near(op)
        .unwrap_or("no source line in the profile");
    // The wait is a lower bound of the transfer's time, so this rate is an upper bound.
    let mean = profiler::units::Picos(op.mean_ps() as u64);
    Exhibit::text(
        name.clone(),
        format!(
            "{} {route}, waited {} each, at most {}",
            Bytes(bytes as u64),
            mean,
            with_digits(gib_per_s(bytes, mean), "GiB/s"),
        ),
        format!("serves {source}"),
    )
}

/// Whether everything would fit in device memory.
struct Fit {
    resident: u64,
    spare: u64,
    other: u64,
    memory: MemoryUse,
}

impl Fit {
    fn needed(&self) -> u64 {
        self.resident
            .saturating_add(self.spare)
            .saturating_add(self.other)
    }

    fn holds(&self) -> bool {
        self.needed() <= self.memory.capacity_bytes
    }

    fn exhibit(&self) -> Exhibit {
        let verdict = if self.holds() { "fits" } else { "does not fit" };
        Exhibit::text(
            "device memory without the offload",
            format!(
                "{verdict}: {} of {} (all host buffers {}, one being written {}, the rest of the peak {})",
                Bytes(self.needed()),
                Bytes(self.memory.capacity_bytes),
                Bytes(self.resident),
                Bytes(self.spare),
                Bytes(self.other),
            ),
            format!(
                "peak now {}, from {}; the device's side of the copies counts towards the host buffers",
                Bytes(self.memory.used_bytes),
                self.memory.source.words(),
            ),
        )
    }
}

fn fits(context: &Context<'_>, copies: &[&OpProfile]) -> Option<Fit> {
    let memory = context.evidence.memory()?;
    let done = |op: &&&OpProfile| {
        op.instruction
            .as_ref()
            .is_some_and(|i| i.opcode.as_str().ends_with("-done"))
    };
    // Of each copy the bytes of one execution and those of a step: in a loop it moves another
    // part of the buffer each time, as far as is known.
    let sizes = |route: CopyRoute| -> Vec<(u64, u64)> {
        let class = OpClass::AsyncCopy(route);
        let of_route = copies.iter().filter(done).filter(|op| op.class == class);
        of_route
            .filter_map(|op| Some((op.cost.host_bytes?, op.step_occurrences.round().max(1.0))))
            .map(|(each, count)| (each as u64, (each * count) as u64))
            .collect()
    };
    let in_a_step = |copies: &[(u64, u64)]| copies.iter().map(|(_, all)| all).sum::<u64>();
    let into = sizes(CopyRoute::HostToDevice);
    let out = sizes(CopyRoute::DeviceToHost);
    let each = || into.iter().chain(&out).map(|(each, _)| *each);
    // What is read and written back is one buffer; the larger of the two sums is what the host holds.
    let resident = in_a_step(&into).max(in_a_step(&out));
    let spare = each().max()?;
    let device_side = each().sum::<u64>();
    Some(Fit {
        resident,
        spare,
        other: memory.used_bytes.saturating_sub(device_side),
        memory,
    })
}
