//! A core or host that the others wait for: because it computes more slowly, or comes late.

use knowledge::advice::AdviceKind;
use profiler::evidence::collectives::{CoreLoad, core_name, self_per_step};
use profiler::evidence::{CoreTime, OpClass};
use profiler::session::OpId;
use profiler::units::{self, Picos, percent};

use crate::finding::{Basis, Bucket, Claim, Draft, Exhibit};
use crate::rule::{Context, Rule};
use crate::rules::collectives::MIN_SHARE;

/// See the card.
#[derive(Debug)]
pub struct StragglerSkew;

/// A core that works this much longer than the median of the others is a straggler.
const SLOWER: f64 = 0.02;
/// So is one whose modified z-score is above this (Iglewicz and Hoaglin's limit) …
const Z_LIMIT: f64 = 3.5;
/// … if it works at least this much longer: cores that hardly differ have huge scores.
const SLOWER_BY_Z: f64 = 0.005;
/// Operations shown of a slow core.
const OPS_SHOWN: usize = 3;

impl Rule for StragglerSkew {
    fn code(&self) -> &'static str {
        "TT404"
    }

    fn name(&self) -> &'static str {
        "straggler-skew"
    }

    fn card(&self) -> &'static str {
        include_str!("straggler_skew.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        slow_core(context)
            .into_iter()
            .chain(late_start(context))
            .collect()
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let upper = values.get(values.len() / 2).copied().unwrap_or(0.0);
    let lower = values
        .get(values.len().saturating_sub(1) / 2)
        .copied()
        .unwrap_or(0.0);
    f64::midpoint(lower, upper)
}

/// What the others have of something.
fn of_others(cores: &[CoreLoad], but: usize, of: impl Fn(&CoreLoad) -> f64) -> Vec<f64> {
    let others = cores.iter().filter(|core| core.device != but);
    others.map(of).collect()
}

fn name(context: &Context<'_>, device: usize) -> String {
    let session = context.evidence.session;
    session
        .devices
        .get(device)
        .map_or_else(|| format!("core {device}"), |d| core_name(session, d))
}

/// The core that works longest, if that makes the others wait in collectives.
fn slow_core(context: &Context<'_>) -> Option<Draft> {
    let cores = &context.evidence.collectives.cores;
    let slowest = cores
        .iter()
        .max_by(|a, b| a.work_ps.total_cmp(&b.work_ps))
        .filter(|_| cores.len() > 1)?;
    let works = of_others(cores, slowest.device, |core| core.work_ps);
    let usual = median(works.clone());
    if usual <= 0.0 {
        return None;
    }
    let deviations = works.iter().map(|work| (work - usual).abs()).collect();
    let excess = slowest.work_ps - usual;
    let slower = excess / usual;
    let z = 0.6745 * excess / median(deviations).max(usual * 1e-3);
    if slower < SLOWER && (z < Z_LIMIT || slower < SLOWER_BY_Z) {
        return None;
    }
    // Who waits spends the time in collectives; who is waited for does not.
    let in_collectives = of_others(cores, slowest.device, |core| core.collective_ps);
    let waited = (median(in_collectives) - slowest.collective_ps).max(0.0);
    let lost_ms = excess.min(waited) / 1e9;
    if context.share(lost_ms) < MIN_SHARE {
        return None;
    }
    let who = name(context, slowest.device);
    let ops = collective_ops(context);
    let mut exhibits = vec![
        Exhibit::number(
            format!("work of {who}"),
            slowest.work_ps / 1e9,
            "ms/step",
            "self time of everything but collectives",
        ),
        Exhibit::number(
            "work of the others",
            usual / 1e9,
            "ms/step",
            format!("median of {} cores", works.len()),
        ),
        Exhibit::number(
            "longer by",
            100.0 * slower,
            "%",
            format!("modified z-score {z:.1}"),
        ),
        Exhibit::number(
            "the others wait in collectives",
            waited / 1e9,
            "ms/step",
            format!("median of the others less the time that {who} spends in them"),
        ),
    ];
    exhibits.extend(start_exhibit(context, slowest.device));
    let differences = slower_ops(context, slowest.device);
    exhibits.extend(differences.iter().take(OPS_SHOWN).map(|(id, own, others)| {
        Exhibit::text(
            context.evidence.session.op(*id).name.clone(),
            format!(
                "{} a step, {} on the others",
                units::ms(own / 1e9),
                units::ms(others / 1e9)
            ),
            "self time, mean over the others",
        )
    }));
    Some(Draft {
        title: format!(
            "{who} works {} longer than the other cores, which wait {} of each {} step for it",
            percent(slower),
            units::ms(waited / 1e9),
            context.evidence.step_time(),
        ),
        kind: AdviceKind::Straggler,
        ops: ops.clone(),
        evidence: exhibits,
        claim: Some(Claim {
            expected_ms: lost_ms,
            low_ms: 0.0,
            high_ms: lost_ms,
            upper_bound_ms: waited / 1e9,
            basis: Basis::Measured,
            formula: format!(
                "min({} more work than the median of the others, {} that they wait)",
                units::ms(excess / 1e9),
                units::ms(waited / 1e9)
            ),
            buckets: ops.into_iter().map(Bucket::Op).collect(),
        }),
        advice: vec![
            format!(
                "it is work, not its start, that makes {who} late: compare the operations below; if all are slower alike, suspect the chip (throttling, a bad link) and run once without that host or with another device order"
            ),
            "if only some are slower, the data differ: uneven experts, padding or sequence lengths of that shard"
                .to_owned(),
            "profile again: a straggler that moves is the data's, one that stays is the machine's"
                .to_owned(),
        ],
        caveats: vec![
            "a step ends with its slowest core, so a faster one gains nothing until the next slowest binds"
                .to_owned(),
        ],
    })
}

/// Collectives that take time.
fn collective_ops(context: &Context<'_>) -> Vec<OpId> {
    context
        .ops_above(f64::MIN_POSITIVE, |op| {
            matches!(op.class, OpClass::Collective(_))
        })
        .map(|op| op.id)
        .collect()
}

/// Ops that take longer on a core than on the others, by how much: `(op, there, elsewhere)` in
/// picoseconds a step.
fn slower_ops(context: &Context<'_>, device: usize) -> Vec<(OpId, f64, f64)> {
    let evidence = context.evidence;
    let others = evidence.steps.cores.len().saturating_sub(1).max(1) as f64;
    let total = evidence.steps.cores.len() as f64;
    let mut rows: Vec<(OpId, f64, f64)> = self_per_step(evidence.session, &evidence.steps, device)
        .into_iter()
        .filter_map(|(id, own)| {
            let op = evidence.op(id)?;
            let elsewhere = (op.step_self_ps * total - own).max(0.0) / others;
            let works = !matches!(op.class, OpClass::Collective(_));
            (works && own > elsewhere).then_some((id, own, elsewhere))
        })
        .collect();
    rows.sort_by(|a, b| (b.1 - b.2).total_cmp(&(a.1 - a.2)).then(a.0.cmp(&b.0)));
    rows
}

fn start_exhibit(context: &Context<'_>, device: usize) -> Option<Exhibit> {
    let clocks = &context.evidence.clocks;
    let start = clocks.start_of(device)?;
    Some(Exhibit::number(
        format!("{} starts after the first core by", name(context, device)),
        start.late_ps as f64 / 1e6,
        "us",
        format!("median of {} runs{}", start.runs, alignment(context)),
    ))
}

fn alignment(context: &Context<'_>) -> String {
    let clocks = &context.evidence.clocks;
    if clocks.hosts.len() > 1 {
        format!(
            "; hosts' clocks aligned by the ends of common runs, to {} either way",
            Picos(clocks.spread_ps())
        )
    } else {
        String::new()
    }
}

/// Waiting in the barrier at the start of programs beyond what the last core waits.
fn late_start(context: &Context<'_>) -> Option<Draft> {
    let evidence = context.evidence;
    let barrier = |core: &CoreTime| core.barrier_ps.0 as f64 / core.steps.max(1) as f64;
    let cores = &evidence.cores;
    let last = cores
        .iter()
        .min_by(|a, b| barrier(a).total_cmp(&barrier(b)))
        .filter(|_| cores.len() > 1)?;
    let least = barrier(last);
    let beyond: f64 = cores.iter().map(|core| barrier(core) - least).sum();
    let mean_ms = beyond / cores.len() as f64 / 1e9;
    let longest_ms = cores
        .iter()
        .map(|core| barrier(core) - least)
        .fold(0.0, f64::max)
        / 1e9;
    if context.share(mean_ms) < MIN_SHARE {
        return None;
    }
    let late = latest(context, last.device);
    let who = &late.who;
    let host = if who.starts_with("host ") {
        who.clone()
    } else {
        format!("the host of {who}")
    };
    let mut exhibits = vec![
        Exhibit::number(
            "waiting at the start of programs",
            mean_ms,
            "ms/step",
            "runtime markers barrier-cores, mean over cores, beyond what the last core waits",
        ),
        Exhibit::number(
            "longest",
            longest_ms,
            "ms/step",
            "the core that waits longest",
        ),
    ];
    exhibits.extend(late.exhibit);
    Some(Draft {
        title: format!(
            "{who} starts late: the other cores wait up to {} of each {} step in a barrier",
            units::ms(longest_ms),
            evidence.step_time(),
        ),
        kind: AdviceKind::Straggler,
        ops: Vec::new(),
        evidence: exhibits,
        claim: Some(Claim {
            expected_ms: mean_ms / 2.0,
            low_ms: 0.0,
            high_ms: longest_ms,
            upper_bound_ms: longest_ms,
            basis: Basis::Modelled,
            formula: format!(
                "half of the time in barrier-cores beyond the {} that the last core waits, mean over cores {} a step: a host that is on time shortens the wait, but the next to last binds then",
                units::ms(least / 1e9),
                units::ms(mean_ms)
            ),
            buckets: vec![Bucket::IdleInside],
        }),
        advice: vec![
            format!(
                "look at what {host} does before each dispatch: input pipeline, logging, checkpoints, garbage collection"
            ),
            "dispatch ahead: without a read of the result in each step, a late host catches up while the devices work"
                .to_owned(),
        ],
        caveats: vec![
            "the barrier shows who waits; that the core which waits least is the late one is an inference where clocks could not be aligned"
                .to_owned(),
        ],
    })
}

/// Who comes last.
struct Late {
    who: String,
    exhibit: Option<Exhibit>,
}

/// The host that starts late if all its cores do, else the core.
fn latest(context: &Context<'_>, least_waiting: usize) -> Late {
    let evidence = context.evidence;
    let session = evidence.session;
    let starts = &evidence.clocks.starts;
    let host_of = |device: usize| session.devices.get(device).map(|device| device.host);
    let mut hosts: Vec<(u32, f64)> = Vec::new();
    for clock in &evidence.clocks.hosts {
        let late: Vec<f64> = starts
            .iter()
            .filter(|start| host_of(start.device) == Some(clock.host))
            .map(|start| start.late_ps as f64)
            .collect();
        if !late.is_empty() {
            hosts.push((clock.host, median(late)));
        }
    }
    let last = hosts.iter().max_by(|a, b| a.1.total_cmp(&b.1)).copied();
    let next = hosts
        .iter()
        .filter(|(host, _)| Some(*host) != last.map(|(host, _)| host))
        .map(|(_, late)| *late)
        .fold(0.0, f64::max);
    match last {
        Some((host, late))
            if hosts.len() > 1 && late - next > evidence.clocks.spread_ps() as f64 =>
        {
            let who = session.hosts.get(host as usize).map_or_else(
                || format!("host {host}"),
                |host| format!("host {}", host.name),
            );
            let runs = starts.iter().map(|start| start.runs).max().unwrap_or(0);
            let exhibit = Exhibit::number(
                format!("{who} starts after the first core by"),
                late / 1e6,
                "us",
                format!("median of {runs} runs and its cores{}", alignment(context)),
            );
            Late {
                who,
                exhibit: Some(exhibit),
            }
        }
        _ => Late {
            who: name(context, least_waiting),
            exhibit: start_exhibit(context, least_waiting),
        },
    }
}
