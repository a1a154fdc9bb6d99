//! Collectives that the TensorCore waits for.

use knowledge::advice::AdviceKind;
use profiler::evidence::CollectiveKind;
use profiler::evidence::collectives::{Collective, Collectives, Form};
use profiler::units::{self, percent};

use crate::finding::{Basis, Claim, Draft, Exhibit};
use crate::rule::{Context, Rule};
use crate::rules::collectives::{Group, MIN_SHARE, by_axis, count, small_repeated};

/// See the card.
#[derive(Debug)]
pub struct ExposedCollective;

/// Of exposed collective time, what the least successful published change hid: waits of 41.9 % of
/// the wall, +6.6 % throughput, so 1 - 1/1.066 = 6.2 % of 41.9 % (MoE 295B on TPU7x, see the card).
const HIDDEN_LOW: f64 = 0.15;
/// Halfway from there to the best: reduce-scatters of 12.9 % of the step, of which a peer that
/// overlaps them shows 4.0 %, so 69 % (Qwen3-8B on v6e, see the card).
const HIDDEN_MIDDLE: f64 = 0.42;
/// Below this part of the transfer, work that could hide it does not count as there.
const HIDEABLE: f64 = 0.1;

impl Rule for ExposedCollective {
    fn code(&self) -> &'static str {
        "TT401"
    }

    fn name(&self) -> &'static str {
        "exposed-collective"
    }

    fn card(&self) -> &'static str {
        include_str!("exposed_collective.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        let small = small_repeated(context);
        let is_small = |collective: &Collective| {
            small
                .iter()
                .flat_map(|group| &group.members)
                .any(|member| member.ops == collective.ops)
        };
        let list = context.evidence.collectives.list.iter();
        by_axis(list.filter(|collective| !is_small(collective)))
            .iter()
            .filter(|group| context.share(group.exposed_ms()) >= MIN_SHARE)
            .map(|group| draft(context, group))
            .collect()
    }
}

fn draft(context: &Context<'_>, group: &Group<'_>) -> Draft {
    let evidence = context.evidence;
    let exposed_ms = group.exposed_ms();
    let hideable_ms = Collectives::hideable_ps(evidence, &group.members).map(|ps| ps / 1e9);
    let mut exhibits = group.time_exhibits(context);
    exhibits.extend(group.traffic_exhibits(context));
    if let Some(floor) = group.wire_floor_ms(context) {
        exhibits.push(Exhibit::number(
            "least time on the wire",
            floor,
            "ms/step",
            "wire bytes over the ICI peak",
        ));
    }
    if let Some(hideable) = hideable_ms {
        exhibits.push(Exhibit::number(
            "work that could run meanwhile",
            hideable,
            "ms/step",
            "operations of the same computation that neither feed the collective nor need it, as far as it needs hiding",
        ));
    }
    exhibits.push(form_exhibit(group));
    exhibits.extend(group.source_exhibits());
    Draft {
        title: format!(
            "{} over {} is exposed: {} of each {} step ({})",
            group.kind.name(),
            group.axis,
            units::ms(exposed_ms),
            evidence.step_time(),
            percent(context.share(exposed_ms)),
        ),
        kind: AdviceKind::ExposedCollective,
        ops: group.ops(context),
        evidence: exhibits,
        claim: Some(claim(context, group, hideable_ms)),
        advice: advice(context, group, hideable_ms),
        caveats: caveats(group, hideable_ms),
    }
}

fn claim(context: &Context<'_>, group: &Group<'_>, hideable_ms: Option<f64>) -> Claim {
    let exposed_ms = group.exposed_ms();
    let transfer_ms = group.transfer_ms();
    let buckets = group.buckets(context);
    match hideable_ms.filter(|ms| *ms >= HIDEABLE * transfer_ms) {
        Some(hideable) => Claim {
            expected_ms: HIDDEN_MIDDLE * hideable,
            low_ms: 0.0,
            high_ms: hideable,
            upper_bound_ms: exposed_ms,
            basis: Basis::Modelled,
            formula: format!(
                "{} of {} of transfer have independent work to hide behind; published changes hid 15 % to 69 % of what was exposed, the middle is {} %",
                units::ms(hideable),
                units::ms(transfer_ms),
                100.0 * HIDDEN_MIDDLE
            ),
            buckets,
        },
        None => Claim {
            expected_ms: HIDDEN_LOW * transfer_ms,
            low_ms: 0.0,
            high_ms: transfer_ms,
            upper_bound_ms: exposed_ms,
            basis: Basis::LookedUp,
            formula: format!(
                "{} of transfer times {} %, the least that a published change hid (15 % to 69 %): {}",
                units::ms(transfer_ms),
                100.0 * HIDDEN_LOW,
                if hideable_ms.is_some() {
                    "no independent work runs beside it, so the program must change first"
                } else {
                    "without HLO it is not known what could run meanwhile"
                }
            ),
            buckets,
        },
    }
}

fn form_exhibit(group: &Group<'_>) -> Exhibit {
    let of = |form: Form| {
        let members = group.members.iter().filter(|member| member.form == form);
        members.map(|member| member.count).sum::<f64>()
    };
    let in_flight: f64 = group
        .members
        .iter()
        .filter_map(|member| member.in_flight_ps)
        .sum();
    let text = format!(
        "{} blocking and {} asynchronous executions a step",
        count(of(Form::Blocking)),
        count(of(Form::Async)),
    );
    let text = if in_flight > 0.0 {
        format!(
            "{text}; those are in flight for {} a step",
            units::ms(in_flight / 1e9)
        )
    } else {
        text
    };
    Exhibit::text(
        "form",
        text,
        "an operation that blocks cannot overlap; of an asynchronous one the self time of start and done is exposed",
    )
}

/// Whether a collective belongs to the backward pass.
fn is_backward(context: &Context<'_>, collective: &Collective) -> bool {
    let op = context.evidence.session.op(collective.main_op());
    op.framework_op.contains("transpose(jvp(")
}

fn advice(context: &Context<'_>, group: &Group<'_>, hideable_ms: Option<f64>) -> Vec<String> {
    let transfer_ms = group.transfer_ms();
    let mut advice = Vec::new();
    if hideable_ms.is_some_and(|ms| ms >= HIDEABLE * transfer_ms) {
        advice.push(
            "independent work exists: order the program so that it stands between the collective's start and its first use (gather the next layer's weights while this layer computes; reduce this layer's gradients while the next one's backward pass runs)"
                .to_owned(),
        );
    }
    let backward = group
        .members
        .iter()
        .filter(|member| is_backward(context, member))
        .map(|member| member.exposed_ps)
        .sum::<f64>()
        > 0.5 * group.exposed_ms() * 1e9;
    let each = transfer_ms / group.executions().max(1.0);
    match group.kind {
        CollectiveKind::AllReduce if backward => advice.push(
            "gradients: accumulate over micro-batches before reducing, reduce in bf16 where the loss allows it, and with sharded optimizer state reduce-scatter instead of all-reduce (half the bytes)"
                .to_owned(),
        ),
        CollectiveKind::AllReduce => {
            advice.push(format!(
                "activations of tensor parallelism: do the arithmetic for a smaller tensor axis; the bytes of each of these ({} each) do not shrink with more shards while the matmuls beside them do",
                units::ms(each)
            ));
            advice.push(
                "if the shards must stay: split the batch in two independent halves, so that one half's matmuls run while the other's reduction does"
                    .to_owned(),
            );
        }
        CollectiveKind::AllGather | CollectiveKind::ReduceScatter => advice.push(
            "sharded weights and gradients: these bytes do not depend on the batch, so a larger batch per device (or a smaller sharding axis with more replicas, if memory allows) spends more compute for each of them"
                .to_owned(),
        ),
        CollectiveKind::AllToAll => advice.push(
            "an all-to-all crosses several hops of the torus: work out its bytes against sharding the experts like the other weights before keeping expert parallelism"
                .to_owned(),
        ),
        CollectiveKind::CollectivePermute | CollectiveKind::CollectiveBroadcast => advice.push(
            "give each exchange more work to hide behind: larger blocks a step of the ring or pipeline"
                .to_owned(),
        ),
    }
    let waits = group.exposed_ms() - transfer_ms;
    if waits > 0.3 * group.exposed_ms() {
        advice.push(format!(
            "{} of it is waiting for cores that come later: look at their balance first",
            percent(waits / group.exposed_ms())
        ));
    }
    advice.push(
        "verify with a new profile: the self time of the blocking operations and of the dones must fall, and the step with it"
            .to_owned(),
    );
    advice
}

fn caveats(group: &Group<'_>, hideable_ms: Option<f64>) -> Vec<String> {
    let mut caveats = vec![
        "a bundle of asynchronous-collective flags cost 11 % and 25 % where it was measured (v6e-4); only a test on this program can tell"
            .to_owned(),
    ];
    if hideable_ms.is_none() {
        caveats.push(
            "the profile has no HLO of this program, so what could run meanwhile is not known"
                .to_owned(),
        );
    }
    if group.members.iter().any(|m| m.payload_bytes.is_none()) {
        caveats.push("the payload of some is not known, so rates leave them out".to_owned());
    }
    caveats
}
