//! The reader as its users see it: bytes in, a session out.

use proptest::prelude::*;

use super::{JsonTraceError, looks_like_kineto, looks_like_trace_json, read};
use crate::note::{Note, NoteLevel};
use crate::session::{CoreKind, Session};
use crate::session_builder::SessionBuilder;

/// Two modules on one core, operations before the modules in the file, a copy that overlaps, a
/// marker, derived lines and host threads.
const XPROF: &str = r##"{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":[
{"ph":"M","pid":3,"name":"process_name","args":{"name":"/device:TPU:0"}},
{"ph":"M","pid":3,"name":"process_sort_index","args":{"sort_index":3}},
{"ph":"M","pid":3,"tid":2,"name":"thread_name","args":{"name":"XLA Modules"}},
{"ph":"M","pid":3,"tid":3,"name":"thread_name","args":{"name":"XLA Ops"}},
{"ph":"M","pid":3,"tid":4,"name":"thread_name","args":{"name":"Async XLA Ops"}},
{"ph":"M","pid":3,"tid":5,"name":"thread_name","args":{"name":"Steps"}},
{"ph":"M","pid":3,"tid":6,"name":"thread_name","args":{"name":"XLA TraceMe"}},
{"ph":"M","pid":3,"tid":7,"name":"thread_name","args":{"name":"Framework Ops"}},
{"ph":"M","pid":701,"name":"process_name","args":{"name":"/host:CPU"}},
{"ph":"M","pid":701,"tid":11,"name":"thread_name","args":{"name":"main/11"}},
{"ph":"X","pid":3,"tid":3,"ts":1000.5,"dur":10,"name":"while.1","args":{"device_offset_ps":"900500000","device_duration_ps":"10000001","hlo_category":"while","long_name":"%while.1 = (s32[]) while(%t), body=%b","model_flops":"0"}},
{"ph":"X","pid":3,"tid":3,"ts":1001,"dur":3.9999999999999996,"name":"fusion.2","args":{"device_offset_ps":"901000000","device_duration_ps":"4000000","hlo_category":"loop fusion","long_name":"%fusion.2 = f32[8]{0} fusion(%p), kind=kLoop","bytes_accessed":"64","raw_bytes_accessed":"64","model_flops":"16","memory_access_breakdown":"<opaque bytes>","shape_with_layout":"f32[8]{0}","source":"model.py:7","source_stack":"model.py:7:1\nrun.py:3:1","tf_op":"jit(a)/add:","deduplicated_name":"fusion.1"}},
{"ph":"X","pid":3,"tid":3,"ts":2001,"dur":2,"name":"fusion.2","args":{"device_offset_ps":"1901000000","device_duration_ps":"2000000","hlo_category":"custom fusion","long_name":"%fusion.2 = f32[9]{0} fusion(%p), kind=kCustom"}},
{"ph":"X","pid":3,"tid":3,"ts":2004,"dur":1,"name":"kernel.1","args":{"device_offset_ps":"1904000000","device_duration_ps":"1000000","hlo_category":"custom-call","bytes_accessed":"100"}},
{"ph":"X","pid":3,"tid":3,"ts":2005,"dur":1,"name":"kernel.1","args":{"device_offset_ps":"1905000000","device_duration_ps":"1000000","hlo_category":"custom-call","bytes_accessed":"40"}},
{"ph":"X","pid":3,"tid":3,"ts":2007,"dur":1,"name":"kernel.2","args":{"device_offset_ps":"1907000000","device_duration_ps":"1000000","hlo_category":"custom-call","bytes_accessed":"0"}},
{"ph":"X","pid":3,"tid":3,"ts":9000,"dur":1,"name":"stray.1"},
{"ph":"X","pid":3,"tid":2,"ts":1000.5,"dur":20.25,"name":"jit_a(77)","args":{"run_id":"5","queue_id":"0"}},
{"ph":"X","pid":3,"tid":2,"ts":2000,"dur":20,"name":"jit_b(18446744073709551615)","args":{"run_id":"6","queue_id":"0"}},
{"ph":"X","pid":3,"tid":4,"ts":1002,"dur":7,"name":"copy-start.1","args":{"long_name":"%copy-start.1 = (f32[8], f32[8], u32[]) copy-start(%p)","hlo_category":"copy-start"}},
{"ph":"X","pid":3,"tid":5,"ts":1000,"dur":1100,"name":"1"},
{"ph":"X","pid":3,"tid":6,"ts":1000.1,"dur":0.4,"name":"barrier-cores"},
{"ph":"X","pid":3,"tid":7,"ts":1000,"dur":5,"name":"derived"},
{"ph":"C","pid":3,"ts":1000,"name":"power","args":{"watts":"12"}},
{"ph":"X","pid":701,"tid":11,"ts":0.001,"dur":1e-06,"name":"$run.py:3 main"},
{"ph":"i","pid":701,"tid":11,"ts":5,"s":"t","name":"mark"},
{"ph":"X","pid":701,"tid":12,"ts":6,"dur":2,"name":"work"},
{}]}"##;

const KINETO: &str = r##"{"schemaVersion": 1, "deviceProperties": [],
 "host_name": "vm", "distributedInfo": {"backend": "gloo", "rank": 2, "world_size": 4},
 "displayTimeUnit": "ms", "baseTimeNanoseconds": 1790857026000000000,
 "traceEvents": [
  { "name": "process_name", "ph": "M", "ts": 0.000, "pid": 0, "tid": 0, "args": { "name": "TPU" } },
  { "name": "process_labels", "ph": "M", "ts": 0.000, "pid": 0, "tid": 0, "args": { "labels": "TPU Device" } },
  { "name": "process_name", "ph": "M", "ts": 0.000, "pid": 40, "tid": 0, "args": { "name": "python" } },
  { "name": "thread_name", "ph": "M", "ts": 0.000, "pid": 40, "tid": 41, "args": { "name": "thread 41 (python)" } },
  { "name": "thread_name", "ph": "M", "ts": 0.000, "pid": 0, "tid": 2, "args": { "name": "XLA Modules" } },
  { "name": "thread_name", "ph": "M", "ts": 0.000, "pid": 0, "tid": 3, "args": { "name": "XLA Ops" } },
  { "ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 40, "tid": 41, "ts": 5187842570122.536, "dur": 1.250, "args": { "External id": 3 } },
  { "ph": "X", "cat": "user_annotation", "name": "ProfilerStep#0", "pid": 40, "tid": 41, "ts": 5187842570120.000, "dur": 9.000 },
  { "ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 40, "tid": 41, "ts": 5187842570121.000, "args": {} },
  { "ph": "s", "id": 4, "pid": 40, "tid": 41, "ts": 5187842570121.000, "cat": "fwdbwd", "name": "fwdbwd" },
  { "ph": "X", "cat": "kernel", "name": "tt_jit_f(9)", "pid": 0, "tid": 2, "ts": 5187842570130.000, "dur": 50.000, "args": { "run_id": "3", "queue_id": "0" } },
  { "ph": "X", "cat": "kernel", "name": "%fusion.1 = f32[4] fusion(%p)", "pid": 0, "tid": 3, "ts": 5187842570131.000, "dur": 2.000, "args": { "hlo_category": "loop fusion", "flops": "32", "program_id": "9", "symbol_id": "4", "source": "model.py:1" } },
  { "ph": "X", "cat": "kernel", "name": "attention.1", "pid": 0, "tid": 3, "ts": 5187842570133.000, "dur": 3.000, "args": { "long_name": "%attention.1 = f32[4] custom-call(%p), custom_call_target=/"tpu_custom_call/"", "hlo_category": "custom-call" } },
  { "ph": "X", "cat": "Trace", "ts": 5187842570002.943, "dur": 412367.332, "pid": "Spans", "tid": "PyTorch Profiler", "name": "PyTorch Profiler (0)", "args": { "Op count": 0 } },
  { "name": "Iteration Start: PyTorch Profiler", "ph": "i", "s": "g", "pid": "Traces", "tid": "Trace", "ts": 5187842570002.943 },
  { "name": "Record Window End", "ph": "i", "s": "g", "pid": "", "tid": "", "ts": 5187842983001.302 }
 ], "traceName": "trace.json" }"##;

fn session(text: &str) -> Session {
    let mut builder = SessionBuilder::default();
    read(text.as_bytes(), "vm", &mut builder).expect("a trace");
    builder.finish()
}

fn error(text: &str) -> JsonTraceError {
    read(text.as_bytes(), "vm", &mut SessionBuilder::default()).expect_err("no trace")
}

fn note(session: &Session, code: &str) -> Option<Note> {
    session.notes.iter().find(|note| note.code == code)
}

#[test]
fn operations_carry_their_module_and_what_their_first_event_says() {
    let session = session(XPROF);
    let core = &session.devices[0];
    assert_eq!(
        (core.plane.as_str(), core.kind),
        ("/device:TPU:0", CoreKind::TensorCore)
    );
    let named: Vec<_> = core
        .ops
        .id
        .iter()
        .map(|id| {
            let op = session.op(*id);
            let module = op
                .module
                .map(|id| session.modules[id as usize].name.as_str());
            (op.name.as_str(), module, op.category.as_str())
        })
        .collect();
    assert_eq!(
        named,
        [
            ("while.1", Some("jit_a"), "while"),
            ("fusion.2", Some("jit_a"), "loop fusion"),
            ("fusion.2", Some("jit_b"), "custom fusion"),
            ("kernel.1", Some("jit_b"), "custom-call"),
            ("kernel.1", Some("jit_b"), "custom-call"),
            ("kernel.2", Some("jit_b"), "custom-call"),
            ("stray.1", None, ""),
        ]
    );
    let fusion = session.op(core.ops.id[1]);
    assert_eq!(
        fusion.hlo_text,
        "%fusion.2 = f32[8]{0} fusion(%p), kind=kLoop"
    );
    assert_eq!(fusion.framework_op, "jit(a)/add:");
    assert_eq!(fusion.source, "model.py:7");
    assert_eq!(fusion.source_stack, "model.py:7:1\nrun.py:3:1");
    assert_eq!(fusion.shape, "f32[8]{0}");
    assert_eq!(fusion.deduplicated_name, "fusion.1");
    assert_eq!(
        (fusion.flops, fusion.model_flops, fusion.bytes_accessed),
        (None, Some(16), Some(64))
    );
    assert!(fusion.accesses.is_empty());
    assert_eq!(session.modules[1].program_id, Some(u64::MAX));
}

#[test]
fn times_are_exact_on_both_clocks() {
    let session = session(XPROF);
    let core = &session.devices[0];
    assert_eq!(core.ops.start_ps[..2], [1_000_500_000, 1_001_000_000]);
    assert_eq!(core.ops.duration_ps[..2], [10_000_000, 4_000_000]);
    assert_eq!(core.op_device_duration_ps[..2], [10_000_001, 4_000_000]);
    assert_eq!(core.op_self_ps[..2], [6_000_001, 4_000_000]);
    // The stray operation has no device clock: it is placed by the shift of the one before.
    assert_eq!(core.device_extent_ps, Some((900_500_000, 8_901_000_000)));
}

#[test]
fn each_line_of_a_core_goes_to_its_track() {
    let session = session(XPROF);
    let core = &session.devices[0];
    assert_eq!(core.modules.duration_ps, [20_250_000, 20_000_000]);
    assert_eq!(core.run_ids, [5, 6]);
    let asynchronous: Vec<_> = core.async_ops.iter().collect();
    assert_eq!(asynchronous.len(), 1);
    assert_eq!(session.op(asynchronous[0].2).category, "copy-start");
    let name = |id: u32| session.names[id as usize].as_str();
    assert_eq!((core.steps.len(), name(core.steps.id[0])), (1, "1"));
    assert_eq!(
        (core.marks.len(), name(core.marks.id[0])),
        (1, "barrier-cores")
    );
    assert!(
        !session.names.iter().any(|name| name == "derived"),
        "derived lines are not read"
    );
}

#[test]
fn custom_calls_sum_the_costs_of_their_executions() {
    let session = session(XPROF);
    let core = &session.devices[0];
    let costs = core.event_costs.get(&core.ops.id[3]).expect("costs");
    assert_eq!((costs.bytes_accessed, costs.flops), (140, 0));
    assert_eq!(core.event_costs.len(), 1);
}

#[test]
fn host_threads_keep_python_frames_and_instants() {
    let session = session(XPROF);
    let threads: Vec<_> = session
        .threads
        .iter()
        .map(|thread| {
            let spans: Vec<_> = thread
                .spans
                .iter()
                .map(|(start, duration, id)| (start, duration, session.names[id as usize].as_str()))
                .collect();
            (thread.name.as_str(), spans)
        })
        .collect();
    assert_eq!(
        threads,
        [
            (
                "main/11",
                vec![(1_000, 1, "$run.py:3 main"), (5_000_000, 0, "mark")]
            ),
            ("thread 12", vec![(6_000_000, 2_000_000, "work")]),
        ]
    );
    assert_eq!(session.hosts[0].name, "vm");
}

#[test]
fn what_the_dialect_lacks_is_said_once_and_nothing_else() {
    let session = session(XPROF);
    let notes: Vec<_> = session.notes.iter().collect();
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert_eq!(
        (notes[0].code, notes[0].level),
        ("json-dialect", NoteLevel::Info)
    );
}

#[test]
fn spaces_and_bare_lists_change_nothing() {
    let plain = session(XPROF);
    let start = XPROF.find('[').expect("a list");
    let list = XPROF[start..].strip_suffix('}').expect("a brace");
    let spaced = XPROF
        .replace("{\"ph\":", "{ \"ph\" : ")
        .replace("},\n", " } ,\r\n\t");
    for other in [
        session(list),
        session(&spaced),
        session(&format!("\u{feff}\n{XPROF}")),
    ] {
        assert_eq!(other.devices[0].ops, plain.devices[0].ops);
        assert_eq!(
            (other.threads, other.ops),
            (plain.threads.clone(), plain.ops.clone())
        );
    }
}

#[test]
fn operations_of_xla_cpu_become_a_core_for_each_thread() {
    let session = session(
        r#"[{"ph":"M","pid":701,"name":"process_name","args":{"name":"/host:CPU"}},
        {"ph":"X","pid":701,"tid":1,"ts":1,"dur":2,"name":"dot.3","args":{"hlo_module":"jit_f","hlo_op":"dot.3","run_id":"1"}},
        {"ph":"X","pid":701,"tid":1,"ts":4,"dur":2,"name":"wait","args":{"run_id":"1"}}]"#,
    );
    let core = &session.devices[0];
    assert_eq!((core.kind, core.ops.len()), (CoreKind::Cpu, 1));
    let op = session.op(core.ops.id[0]);
    assert_eq!((op.name.as_str(), op.category.as_str()), ("dot.3", "dot"));
    assert_eq!(session.threads[0].spans.len(), 1);
}

#[test]
fn several_hosts_in_one_file_are_told_apart() {
    let session = session(
        r#"{"traceEvents":[{"ph":"M","pid":1,"name":"process_name","args":{"name":"w0 /device:TPU:0"}},
        {"ph":"M","pid":2,"name":"process_name","args":{"name":"w1 /device:TPU:0"}},
        {"ph":"M","pid":1,"tid":1,"name":"thread_name","args":{"name":"XLA Ops"}},
        {"ph":"M","pid":2,"tid":1,"name":"thread_name","args":{"name":"XLA Ops"}},
        {"ph":"X","pid":1,"tid":1,"ts":1,"dur":2,"name":"add.1"},
        {"ph":"X","pid":2,"tid":1,"ts":1,"dur":2,"name":"add.1"}]}"#,
    );
    let hosts: Vec<_> = session
        .hosts
        .iter()
        .map(|host| host.name.as_str())
        .collect();
    assert_eq!(hosts, ["w0", "w1"]);
    assert_eq!(
        session
            .devices
            .iter()
            .map(|core| core.host)
            .collect::<Vec<_>>(),
        [0, 1]
    );
}

#[test]
fn a_gpu_trace_names_its_planes() {
    let xprof = session(
        r#"{"traceEvents":[{"ph":"M","pid":1,"name":"process_name","args":{"name":"/device:GPU:0"}}]}"#,
    );
    assert_eq!(xprof.foreign_planes, ["/device:GPU:0"]);
    let kineto = session(
        r#"{"schemaVersion":1,"deviceProperties":[{"id":0,"name":"NVIDIA H100"}],"traceEvents":[
        {"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":1,"dur":2}]}"#,
    );
    assert_eq!(kineto.foreign_planes, ["/device:GPU:0"]);
    assert!(kineto.devices.is_empty());
    let no_kernels = session(
        r#"{"schemaVersion":1,"deviceProperties":[{"id":0,"name":"AMD MI300"}],"traceEvents":[]}"#,
    );
    assert_eq!(no_kernels.foreign_planes, ["/device:GPU (AMD MI300)"]);
}

#[test]
fn kineto_gives_cores_and_threads() {
    let session = session(KINETO);
    assert_eq!(session.hosts[0].name, "vm rank 2");
    let core = &session.devices[0];
    assert_eq!(core.plane, "/device:TPU:0");
    let fusion = session.op(core.ops.id[0]);
    assert_eq!((fusion.name.as_str(), fusion.flops), ("fusion.1", Some(32)));
    assert_eq!(fusion.hlo_text, "%fusion.1 = f32[4] fusion(%p)");
    assert_eq!(fusion.module, Some(core.modules.id[0]));
    assert_eq!(fusion.symbol_id, Some(4));
    let thread = &session.threads[0];
    assert_eq!(
        (session.threads.len(), thread.name.as_str()),
        (1, "thread 41 (python)")
    );
    let names: Vec<_> = thread
        .spans
        .id
        .iter()
        .map(|id| session.names[*id as usize].as_str())
        .collect();
    assert_eq!(names, ["ProfilerStep#0", "aten::mm"]);
    assert_eq!(
        thread.spans.start_ps[1] - thread.spans.start_ps[0],
        2_536_000
    );
    assert!(note(&session, "json-dialect").is_some_and(|note| note.message.contains("HLO")));
}

#[test]
fn kineto_events_with_broken_arguments_keep_name_and_time() {
    let session = session(KINETO);
    let core = &session.devices[0];
    assert_eq!(session.op(core.ops.id[1]).name, "attention.1");
    assert_eq!(core.ops.duration_ps[1], 3_000_000);
    assert_eq!(
        note(&session, "unreadable-args").map(|note| note.count),
        Some(1)
    );
    assert_eq!(note(&session, "unreadable-event"), None);
}

#[test]
fn a_kineto_header_that_is_not_json_is_passed_over() {
    let broken = KINETO.replacen(
        "\"displayTimeUnit\"",
        "\"note\": some words, \"displayTimeUnit\"",
        1,
    );
    assert_eq!(
        session(&broken).devices[0].ops,
        session(KINETO).devices[0].ops
    );
}

#[test]
fn a_host_only_kineto_trace_says_where_the_device_is() {
    let session = session(
        r#"{"schemaVersion":1,"traceEvents":[{"ph":"X","pid":1,"tid":1,"ts":1,"dur":1,"name":"a"}]}"#,
    );
    assert!(
        note(&session, "json-dialect").is_some_and(|note| note.message.contains("no TPU events"))
    );
}

#[test]
fn times_since_1970_in_microseconds_fit() {
    let session = session(
        r#"[{"ph":"X","pid":1,"tid":1,"ts":1790857026000000.25,"dur":1,"name":"a"},
        {"ph":"X","pid":1,"tid":1,"ts":1790857026000007.5,"dur":1,"name":"a"}]"#,
    );
    let spans = &session.threads[0].spans;
    assert_eq!(spans.start_ps[1] - spans.start_ps[0], 7_250_000);
}

#[test]
fn a_file_cut_anywhere_keeps_the_events_before_the_cut() {
    let whole = session(XPROF);
    let list = XPROF.find('[').expect("a list") + 1;
    let end = XPROF.rfind(']').expect("a bracket");
    let events =
        |session: &Session| -> usize { session.devices.iter().map(|core| core.ops.len()).sum() };
    let mut most = 0;
    for at in list..end {
        let cut = session(&XPROF[..at]);
        let note = note(&cut, "truncated-json").unwrap_or_else(|| panic!("no note at byte {at}"));
        assert!(
            note.message.contains(&format!("ends at byte {at} ")),
            "{}",
            note.message
        );
        assert!(events(&cut) >= most, "events were lost at byte {at}");
        most = events(&cut);
    }
    assert_eq!(most, events(&whole));
    assert_eq!(
        note(&session(&XPROF[..=end]), "truncated-json"),
        None,
        "only the brace is missing"
    );
}

#[test]
fn a_cut_says_where_and_how_many_events_it_left() {
    let text =
        r#"{"traceEvents":[{"ph":"X","pid":1,"tid":1,"ts":1,"dur":1,"name":"a"},{"ph":"X","pi"#;
    let note = note(&session(text), "truncated-json").expect("a note");
    assert_eq!(note.level, NoteLevel::Warning);
    let (end, begin) = (text.len(), text.rfind('{').expect("an event"));
    let place = format!("byte {end} in the middle of an event that begins at byte {begin}: the 1 ");
    assert!(note.message.contains(&place), "{}", note.message);
}

#[test]
fn events_that_cannot_be_read_are_counted_and_left_out() {
    let good = r#"{"ph":"X","pid":1,"tid":1,"ts":1,"dur":1,"name":"a"}"#;
    let no_time = r#"{"ph":"X","pid":1,"tid":1,"name":"a"}"#;
    let quotes = r#"{"ph":"X","name":"say "hi"","ts":1}"#;
    let no_phase = r#"{"pid":1,"ts":1,"dur":1,"name":"a"}"#;
    let list = [
        no_time, good, quotes, good, "7", good, "", "{}", no_phase, good,
    ];
    let session = session(&format!(r#"{{"traceEvents":[{}]}}"#, list.join(",")));
    assert_eq!(session.threads[0].spans.len(), 4);
    let unreadable = note(&session, "unreadable-event").map(|note| note.count);
    assert_eq!(unreadable, Some(3));
}

#[test]
fn however_deep_arguments_are_the_event_is_read() {
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let event = r#"{"ph":"X","pid":1,"tid":1,"ts":1,"dur":1,"name":"a""#;
    let session = session(&format!(r#"[{event},"args":{{"x":{deep}}}}},{event}}}]"#));
    assert_eq!(session.threads[0].spans.len(), 2);
    let without_args = note(&session, "unreadable-args").map(|note| note.count);
    assert_eq!(without_args, Some(1));
}

#[test]
fn the_last_event_may_be_unreadable() {
    let session = session(
        r#"{"traceEvents":[{"ph":"X","pid":1,"tid":1,"ts":1,"dur":1,"name":"a"},{"ph":"X","name":"x"y"}]}"#,
    );
    assert_eq!(session.threads[0].spans.len(), 1);
    assert_eq!(
        note(&session, "unreadable-event").map(|note| note.count),
        Some(1)
    );
}

#[test]
fn a_trace_of_exactly_a_million_events_was_cut_by_its_writer() {
    let event = r#"{"ph":"X","ts":1,"name":"a"},"#;
    let trace = |count: usize| {
        session(&format!(
            r#"{{"traceEvents":[{}{{}}]}}"#,
            event.repeat(count)
        ))
    };
    let capped = trace(1_000_000);
    let note_of = |session: &Session| note(session, "event-cap").map(|note| note.level);
    assert_eq!(note_of(&capped), Some(NoteLevel::Warning));
    // It is long enough to be read in parts.
    assert_eq!(capped.threads[0].spans.len(), 1_000_000);
    assert_eq!(note_of(&trace(999_999)), None);
}

#[test]
fn json_that_is_no_trace_is_refused_with_what_it_is() {
    assert_eq!(error(" \n"), JsonTraceError::Empty);
    assert!(
        error("\x1f\u{8b}")
            .to_string()
            .contains("not JSON: found \"\\x1f")
    );
    let keys = error(r#"{"nodes":[{"ph":1}],"edges":{}}"#).to_string();
    assert!(
        keys.contains("an object with the keys nodes, edges"),
        "{keys}"
    );
    assert!(error("{}").to_string().contains("an empty object"));
    assert!(
        error("[1, 2]")
            .to_string()
            .contains("a list without trace events")
    );
    assert!(
        error(r#"{"traceEvents":3}"#)
            .to_string()
            .contains("traceEvents")
    );
}

#[test]
fn traces_are_recognised_by_their_first_bytes() {
    let list = &XPROF[XPROF.find('[').expect("a list")..];
    for (text, is_kineto) in [(XPROF, false), (KINETO, true), (list, false)] {
        assert!(looks_like_trace_json(text.as_bytes()), "{}", &text[..40]);
        assert_eq!(
            looks_like_kineto(text.as_bytes()),
            is_kineto,
            "{}",
            &text[..40]
        );
    }
    for text in [
        "",
        "{}",
        "[1]",
        "HloModule m",
        r#"{"findings":[]}"#,
        "\n\u{8}host",
    ] {
        assert!(!looks_like_trace_json(text.as_bytes()), "{text}");
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = looks_like_trace_json(&bytes);
        let mut builder = SessionBuilder::default();
        let _ = read(&bytes, "vm", &mut builder);
        let _ = builder.finish();
    }

    #[test]
    fn damaged_traces_never_panic_and_keep_columns_together(
        is_kineto in any::<bool>(),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), 0_usize..9, "[\\[\\]{}\",:0-9e.\\\\-]{0,3}"), 1..6),
    ) {
        let mut bytes = if is_kineto { KINETO } else { XPROF }.as_bytes().to_vec();
        for (index, removed, added) in edits {
            let at = index.index(bytes.len());
            let to = (at + removed).min(bytes.len());
            bytes.splice(at..to, added.bytes());
        }
        let mut builder = SessionBuilder::default();
        if read(&bytes, "vm", &mut builder).is_ok() {
            let session = builder.finish();
            for core in &session.devices {
                prop_assert_eq!(core.ops.len(), core.op_self_ps.len());
                prop_assert_eq!(core.ops.len(), core.op_device_duration_ps.len());
                prop_assert_eq!(core.modules.len(), core.run_ids.len());
                for id in &core.ops.id {
                    prop_assert!((*id as usize) < session.ops.len());
                }
            }
        }
    }
}

/// Figures of a real trace, where `TPU_TUNE_REAL_PROFILES` names a folder with profiles and the
/// figures expected of them.
#[test]
#[ignore = "needs TPU_TUNE_REAL_PROFILES"]
fn a_real_trace_gives_its_expected_figures() {
    use std::io::Read;

    let folder = std::env::var("TPU_TUNE_REAL_PROFILES").expect("set TPU_TUNE_REAL_PROFILES");
    let path =
        |ending: &str| std::path::Path::new(&folder).join(format!("tpu7x-vllm-bf16-step.{ending}"));
    let packed = std::fs::read(path("trace.json.gz")).expect("a trace");
    let mut text = String::new();
    flate2::read::GzDecoder::new(&*packed)
        .read_to_string(&mut text)
        .expect("gzip");
    let expected = std::fs::read(path("expected.json")).expect("figures");
    let expected: serde_json::Value = serde_json::from_slice(&expected).expect("JSON");

    let session = session(&text);
    let steps = expected["step"]["ms"].as_object().expect("steps");
    assert_eq!(session.devices.len(), steps.len());
    for core in &session.devices {
        let longest = core.modules.duration_ps.iter().max().expect("a module");
        let ms = steps[&core.plane].as_f64().expect("ms");
        assert!(
            (*longest as f64 / 1e9 - ms).abs() < 1e-6,
            "{}: {longest} ps, not {ms} ms",
            core.plane
        );
        let categories = expected["categories_all_modules_us"][&core.plane]
            .as_object()
            .expect("sums");
        for (category, us) in categories {
            let spans = core.ops.id.iter().zip(&core.op_self_ps);
            let sum: u64 = spans
                .filter(|(id, _)| session.op(**id).category == *category)
                .map(|(_, own)| own)
                .sum();
            let us = us.as_f64().expect("us");
            assert!(
                (sum as f64 / 1e6 - us).abs() < 1e-3,
                "{category}: {sum} ps, not {us} us"
            );
        }
    }
}
