//! Collectives: exposed, small, doing too much, and devices that others wait for.

use advisors::finding::Value;
use advisors::registry::RULES;
use advisors::{Finding, Report};
use profiler::evidence::collectives::Form;
use profiler::evidence::{CollectiveKind, Evidence};
use profiler::program::parse_module;
use profiler::session::{Session, SessionProgram};

use crate::rules::{findings, report, session};
use crate::support::chip::Chip;
use crate::support::oracle::self_times;
use crate::support::profile::{Op, TpuProfile, us};
use crate::support::scenarios::{self, HOST_LATE, STRAGGLER_PERCENT};

const RULES_4XX: [&str; 5] = [
    "exposed-collective",
    "small-repeated-collectives",
    "all-reduce-to-reduce-scatter",
    "straggler-skew",
    "full-resharding",
];

fn evidence(session: &Session) -> Evidence<'_> {
    Evidence::gather(session, None, knowledge::chips::chips())
}

fn close(found: f64, expected: f64, tolerance: f64) -> bool {
    (found - expected).abs() <= tolerance * expected.abs()
}

/// The number of an exhibit whose name begins so.
fn number(finding: &Finding, what: &str) -> f64 {
    let exhibit = finding
        .evidence
        .iter()
        .find(|exhibit| exhibit.what.starts_with(what));
    match exhibit.map(|exhibit| &exhibit.value) {
        Some(Value::Number { number, .. }) => *number,
        other => panic!("{what}: {other:?} in {}", finding.title),
    }
}

/// Self time of a category in milliseconds, mean over devices and over steps `from..to`.
fn category_ms(profile: &TpuProfile, category: &str, steps: std::ops::Range<usize>) -> f64 {
    let mut sum = 0;
    for device in &profile.devices {
        let begin = device.steps[steps.start].start;
        let end = device.steps[steps.end].start;
        for (run, own) in device.ops.iter().zip(self_times(&device.ops)) {
            let inside = run.start >= begin && run.start < end;
            if inside && profile.op(run.op).category == category {
                sum += own;
            }
        }
    }
    sum as f64 / 1e9 / profile.devices.len() as f64 / steps.len() as f64
}

#[test]
fn exposed_gathers_and_scatters_of_fsdp_are_found_with_their_time() {
    let profile = scenarios::train_step_fsdp();
    let report = report(std::slice::from_ref(&profile));
    let found = findings(&report, "exposed-collective");
    for (kind, category) in [
        ("all-gather", "all-gather"),
        ("reduce-scatter", "all-reduce-scatter fusion"),
    ] {
        // Five whole steps, the first of seven is cut.
        let truth = category_ms(&profile, category, 1..6);
        let finding = found
            .iter()
            .find(|finding| finding.title.starts_with(kind))
            .unwrap_or_else(|| panic!("{kind}: {:?}", report.findings));
        let exposed = number(finding, "exposed");
        assert!(
            close(exposed, truth, 0.01),
            "{kind}: {exposed} ms instead of {truth} ms"
        );
        let saving = finding.saving.as_ref().expect("a saving");
        assert!(saving.upper_bound_ms <= truth * 1.01, "{kind}: {saving:?}");
        assert!(saving.low_ms < saving.expected_ms && saving.expected_ms < saving.high_ms);
        // The scenario's devices receive at 90 GB/s; the fusions pad what they reduce.
        let bus = number(finding, "bus bandwidth");
        assert!(close(bus, 90.0, 0.04), "{kind}: {bus} GB/s");
    }
}

#[test]
fn the_table_knows_sizes_groups_and_bytes() {
    let session = session(&[scenarios::train_step_fsdp()]);
    let evidence = evidence(&session);
    let list = &evidence.collectives.list;
    let of = |name: &str| {
        let found = list.iter().find(|c| session.op(c.main_op()).name == name);
        found.unwrap_or_else(|| panic!("no {name}"))
    };
    let gather = of("all-gather.1");
    assert_eq!(
        (gather.kind, gather.form),
        (CollectiveKind::AllGather, Form::Blocking)
    );
    // bf16[2048,8192] over four devices.
    assert_eq!(gather.payload_bytes, Some(2048.0 * 8192.0 * 2.0));
    assert_eq!(gather.wire_bytes, Some(2048.0 * 8192.0 * 2.0 * 0.75));
    assert_eq!(gather.groups.to_string(), "mesh axis 'axis_0' of size 4");
    assert!((gather.count - 1.0).abs() < 1e-9);
    // The fusion's text names no groups: 8192 rows in, 2080 out.
    let scatter = of("fusion.1");
    assert_eq!(scatter.kind, CollectiveKind::ReduceScatter);
    assert_eq!(scatter.groups.size, Some(4));
    let permute = of("collective-permute-done");
    assert_eq!(permute.form, Form::Async);
    assert_eq!(permute.ops.len(), 2, "start and done are one collective");
    let in_flight = permute.in_flight_ps.expect("asynchronous");
    assert!(
        permute.exposed_ps < 0.2 * in_flight,
        "mostly hidden: {permute:?}"
    );
}

#[test]
fn a_slow_core_and_a_late_host_are_told_apart() {
    let hosts = scenarios::two_hosts();
    let report = report(&hosts);
    let found = findings(&report, "straggler-skew");
    assert_eq!(found.len(), 2, "{:?}", report.findings);

    let slow = found
        .iter()
        .find(|f| f.title.contains("works"))
        .expect("a slow core");
    assert!(
        slow.title.starts_with("TPU:2 of tpu-host-1 works"),
        "{}",
        slow.title
    );
    let usual = &hosts[0].devices[0];
    let straggler = &hosts[1].devices[2];
    let matmuls = |host: usize, device: &crate::support::profile::Device| -> u64 {
        let of = |run: &&crate::support::profile::OpRun| {
            hosts[host].op(run.op).category == "convolution fusion"
        };
        device.ops.iter().filter(of).map(|run| run.duration).sum()
    };
    let lost = (matmuls(1, straggler) - matmuls(0, usual)) as f64 / 1e9 / 5.0;
    let expected_lost = matmuls(0, usual) as f64 / 1e9 / 5.0 * STRAGGLER_PERCENT as f64 / 100.0;
    assert!(
        close(lost, expected_lost, 0.02),
        "the scenario: {lost} and {expected_lost}"
    );
    let waited = number(slow, "the others wait");
    assert!(
        close(waited, lost, 0.01),
        "{waited} ms instead of {lost} ms"
    );
    let saving = slow.saving.as_ref().expect("a saving");
    assert!(close(saving.expected_ms, lost, 0.01), "{saving:?}");

    let late = found
        .iter()
        .find(|f| f.title.contains("starts late"))
        .expect("a late host");
    assert!(late.title.starts_with("host tpu-host-1"), "{}", late.title);
    // The late host waits 2 us itself.
    let truth_ms = (HOST_LATE - us(2)) as f64 / 1e9;
    assert!(
        close(number(late, "longest"), truth_ms, 0.01),
        "{:?}",
        late.evidence
    );
    // The clocks are aligned by ends that drift 2 us a step.
    let by_us = number(late, "host tpu-host-1 starts after");
    assert!(
        (by_us - truth_ms * 1e3).abs() <= 4.0,
        "{by_us} us instead of {truth_ms} ms"
    );
}

#[test]
fn waiting_for_a_straggler_is_not_counted_as_transfer() {
    let hosts = scenarios::two_hosts();
    let session = session(&hosts);
    let evidence = evidence(&session);
    let straggler = &hosts[1].devices[2];
    let reduces = straggler
        .ops
        .iter()
        .filter(|run| hosts[1].op(run.op).category == "all-reduce");
    let transfer: u64 = reduces.map(|run| run.duration).sum();
    let found: f64 = evidence
        .collectives
        .list
        .iter()
        .map(|c| c.transfer_ps)
        .sum();
    assert!(
        close(found, transfer as f64 / 5.0, 0.001),
        "{found} instead of {transfer}/5"
    );
}

#[test]
fn runs_without_trouble_in_collectives_are_silent() {
    for profile in [
        scenarios::healthy(),
        scenarios::host_offload(),
        scenarios::padding(),
    ] {
        let report = report(&[profile]);
        for rule in RULES_4XX {
            assert!(
                findings(&report, rule).is_empty(),
                "{rule}: {:?}",
                report.findings
            );
        }
    }
}

/// An op written by hand.
fn op(name: &str, category: &str, hlo: &str) -> Op {
    let shape = hlo
        .split(" = ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next());
    Op {
        name: name.to_owned(),
        hlo: hlo.to_owned(),
        category: category.to_owned(),
        symbol: 1 + name.bytes().map(u64::from).sum::<u64>(),
        shape: shape.unwrap_or_default().to_owned(),
        ..Op::default()
    }
}

/// Ten runs on four v6e of ops by hand, one after the other, each with its duration.
fn by_hand(ops: Vec<(Op, u64)>) -> TpuProfile {
    let mut profile = TpuProfile::new(Chip::V6e, 4);
    let (ops, times): (Vec<Op>, Vec<u64>) = ops.into_iter().unzip();
    let names: Vec<String> = ops.iter().map(|op| op.name.clone()).collect();
    let program = profile.program("jit_f", 77, ops);
    let refs: Vec<_> = names
        .iter()
        .map(|name| profile.find(program, name))
        .collect();
    for device in &mut profile.devices {
        for run in 0..10 {
            device.run(program, run + 1, |device| {
                for (op, time) in refs.iter().zip(&times) {
                    device.op(*op, *time);
                }
            });
            device.idle(us(1));
        }
    }
    profile
}

const MATMUL: &str = "%dot = bf16[4096,4096]{1,0} dot(bf16[4096,4096]{1,0} %a, bf16[4096,4096]{1,0} %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}";

#[test]
fn small_collectives_of_every_layer_are_one_finding_about_latency() {
    let mut ops = vec![(op("dot", "dot", MATMUL), us(900))];
    for layer in 0..32 {
        let name = format!("all-gather.{layer}");
        let hlo = format!(
            "%{name} = bf16[4096]{{0}} all-gather(bf16[1024]{{0}} %scale.{layer}), replica_groups=[1,4]<=[4], dimensions={{0}}"
        );
        ops.push((op(&name, "all-gather", &hlo), us(4)));
    }
    let report = report(&[by_hand(ops)]);
    let found = findings(&report, "small-repeated-collectives");
    assert_eq!(found.len(), 1, "{:?}", report.findings);
    assert!((number(found[0], "executions") - 32.0).abs() < 1e-9);
    assert!(close(number(found[0], "time of one"), 4.0, 1e-6));
    // 32 x 4 us, of which the bytes (8 KiB) need next to nothing.
    let saving = found[0].saving.as_ref().expect("a saving");
    assert!(close(saving.high_ms, 0.128, 0.02), "{saving:?}");
    assert!(close(saving.expected_ms, 0.064, 0.02), "{saving:?}");
    assert!(
        findings(&report, "exposed-collective").is_empty(),
        "not told twice"
    );
}

const SLICED: &str = "HloModule jit_f, is_scheduled=true, num_partitions=4

add {
  x = bf16[] parameter(0)
  y = bf16[] parameter(1)
  ROOT s = bf16[] add(x, y)
}

ENTRY main {
  p = bf16[8192,2048]{1,0} parameter(0)
  i = s32[] parameter(1)
  a = bf16[4096,4096]{1,0} parameter(2)
  z = s32[] constant(0)
  KIND
  cast = bf16[8192,2048]{1,0} bitcast(whole)
  part = bf16[2048,2048]{1,0} dynamic-slice(cast, i, z), dynamic_slice_sizes={2048,2048}
  dot = bf16[4096,4096]{1,0} dot(DOT, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  READER
  ROOT out = (bf16[2048,2048]{1,0}, bf16[4096,4096]{1,0}) tuple(part, dot)
}
";

/// Ten runs of 400 us of `whole`, a slice of its result and 600 us of a matmul that reads `dot`,
/// with the HLO beside the trace.
fn with_hlo(whole: &str, reader: &str, dot: &str) -> Report {
    let hlo = SLICED
        .replace("KIND", whole)
        .replace("READER", reader)
        .replace("DOT", dot);
    let category = if whole.contains("all-gather") {
        "all-gather"
    } else {
        "all-reduce"
    };
    let profile = by_hand(vec![
        (op("whole", category, &format!("%{whole}")), us(400)),
        (
            op(
                "part",
                "dynamic-slice",
                "%part = bf16[2048,2048]{1,0} dynamic-slice(%cast)",
            ),
            us(10),
        ),
        (op("dot", "dot", MATMUL), us(600)),
    ]);
    let mut session = session(&[profile]);
    let (program, _) = parse_module(&hlo);
    assert!(!program.is_empty(), "the HLO of this test can be read");
    session.programs.push(SessionProgram {
        module: Some(0),
        program,
    });
    Report::new(&evidence(&session), RULES)
}

const REDUCE: &str =
    "whole = bf16[8192,2048]{1,0} all-reduce(p), replica_groups={{0,1,2,3}}, to_apply=add";
const GATHER: &str =
    "whole = bf16[8192,2048]{1,0} all-gather(part0), replica_groups={{0,1,2,3}}, dimensions={0}";

#[test]
fn an_all_reduce_that_is_sliced_sends_twice_what_is_needed() {
    let report = with_hlo(REDUCE, "", "a");
    let found = findings(&report, "all-reduce-to-reduce-scatter");
    assert_eq!(found.len(), 1, "{:?}", report.findings);
    let saving = found[0].saving.as_ref().expect("a saving");
    assert!(
        close(saving.high_ms, 0.2, 0.001) && saving.expected_ms < saving.high_ms,
        "half of 400 us: {saving:?}"
    );

    let read_whole = with_hlo(REDUCE, "other = bf16[8192,2048]{1,0} negate(whole)", "a");
    assert!(findings(&read_whole, "all-reduce-to-reduce-scatter").is_empty());
}

#[test]
fn an_all_gather_that_is_sliced_is_a_resharding() {
    let report = with_hlo(GATHER, "", "a");
    let found = findings(&report, "full-resharding");
    assert_eq!(found.len(), 1, "{:?}", report.findings);
    let saving = found[0].saving.as_ref().expect("a saving");
    assert!(
        close(saving.expected_ms, 0.3, 0.001),
        "three quarters of 400 us: {saving:?}"
    );
}

#[test]
fn only_independent_work_can_hide_a_collective() {
    let work = |report: &Report| {
        let found = findings(report, "exposed-collective");
        assert_eq!(found.len(), 1, "{:?}", report.findings);
        let saving = found[0].saving.clone().expect("a saving");
        (number(found[0], "work that could run"), saving.high_ms)
    };
    // The matmul of 600 us depends on nothing, so all 400 us could be hidden.
    let (free, high) = work(&with_hlo(REDUCE, "", "a"));
    assert!(
        close(free, 0.4, 0.001) && close(high, 0.4, 0.001),
        "{free} {high}"
    );
    // One that needs the result hides nothing.
    let (free, _) = work(&with_hlo(REDUCE, "", "cast"));
    assert!(free.abs() < 1e-9, "{free}");
}
