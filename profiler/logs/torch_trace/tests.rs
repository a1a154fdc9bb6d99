//! The reader on logs that TorchTPU wrote: see `tests/fixtures/logs/torch_trace/logs.origin.md`.

use std::path::Path;

use super::changes::Change;
use super::evidence::{self, ProcessEvidence};
use super::reads::Sign;
use crate::logs::{self, Logs};
use crate::note::Notes;

const STRICT: &str = include_str!("../../../tests/fixtures/logs/torch_trace/ragged.strict.log");
const FUSED: &str = include_str!("../../../tests/fixtures/logs/torch_trace/ragged.fused.log");
const FIXED: [&str; 2] = [
    include_str!("../../../tests/fixtures/logs/torch_trace/ragged_fixed.strict.log"),
    include_str!("../../../tests/fixtures/logs/torch_trace/ragged_fixed.fused.log"),
];
const COMPILED: &str = include_str!("../../../tests/fixtures/logs/torch_trace/compiled.log");

fn read(texts: &[&str]) -> (Logs, Notes) {
    let mut logs = Logs::default();
    let mut notes = Notes::default();
    for text in texts {
        logs::read(Path::new("run.log"), text.as_bytes(), &mut logs, &mut notes);
    }
    (logs, notes)
}

/// The one process's evidence, handed to `look`.
fn with_evidence<T>(text: &str, look: impl FnOnce(&ProcessEvidence<'_>) -> T) -> T {
    let (logs, _) = read(&[text]);
    let all = evidence::gather(&logs.torch_trace);
    assert_eq!(all.len(), 1);
    look(&all[0])
}

#[test]
fn counts_are_those_of_the_cache() {
    // Requests and requests without hits, as the runs printed them.
    let expected = [
        (STRICT, 91, 35),
        (FUSED, 42, 16),
        (FIXED[0], 126, 23),
        (FIXED[1], 42, 11),
    ];
    for (text, launches, compiles) in expected {
        let counts = with_evidence(text, |found| (found.launches, found.compiles));
        assert_eq!(counts, (launches, compiles));
    }
}

#[test]
fn the_size_that_changed_is_found_in_both_modes() {
    for (text, compiles) in [(STRICT, 22), (FUSED, 10)] {
        with_evidence(text, |found| {
            let again = &found.recompiles;
            assert_eq!(
                (again.compiles, again.steps, again.of_steps),
                (compiles, 2, 5)
            );
            assert_eq!(again.causes.len(), 1);
            let cause = &again.causes[0];
            let place = cause.place.as_ref().map(ToString::to_string);
            assert_eq!(place.as_deref(), Some("/home/user/ragged.py:20 in forward"));
            assert_eq!(cause.change.axis(), Some((0, 32, 20)));
            let sizes: Vec<(u64, u64)> = cause.sizes.clone().into_iter().collect();
            assert_eq!(sizes, [(17, 1), (20, 1), (32, 0)]);
            assert!(again.lost_us() > 0 && again.lost_us() < again.steady_us);
        });
    }
}

#[test]
fn the_branch_in_the_forward_pass_is_read_in_each_step() {
    with_evidence(STRICT, |found| {
        assert!(found.strict);
        assert_eq!(found.reads.len(), 1, "{:?}", found.reads);
        let read = &found.reads[0];
        assert_eq!((read.count, read.steps), (7, 7));
        assert_eq!(read.sign, Sign::Branch("any.all_out".to_owned()));
        assert_eq!(read.place.as_ref().map(|place| place.line), Some(21));
    });
    with_evidence(FUSED, |found| {
        let reads: Vec<(u64, &Sign)> = found.reads.iter().map(|r| (r.count, &r.sign)).collect();
        let branch = Sign::Branch("any.all_out".to_owned());
        let cpu = Sign::Reason(".cpu()".to_owned());
        assert_eq!(reads, [(7, &branch), (7, &cpu)]);
    });
}

#[test]
fn the_cured_runs_compile_nothing_after_warm_up_and_read_nothing() {
    for text in FIXED {
        with_evidence(text, |found| {
            let steps = found.steps.as_ref().expect("there are steps");
            assert_eq!(steps.steps.len(), 5);
            assert_eq!(found.recompiles.compiles, 0, "{:?}", found.recompiles);
            assert!(found.reads.is_empty(), "{:?}", found.reads);
        });
    }
}

#[test]
fn a_constant_that_changes_is_told_from_a_size() {
    let program = |number: &str| {
        let text =
            format!("module @a {{\n%c = stablehlo.constant dense<{number}> : tensor<f32>\n}}\n");
        super::StableHlo {
            text,
            ..super::StableHlo::default()
        }
    };
    let trace = super::TorchTrace {
        programs: vec![program("1.0"), program("0.9")],
        ..super::TorchTrace::default()
    };
    let graph = super::AtenGraph::parse("%0: f32[4] = input\n%1: f32[4] = mul.out(%0)\n");
    let change = super::changes::between(&trace, (&graph, Some(0)), (&graph, Some(1)));
    let Change::Constant { before, after } = change else {
        panic!("{change:?}");
    };
    assert!(before.contains("dense<1.0>") && after.contains("dense<0.9>"));
    let same = super::changes::between(&trace, (&graph, Some(0)), (&graph, Some(0)));
    assert_eq!(same, Change::Unseen);
}

#[test]
fn dynamo_tells_what_failed_and_that_it_gave_up() {
    let (logs, _) = read(&[COMPILED]);
    let trace = &logs.torch_trace;
    let forward: Vec<_> = trace
        .dynamo
        .iter()
        .filter(|c| c.function.function == "forward")
        .collect();
    assert_eq!(forward.len(), 9);
    assert_eq!(forward.iter().filter(|c| c.reached_limit()).count(), 1);
    let guard = "tensor 'features' size mismatch at index 0. expected 32, actual 20";
    assert_eq!(forward[1].guards, [guard]);
    let breaks: Vec<(u64, &str)> = trace
        .graph_breaks
        .iter()
        .map(|one| (one.place.line, one.reason.as_str()))
        .collect();
    assert_eq!(breaks[0], (15, "Data-dependent branching"));
    assert_eq!(breaks[1].0, 17);
    assert!(
        trace
            .programs
            .iter()
            .any(|p| p.compiled_mode && p.name.contains("forward"))
    );
}

#[test]
fn rotated_files_are_one_process_whatever_their_order() {
    let middle = STRICT[..STRICT.len() / 2].rfind("\nV").expect("an entry") + 1;
    // Cut between launches, not between a launch and its graph.
    let at = STRICT[..middle].rfind("chromium_event").expect("a launch");
    let at = STRICT[..at].rfind("\nV").expect("its header") + 1;
    let (first, second) = STRICT.split_at(at);
    let (whole, _) = read(&[STRICT]);
    for parts in [[first, second], [second, first]] {
        let (logs, _) = read(&parts);
        assert_eq!(logs.torch_trace.processes.len(), 1);
        let launches = |logs: &Logs| -> Vec<(u64, bool)> {
            let launches = &logs.torch_trace.processes[0].launches;
            launches
                .iter()
                .map(|launch| (launch.start_us, launch.compiled))
                .collect()
        };
        assert_eq!(launches(&logs), launches(&whole));
    }
}

#[test]
fn ranks_are_kept_apart() {
    let other = STRICT.replace("\"pid\":", "\"pid\":1").replace(
        "] {\"chromium_event\": {}, ",
        "] {\"chromium_event\": {}, \"rank\": 3, ",
    );
    let (logs, _) = read(&[STRICT, &other]);
    let ranks: Vec<Option<u32>> = logs.torch_trace.processes.iter().map(|p| p.rank).collect();
    assert_eq!(ranks, [None, Some(3)]);
    // Both ran the same programs: they are kept once.
    let (one, _) = read(&[STRICT]);
    assert_eq!(
        logs.torch_trace.programs.len(),
        one.torch_trace.programs.len()
    );
}

#[test]
fn a_log_cut_anywhere_is_read_up_to_there() {
    let whole = with_evidence(STRICT, |found| found.launches);
    let mut last = 0;
    for end in (0..STRICT.len()).step_by(997) {
        let Some(text) = STRICT.get(..end) else {
            continue;
        };
        let (logs, _) = read(&[text]);
        let launches: u64 = evidence::gather(&logs.torch_trace)
            .iter()
            .map(|p| p.launches)
            .sum();
        assert!(launches >= last && launches <= whole);
        last = launches;
    }
    assert!(last > whole - 3);
}

#[test]
fn nonsense_in_headers_and_payloads_is_left_out() {
    for text in [
        "V1 x] {\"chromium_event\": {}}\n\t{\"name\":\"torchtpu_eager/x\",\"ts\":-1}\n",
        "V1 x] {\"chromium_event\": {}}\n\t{\"name\":\"torchtpu_eager/x\",\"ts\":1,\"dur\":18446744073709551615}\n",
        "V1 x] {\"compilation_metrics\": {\"compile_id\": 3}}\n",
        "V1 x] {\"artifact\": {\"name\": \"recompile_reasons\"}}\n\t[\"\n",
        "V1 x] {\"artifact\": {\"name\": \"torchtpu_eager_aten_graph\"}}\n\t%0: = (\n\treturn\n",
        "\"chromium_event\"\n\t\n",
    ] {
        let (logs, _) = read(&[text]);
        let _ = evidence::gather(&logs.torch_trace);
    }
}
