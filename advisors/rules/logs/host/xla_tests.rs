use crate::finding::Severity;
use crate::rules::logs::words::{findings, of};

const RAGGED: &str =
    include_str!("../../../../tests/fixtures/logs/xla_metrics/ragged_report_2.9.txt");
const DEBUG: &str =
    include_str!("../../../../tests/fixtures/logs/xla_metrics/ragged_debug_2.9.txt");

fn metric(name: &str, samples: u64, sum: &str, rest: &str) -> String {
    format!("Metric: {name}\n  TotalSamples: {samples}\n  Accumulator: {sum}\n{rest}")
}

#[test]
fn reads_are_counted_by_step() {
    let found = findings(RAGGED, None);
    let finding = of(&found, "TL220").expect("it reads");
    assert_eq!(finding.severity, Severity::High);
    assert!(
        finding
            .title
            .starts_with("24 transfers from the device in 12 steps: 2.0 a step"),
        "{}",
        finding.title
    );
    assert_eq!(finding.confidence.kind, "host-dispatch");
    let text = "Counter: MarkStep\n  Value: 100\nCounter: aten::_local_scalar_dense\n  Value: 5\n";
    assert!(findings(text, None).is_empty());
    let text =
        "Counter: MarkStep\n  Value: 40\nCounter: aten::_local_scalar_dense\n  Value: 4,000\n"
            .replace(',', "");
    let found = findings(&text, None);
    assert!(
        found[0].title.contains("4,000 values read on the host")
            && found[0].title.contains("100.0 a step"),
        "{}",
        found[0].title
    );
}

#[test]
fn reads_without_steps_are_held_against_executions() {
    let text = metric(
        "ExecuteTime",
        100,
        "02s",
        "  ValueRate: 010ms000.000us / second\n",
    ) + &metric("InboundData", 250, "2.50MB", "");
    let found = findings(&text, None);
    let finding = of(&found, "TL220").expect("it reads");
    assert!(finding.title.contains("250 transfers from the device in 100 executions: 2.5 an execution: host reads split the graph"), "{}", finding.title);
}

#[test]
fn operations_on_the_cpu_are_named_with_calls_and_substitutes() {
    let found = findings(RAGGED, None);
    let finding = of(&found, "TL221").expect("nonzero");
    assert_eq!(finding.severity, Severity::High);
    assert_eq!(finding.confidence.kind, "op-substitution");
    assert!(
        finding.title.contains("1 operation is not lowered")
            && finding.title.contains("aten::nonzero (12)"),
        "{}",
        finding.title
    );
    assert!(finding.advice[0].contains("torch.where"));
    let said = findings(
        "pt-xla-profiler: Op(s) not lowered: aten::sgn_out,  Please open\n",
        None,
    );
    assert_eq!(
        of(&said, "TL221").map(|finding| finding.severity),
        Some(Severity::High)
    );
    let few = findings("Counter: aten::kthvalue\n  Value: 2\n", None);
    assert_eq!(
        of(&few, "TL221").map(|finding| finding.severity),
        Some(Severity::Low)
    );
}

#[test]
fn large_reads_are_told_by_bytes_and_time() {
    let text = metric("ExecuteTime", 10, "01s", "  Percentiles: 50%=100ms\n")
        + &metric(
            "InboundData",
            10,
            "4.00GB",
            "  ValueRate: 40.96MB / second\n",
        );
    let found = findings(&text, None);
    let finding = of(&found, "TL222").expect("large");
    assert_eq!(finding.severity, Severity::High);
    assert!(
        finding.title.contains(
            "4.00GB fetched from the device in 10 transfers: 409.60 MB in each of 10 executions"
        ),
        "{}",
        finding.title
    );
    assert!(
        finding.title.contains("one comes every 10.0 s"),
        "{}",
        finding.title
    );
    assert!(of(&found, "TL220").is_none());
    let alone = findings(&metric("InboundData", 1728, "10GB", ""), None);
    assert_eq!(
        of(&alone, "TL222").map(|finding| finding.severity),
        Some(Severity::Info)
    );
}

#[test]
fn steps_in_pieces_and_slow_feeding() {
    let found = findings(RAGGED, None);
    let finding = of(&found, "TL223").expect("cut up");
    assert!(
        finding
            .title
            .contains("35 executions in 12 steps: 2.9 executions a step"),
        "{}",
        finding.title
    );
    let text =
        metric("ExecuteTime", 400, "25s", "") + &metric("TransferToDeviceTime", 2616, "20s", "");
    let found = findings(&text, None);
    let finding = of(&found, "TL224").expect("slow feeding");
    assert_eq!(
        (finding.severity, finding.confidence.kind.as_str()),
        (Severity::Low, "input-pipeline")
    );
}

#[test]
fn lines_that_cut_the_graph_are_named() {
    let found = findings(DEBUG, None);
    let finding = of(&found, "TL225").expect("cut");
    assert!(finding.title.starts_with("24 of 36 executions happened because a tensor's value was read, at /home/user/ragged.py:"), "{}", finding.title);
    assert_eq!(finding.severity, Severity::High);
}
