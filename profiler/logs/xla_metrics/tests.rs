use std::path::Path;

use proptest::prelude::*;

use crate::logs::Logs;
use crate::logs::xla_metrics::analysis::AnalysisKind;
use crate::logs::xla_metrics::quantity::{Quantity, parse};
use crate::note::Notes;

fn read(text: &str) -> Logs {
    let mut logs = Logs::default();
    crate::logs::read(
        Path::new("report.txt"),
        text.as_bytes(),
        &mut logs,
        &mut Notes::default(),
    );
    logs
}

#[test]
fn a_report_of_either_form_gives_its_figures_and_lines() {
    let logs = read(
        "12:00 rank 0 | Metric: CompileTime\n  TotalSamples: 3\n  Accumulator: 02m05s250ms500.000us\n  ValueRate: 001ms000.000us / second\n  Rate: 0.05 / second\n  Percentiles: 1%=010ms000.000us; 50%=01s000ms000.000us;\n  99%=02m04s000ms000.000us\n\nMetric: InboundData\n  TotalSamples: 4\n  Counter: 1.50GB\n  Percentiles: 50%=384.00MB\nCounter: aten::nonzero\n  Value: 7\nMetric: Empty\n  TotalSamples: 0\n  Accumulator: nanB\n  Percentiles: \n",
    );
    let [report] = &logs.xla_metrics.reports[..] else {
        panic!("one report");
    };
    let compile = report.compile().expect("read");
    assert_eq!((compile.samples, compile.at.line), (3, 1));
    assert!((compile.seconds() - 125.250_500).abs() < 1e-9);
    assert_eq!(compile.total_text, "02m05s250ms500.000us");
    assert_eq!(compile.percentile(99.0), Some(124.0));
    assert_eq!(compile.percentile(50.0), Some(1.0));
    let inbound = report.inbound().expect("read");
    assert_eq!(inbound.bytes(), 1.5 * f64::from(1 << 30));
    assert_eq!(report.counters["aten::nonzero"].value, 7);
    assert_eq!(report.counters["aten::nonzero"].at.line, 13);
    assert!(report.metrics["Empty"].total.is_none());
}

#[test]
fn a_name_that_comes_again_begins_a_report_and_a_count_that_falls_a_run() {
    let report = |compiles: u32| {
        format!(
            "Metric: CompileTime\n  TotalSamples: {compiles}\n  Accumulator: 01s\nCounter: MarkStep\n  Value: {compiles}\n"
        )
    };
    let logs = read(&[report(2), report(4), report(1)].concat());
    let runs: Vec<usize> = logs
        .xla_metrics
        .sequences()
        .iter()
        .map(|run| run.len())
        .collect();
    assert_eq!(runs, [2, 1]);
}

#[test]
fn analyses_have_cause_graph_frames_and_sizes() {
    let logs = read(
        "Compilation Analysis: ====\nCompilation Analysis: Compilation Cause\nCompilation Analysis:   user torch_xla.sync\nCompilation Analysis: Graph Info: \nCompilation Analysis:   Graph Hash: 0abc\nCompilation Analysis:   Number of Graph Inputs: 3\nCompilation Analysis:   Number of Graph Outputs: 4\nCompilation Analysis: Python Frame Triggered Execution: \nCompilation Analysis:   sync (/env/site-packages/torch_xla/core/xla_model.py:10)\nCompilation Analysis:   step (/home/me/train.py:21)\nCompilation Analysis: ----\nCompilation Analysis: ====\nPost Compilation Analysis: ====\nPost Compilation Analysis: Graph input size: 1.500000 GB\nPost Compilation Analysis: ----\nExecution Analysis: Execution Cause\nExecution Analysis:   most likely user code trying to access tensor value\n",
    );
    let [compiled, executed] = &logs.xla_metrics.analyses[..] else {
        panic!("two analyses");
    };
    assert_eq!(compiled.kind, AnalysisKind::Compilation);
    assert_eq!(compiled.at.line, 2);
    assert_eq!((compiled.inputs, compiled.outputs), (Some(3), Some(4)));
    assert_eq!(compiled.hash, "0abc");
    assert_eq!(
        compiled.frame().expect("two frames").source,
        "/home/me/train.py:21"
    );
    assert_eq!(
        compiled.sizes,
        [("Graph input size".to_owned(), "1.500000 GB".to_owned())]
    );
    assert_eq!(executed.kind, AnalysisKind::Execution);
    assert!(executed.cause.contains("access tensor value"));
}

#[test]
fn profiler_lines_keep_the_largest_count_and_each_operation() {
    let logs = read(
        "x pt-xla-profiler: CompileTime too frequent: 20 counts during 10 steps\npt-xla-profiler: CompileTime too frequent: 23 counts during 11 steps\npt-xla-profiler: Op(s) not lowered: aten::_foo, aten::bar,  Please open an issue\n",
    );
    let lines = &logs.xla_metrics.profiler;
    let compile = lines.too_frequent["CompileTime"];
    assert_eq!(
        (
            compile.counts,
            compile.steps,
            compile.lines,
            compile.at.line
        ),
        (23, 11, 2, 2)
    );
    assert_eq!(compile.growth(), Some(3.0));
    let ops: Vec<&str> = lines.not_lowered.keys().map(String::as_str).collect();
    assert_eq!(ops, ["aten::_foo", "aten::bar"]);
}

#[test]
fn slow_compilations_and_steps_of_metrics_files_are_read() {
    let logs = read(
        "pt-xla-profiler: CompileTime too slow: longest instance took 14m30s500ms. Please open a GitHub issue\n[MetricsData; step=69]\nMetric: CompileTime\n  TotalSamples: 11\n  Accumulator: 07m50s\n",
    );
    let slow = &logs.xla_metrics.profiler.too_slow["CompileTime"];
    assert_eq!((slow.seconds, slow.text.as_str()), (870.5, "14m30s500ms"));
    assert_eq!(logs.xla_metrics.reports[0].steps(), Some(69));
}

#[test]
fn bounded_shapes_of_the_ir_are_found() {
    let logs = read(
        "  %7 = (s64[<=9,2]{1,0}, s64[]) aten::nonzero(%6), num_outputs=2\n  %8 = f32[9] aten::add(%7.0)\n",
    );
    let [found] = &logs.xla_metrics.dynamic_shapes[..] else {
        panic!("one value");
    };
    assert_eq!(
        (
            found.value.as_str(),
            found.op.as_str(),
            found.shape.as_str()
        ),
        ("%7", "aten::nonzero", "s64[<=9,2]")
    );
}

proptest! {
    #[test]
    fn durations_are_the_sum_of_their_parts(
        days in 0u32..40, hours in 0u32..24, minutes in 0u32..60, seconds in 0u32..60,
        millis in 0u32..1000, micros in 0u32..1_000_000,
    ) {
        let mut text = String::new();
        for (value, unit) in [(days, 'd'), (hours, 'h'), (minutes, 'm'), (seconds, 's')] {
            if value > 0 || !text.is_empty() {
                text.push_str(&format!("{value:02}{unit}"));
            }
        }
        let micros = f64::from(micros) / 1e3;
        text.push_str(&format!("{millis:03}ms{micros:07.3}us"));
        let expected = f64::from(days) * 86_400.0
            + f64::from(hours) * 3_600.0
            + f64::from(minutes) * 60.0
            + f64::from(seconds)
            + f64::from(millis) / 1e3
            + micros / 1e6;
        let found = parse(&text).and_then(Quantity::seconds).expect("a duration");
        prop_assert!((found - expected).abs() <= 1e-9 * expected.max(1.0), "{text}: {found}");
    }

    #[test]
    fn sizes_are_their_number_in_powers_of_1024(hundredths in 0u32..200_000, unit in 0usize..6) {
        let name = ["B", "KB", "MB", "GB", "TB", "PB"][unit];
        let value = f64::from(hundredths) / 100.0;
        let found = parse(&format!("{value:.2}{name}")).and_then(Quantity::bytes).expect("a size");
        let expected = value * 1024f64.powi(i32::try_from(unit).expect("small"));
        prop_assert!((found - expected).abs() <= 1e-9 * expected);
    }

    #[test]
    fn no_text_panics(lines in proptest::collection::vec(
        prop_oneof![
            "(Metric: |Counter: |  TotalSamples: |  Accumulator: |  Value: |  Percentiles: )[0-9a-z%=;:. \u{e9}]{0,40}",
            "(Post )?(Compilation|Execution) Analysis:[ -~]{0,40}",
            "pt-xla-profiler: [a-zA-Z :,0-9]{0,60}",
            "%[0-9]{1,2} = [\\[<=\\](){},a-z0-9:\u{e9} ]{0,60}",
            "\\PC{0,60}",
        ], 0..40,
    )) {
        read(&lines.join("\n"));
    }
}
