//! Idle time and the host: whose fault a gap is, and how much of it can go.

use advisors::{Finding, Report, Severity};

use crate::rules::{findings, report};
use crate::support::chip::Chip;
use crate::support::profile::{Device, HostEvent, HostThread, Op, OpRef, TpuProfile, us};
use crate::support::scenarios;

/// Steps of the profiles made here.
const STEPS: u64 = 10;
/// The one program of each step.
const WORK: u64 = us(1_000);
/// What a queued program needs after the one before, by the rules.
const FLOOR_MS: f64 = 0.005;

fn op(name: &str, symbol: u64) -> Op {
    Op {
        name: name.to_owned(),
        hlo: format!("%{name} = f32[1024]{{0}} add(f32[1024]{{0}} %a, f32[1024]{{0}} %b)"),
        category: "non-fusion elementwise".to_owned(),
        symbol,
        shape: "f32[1024]{0}".to_owned(),
        ..Op::default()
    }
}

/// One core that runs [`STEPS`] programs of [`WORK`], each followed by `gap` of idleness, and a
/// main thread that does `meanwhile` (name, begin, duration) after each: begins are relative to
/// the end of the program, in picoseconds.
fn gaps(gap: u64, meanwhile: &[(&str, i64, u64)]) -> TpuProfile {
    let mut profile = TpuProfile::new(Chip::V6e, 1);
    let program = profile.program("jit_step", 7, vec![op("add.1", 1)]);
    let work = profile.find(program, "add.1");
    let mut events = vec![event("PjitFunction(step)", 0, us(5))];
    let device = &mut profile.devices[0];
    for step in 0..STEPS {
        device.run(program, step + 1, |device| device.op(work, WORK));
        let end = device.now() + device.clock_skew;
        device.idle(gap);
        for (name, begin, duration) in meanwhile {
            events.push(event(name, end.saturating_add_signed(*begin), *duration));
        }
    }
    profile.host_threads.push(HostThread {
        name: "main".to_owned(),
        events,
    });
    profile
}

fn event(name: &str, start: u64, duration: u64) -> HostEvent {
    HostEvent {
        name: name.to_owned(),
        start,
        duration,
        stats: Vec::new(),
    }
}

fn expected_ms(finding: &Finding) -> f64 {
    finding.saving.as_ref().expect("a saving").expected_ms
}

fn upper_ms(finding: &Finding) -> f64 {
    finding.saving.as_ref().expect("a saving").upper_bound_ms
}

fn close(got: f64, want: f64) {
    assert!(
        (got - want).abs() <= 0.005 * want.abs(),
        "got {got}, want {want}"
    );
}

/// Codes of the idle rules that found something.
fn codes(report: &Report) -> Vec<&str> {
    let codes = report.findings.iter().map(|finding| finding.code.as_str());
    codes.filter(|code| code.starts_with("TT2")).collect()
}

/// All text of a finding's evidence.
fn evidence(finding: &Finding) -> String {
    finding
        .evidence
        .iter()
        .map(|exhibit| format!("{exhibit:?}\n"))
        .collect()
}

#[test]
fn a_decoder_waits_for_its_host_between_tokens() {
    let report = report(&[scenarios::decode()]);
    assert_eq!(codes(&report), ["TT201"]);
    let finding = findings(&report, "device-idle-between-programs")[0];
    // Thirty tokens with two gaps each; after the last one the capture ends.
    let count = 59.0 / 30.0;
    let idle = count * scenarios::DECODE_GAP as f64 / 1e9;
    close(upper_ms(finding), idle);
    close(expected_ms(finding), idle - count * FLOOR_MS);
    assert_eq!(finding.severity, Severity::High);
    assert!(
        evidence(finding).contains("2.0 a step, median 350 us"),
        "{}",
        evidence(finding)
    );
    assert!(
        evidence(finding).contains("PjitFunction(f)"),
        "{}",
        evidence(finding)
    );
    assert!(
        finding.advice[0].contains("2 programs a step"),
        "{}",
        finding.advice[0]
    );
    let host = report.host.as_ref().expect("a host");
    assert_eq!(host.causes.len(), 1);
    close(host.causes[0].ms_per_step, idle);
}

#[test]
fn a_loop_that_loads_its_batch_after_the_step_waits_for_input() {
    let report = report(&[scenarios::sample()]);
    assert_eq!(codes(&report), ["TT204"]);
    let finding = findings(&report, "input-or-transfer-stall")[0];
    assert!(
        finding.title.contains("the next batch"),
        "{}",
        finding.title
    );
    assert!(
        evidence(finding).contains("load_batch"),
        "{}",
        evidence(finding)
    );
    // Each step ends with 2.6 ms without work, and with what its slowest core takes longer.
    let upper = upper_ms(finding);
    assert!((2.6..2.7).contains(&upper), "{upper}");
    close(expected_ms(finding), upper - FLOOR_MS);
}

#[test]
fn programs_that_follow_each_other_at_once_leave_nothing_to_find() {
    for profile in [
        scenarios::healthy(),
        scenarios::layout_copies(),
        gaps(us(5), &[]),
    ] {
        let report = report(&[profile]);
        assert!(codes(&report).is_empty(), "{:?}", report.findings);
    }
}

#[test]
fn a_read_in_progress_when_the_program_ends_holds_up_the_next() {
    let read = ("np.asarray(jax.Array)", -(us(400).cast_signed()), us(450));
    let report = report(&[gaps(us(200), &[read])]);
    assert_eq!(codes(&report), ["TT206"]);
    let finding = findings(&report, "host-read-in-step")[0];
    close(upper_ms(finding), 0.2 * 9.0 / 10.0);
    close(expected_ms(finding), (0.2 - FLOOR_MS) * 9.0 / 10.0);
    assert!(
        evidence(finding).contains("1.0 a step in np.asarray"),
        "{}",
        evidence(finding)
    );
}

#[test]
fn a_read_on_a_thread_that_sends_no_programs_holds_up_nothing() {
    let mut profile = gaps(us(200), &[]);
    let length = profile.duration();
    let events = vec![
        event("np.asarray(jax.Array)", 0, length),
        event("load_batch", 0, length),
    ];
    profile.host_threads.push(HostThread {
        name: "output".to_owned(),
        events,
    });
    assert_eq!(codes(&report(&[profile])), ["TT201"]);
}

#[test]
fn a_compilation_among_the_steps_is_named_with_the_wait_for_it() {
    let mut profile = gaps(us(3_000), &[]);
    let third = profile.devices[0].modules[2];
    let end = third.start + third.duration + profile.devices[0].clock_skew;
    profile.host_threads[0].events.extend([
        event("PjitFunction(step)", end + us(50), us(2_900)),
        event("backend_compile", end + us(100), us(2_500)),
        event("XLA::TPU run hlo passes", end + us(200), us(1_000)),
    ]);
    // The same compilation on a thread of the runtime is not a second one.
    let events = vec![event("TpuCompiler::Compile", end + us(110), us(2_400))];
    profile.host_threads.push(HostThread {
        name: "tfrt".to_owned(),
        events,
    });
    let report = report(&[profile]);
    assert_eq!(codes(&report), ["TT201", "TT203"]);
    let finding = findings(&report, "compile-during-capture")[0];
    assert!(
        finding
            .title
            .starts_with("a program was compiled among the steps, 2.50 ms")
    );
    assert_eq!(finding.evidence[0].what, "step");
    // One gap of nine; the others are the host's.
    close(expected_ms(finding), 3.0 / 10.0);
    let others = findings(&report, "device-idle-between-programs")[0];
    close(upper_ms(others), 8.0 * 3.0 / 10.0);
}

#[test]
fn compiling_before_the_first_step_is_no_more_than_a_remark() {
    let mut profile = gaps(us(2), &[]);
    let late = us(2_000_000);
    for event in &mut profile.host_threads[0].events {
        event.start += late;
    }
    profile.devices[0].clock_skew += late;
    profile.host_threads[0].events.extend([
        event("PjitFunction(step)", us(100), us(1_700_000)),
        event("backend_compile", us(200), us(1_600_000)),
    ]);
    let report = report(&[profile]);
    assert_eq!(codes(&report), ["TT203"]);
    let finding = findings(&report, "compile-during-capture")[0];
    assert_eq!(
        (finding.severity, finding.saving.is_none()),
        (Severity::Info, true)
    );
    assert!(finding.title.contains("1600 ms"), "{}", finding.title);
    let compiles = &report.host.as_ref().expect("a host").compiles;
    assert_eq!((compiles.len(), compiles[0].in_steps), (1, false));
}

#[test]
fn looking_up_a_compiled_program_is_not_compiling() {
    let lookup = ("CompileTraversal", 1_000_000, us(8));
    let report = report(&[gaps(us(15), &[lookup])]);
    assert!(findings(&report, "compile-during-capture").is_empty());
}

#[test]
fn the_innermost_python_lines_of_the_gaps_are_shown() {
    let frames = [
        ("$train.py:10 main", 0, us(200)),
        ("$train.py:42 log", 10_000_000, us(180)),
        ("$tqdm.py:9 update", 20_000_000, us(150)),
        ("$threading.py:323 wait", 30_000_000, us(140)),
        ("$builtins len", 30_000_000, us(140)),
    ];
    let report = report(&[gaps(us(200), &frames)]);
    let finding = findings(&report, "device-idle-between-programs")[0];
    let chain = "train.py:10 main > train.py:42 log > tqdm.py:9 update";
    assert!(evidence(finding).contains(chain), "{}", evidence(finding));
}

/// Each step: a program of [`WORK`] and five of 10 us, 100 us between any two.
fn op_by_op() -> TpuProfile {
    let mut profile = TpuProfile::new(Chip::V6e, 1);
    let step = profile.program("jit_step", 7, vec![op("add.1", 1)]);
    let names = [
        "jit_add",
        "jit_multiply",
        "jit_where",
        "jit_argmax",
        "jit_iota",
    ];
    let small: Vec<(usize, OpRef)> = (0..)
        .zip(names)
        .map(|(i, name)| {
            let program = profile.program(name, 100 + i, vec![op("small.1", 1)]);
            (program, profile.find(program, "small.1"))
        })
        .collect();
    let work = profile.find(step, "add.1");
    let device = &mut profile.devices[0];
    let mut run = 0;
    let mut once = |device: &mut Device, program: usize, op: OpRef, time: u64| {
        run += 1;
        device.run(program, run, |device| device.op(op, time));
        device.idle(us(100));
    };
    for _ in 0..STEPS {
        once(device, step, work, WORK);
        for (program, op) in &small {
            once(device, *program, *op, us(10));
        }
    }
    profile
}

#[test]
fn a_step_run_op_by_op_is_told_from_a_slow_host() {
    let report = report(&[op_by_op()]);
    assert_eq!(codes(&report), ["TT202", "TT201"]);
    let finding = findings(&report, "many-small-programs")[0];
    // Five gaps before small programs, of which one launch would be left.
    close(upper_ms(finding), 0.5);
    close(expected_ms(finding), 0.5 - FLOOR_MS);
    assert!(
        finding.title.contains("5 programs under 50 us a step"),
        "{}",
        finding.title
    );
    assert!(
        evidence(finding).contains("jit_argmax 1.0"),
        "{}",
        evidence(finding)
    );
    assert_eq!(finding.op_count, 5);
    // The gap before the large one is left to the other rule.
    let other = findings(&report, "device-idle-between-programs")[0];
    close(upper_ms(other), 0.1 * 9.0 / 10.0);
    assert!(report.combined_saving_ms <= 0.6);
}

/// Steps that wait 300 us for other cores at their start, and `before` in front of their second
/// operation.
fn waits(before: u64) -> TpuProfile {
    let mut profile = TpuProfile::new(Chip::V6e, 1);
    let program = profile.program("jit_step", 7, vec![op("add.1", 1), op("recv.2", 2)]);
    let first = profile.find(program, "add.1");
    let second = profile.find(program, "recv.2");
    let device = &mut profile.devices[0];
    for step in 0..STEPS {
        device.run(program, step + 1, |device| {
            device.mark("barrier-cores", us(300));
            device.op(first, WORK);
            device.idle(before);
            device.op(second, us(10));
        });
        device.idle(us(2));
    }
    profile
}

#[test]
fn waits_inside_a_program_are_found_before_their_operation() {
    let report = report(&[waits(us(250))]);
    assert_eq!(codes(&report), ["TT205"]);
    let finding = findings(&report, "idle-inside-programs")[0];
    close(upper_ms(finding), 0.25);
    assert_eq!(finding.ops[0].name, "recv.2");
    assert!(
        evidence(finding).contains("300 us a step"),
        "{}",
        evidence(finding)
    );
}

#[test]
fn waiting_for_other_cores_is_another_matter() {
    assert!(codes(&report(&[waits(0)])).is_empty());
}

#[test]
fn copies_between_the_steps_are_told_from_input() {
    let copy = ("tpu::System::TransferToDevice", 10_000_000, us(160));
    let report = report(&[gaps(us(200), &[copy])]);
    assert_eq!(codes(&report), ["TT204"]);
    let finding = findings(&report, "input-or-transfer-stall")[0];
    assert!(
        finding.title.contains("copies between host and device"),
        "{}",
        finding.title
    );
}

#[test]
fn buckets_of_a_server_are_told_apart_by_their_rows() {
    let mut profile = TpuProfile::new(Chip::V6e, 1);
    let bucket = |profile: &mut TpuProfile, id: u64, rows: u64| {
        let hlo = format!(
            "%fusion.1 = bf16[{rows},4096]{{1,0}} fusion(bf16[{rows},4096]{{1,0}} %x, \
             bf16[4096,4096]{{1,0}} %w), kind=kOutput, calls=%fused"
        );
        let op = Op {
            hlo,
            category: "convolution fusion".to_owned(),
            ..op("fusion.1", 1)
        };
        let program = profile.program("jit_step_fun", id, vec![op]);
        (program, profile.find(program, "fusion.1"))
    };
    let prefill = bucket(&mut profile, 5, 2048);
    let decode = bucket(&mut profile, 6, 64);
    let device = &mut profile.devices[0];
    for (i, (program, op)) in [prefill, decode, decode, decode].into_iter().enumerate() {
        let time = if program == prefill.0 {
            us(900)
        } else {
            us(60)
        };
        device.run(program, i as u64 + 1, |device| device.op(op, time));
        device.idle(us(2));
    }
    let report = report(&[profile]);
    let [family] = &report.families[..] else {
        panic!("one function: {:?}", report.families)
    };
    assert_eq!(family.name, "jit_step_fun");
    let rows: Vec<_> = family
        .buckets
        .iter()
        .map(|b| {
            (
                b.tokens,
                b.phase.as_deref(),
                b.time.count,
                b.program_id.as_str(),
            )
        })
        .collect();
    assert_eq!(
        rows,
        [
            (Some(64), Some("decode"), 3, "6"),
            (Some(2048), Some("prefill"), 1, "5")
        ]
    );
    close(family.buckets[0].time.median_ms, 0.06);
}
