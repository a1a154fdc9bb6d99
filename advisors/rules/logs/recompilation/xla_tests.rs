use crate::finding::Severity;
use crate::rules::logs::words::{findings, of};

macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!("../../../../tests/fixtures/logs/", $name))
    };
}

/// A report with compilations and executions: samples, sum and percentiles of each.
fn report(compile: (u64, &str, &str), execute: Option<(u64, &str, &str)>) -> String {
    let metric = |name: &str, (samples, sum, percentiles): (u64, &str, &str)| {
        format!(
            "Metric: {name}\n  TotalSamples: {samples}\n  Accumulator: {sum}\n  Percentiles: {percentiles}\n"
        )
    };
    let execute = execute.map(|execute| metric("ExecuteTime", execute));
    metric("CompileTime", compile) + &execute.unwrap_or_default()
}

#[test]
fn compilations_between_two_reports_are_recompilation() {
    let found = findings(fixture!("xla_metrics/ragged_report_2.9.txt"), None);
    let finding = of(&found, "TL120").expect("it recompiles");
    assert_eq!(finding.severity, Severity::High);
    assert!(
        finding
            .title
            .starts_with("15 compilations after the first report, 3.41 s in 17 executions"),
        "{}",
        finding.title
    );
    assert_eq!(finding.confidence.kind, "recompilation");
    assert!(
        finding
            .evidence
            .iter()
            .any(|e| format!("{e:?}").contains("06s408ms463.040us"))
    );
    assert!(found.iter().take(3).any(|finding| finding.code == "TL120"));
}

#[test]
fn a_healthy_loop_recompiles_nothing_and_reads_nothing() {
    let found = findings(fixture!("xla_metrics/steady_report_2.9.txt"), None);
    assert!(
        found
            .iter()
            .all(|finding| finding.severity == Severity::Info),
        "{found:?}"
    );
}

#[test]
fn one_long_compilation_among_short_ones_is_a_late_variant() {
    let text = report(
        (3, "05m10s040ms", "50%=020ms000.000us; 99%=05m10s000ms"),
        Some((2, "002ms700.000us", "50%=001ms")),
    );
    let found = findings(&text, None);
    let finding = of(&found, "TL121").expect("a late variant");
    assert_eq!(
        (finding.severity, finding.lost_s),
        (Severity::High, Some(310.0))
    );
    assert!(
        finding.title.contains("310.0 s, the median one 20.0 ms"),
        "{}",
        finding.title
    );
    let paid = report(
        (3, "05m10s040ms", "50%=020ms000.000us; 99%=05m10s000ms"),
        Some((200, "40s", "50%=200ms")),
    );
    let found = findings(&paid, None);
    assert!(of(&found, "TL121").is_none());
    assert_eq!(
        of(&found, "TL122").map(|finding| finding.severity),
        Some(Severity::Info)
    );
}

#[test]
fn long_compilations_weigh_by_their_time_unless_the_program_runs() {
    let severity = |text: &str| of(&findings(text, None), "TL122").map(|finding| finding.severity);
    let percentiles = "50%=40s; 99%=01m10s";
    assert_eq!(
        severity(&report((3, "02m30s", percentiles), None)),
        Some(Severity::Medium)
    );
    assert_eq!(
        severity(&report((3, "01m20s", percentiles), None)),
        Some(Severity::Low)
    );
    assert_eq!(severity(&report((3, "30s", percentiles), None)), None);
    let runs = report(
        (2, "07m", "50%=03m; 99%=04m"),
        Some((41, "35s", "50%=160ms")),
    );
    assert_eq!(severity(&runs), Some(Severity::Info));
}

#[test]
fn graphs_of_one_line_are_counted_and_healthy_analyses_are_not_blamed() {
    let found = findings(fixture!("xla_metrics/ragged_debug_2.9.txt"), None);
    let finding = of(&found, "TL123").expect("many graphs");
    assert_eq!(finding.severity, Severity::High);
    assert!(
        finding.title.contains("10 different graphs")
            && finding.title.contains("/home/user/ragged.py:"),
        "{}",
        finding.title
    );
    let healthy = "Execution Analysis: Execution Cause\nExecution Analysis:   `torch_xla.sync()` in parallel loader at step end\nExecution Analysis: ----\n";
    let found = findings(healthy, None);
    assert!(
        !found.is_empty()
            && found
                .iter()
                .all(|finding| finding.severity == Severity::Info)
    );
}

#[test]
fn bounded_shapes_name_the_operation() {
    let found = findings(fixture!("xla_metrics/nonzero_2.9.txt"), None);
    let finding = of(&found, "TL124").expect("dynamic");
    assert!(
        finding.title.starts_with("aten::nonzero gives s32[<=6,1]"),
        "{}",
        finding.title
    );
    assert_eq!(finding.places[0].line, 4);
}

#[test]
fn a_jitted_function_is_told_with_the_argument_that_changed() {
    for text in [fixture!("jax/late_0.12.log"), fixture!("jax/late_0.6.log")] {
        let found = findings(text, None);
        let finding = of(&found, "TL130").expect("it recompiles");
        assert_eq!(finding.severity, Severity::High, "{}", finding.title);
        assert!(
            finding.title.starts_with(
                "train_step is compiled 8 times after the first, 8 of them among 12 step lines"
            ),
            "{}",
            finding.title
        );
        assert!(
            finding
                .title
                .contains("the shape of tokens changes (f32[32,64], f32[17,64]"),
            "{}",
            finding.title
        );
    }
}

#[test]
fn each_reason_has_its_cure() {
    let found = findings(fixture!("jax/varied_0.6.log"), None);
    let of_name = |name: &str| {
        let mut all = found.iter().filter(|finding| finding.code == "TL130");
        all.find(|finding| finding.title.starts_with(name))
            .expect("told")
    };
    let step = of_name("train_step");
    assert_eq!(step.severity, Severity::Medium);
    assert!(
        step.title.contains("the dtype of batch") || step.title.contains("the shape of batch"),
        "{}",
        step.title
    );
    assert!(
        step.advice
            .iter()
            .any(|advice| advice.contains("jnp.float32"))
    );
    assert!(
        of_name("<lambda>")
            .title
            .contains("a new function is made at the same line")
    );
    assert!(
        of_name("evaluate")
            .title
            .contains("a static argument is 'double', before 'single'")
    );
    assert_eq!(of_name("evaluate").severity, Severity::Low);
}

#[test]
fn healthy_jax_logs_are_not_blamed() {
    for text in [
        fixture!("jax/steady_0.12.log"),
        fixture!("jax/steady_0.6.log"),
        fixture!("jax/cache_warm_0.12.log"),
        fixture!("jax/cache_warm_0.6.log"),
        fixture!("jax/cache_cold_0.12.log"),
    ] {
        let found = findings(text, None);
        assert!(
            found
                .iter()
                .all(|finding| finding.severity == Severity::Info),
            "{found:#?}"
        );
    }
}

#[test]
fn the_persistent_cache_is_missed_where_compiling_takes_long() {
    let compile = "Compiling jit(f) with global shapes and types (ShapedArray(float32[8]),). Argument mapping: (UnspecifiedValue,).\nFinished XLA compilation of jit(f) in 150.5 sec\n";
    let found = findings(compile, None);
    let finding = of(&found, "TL131").expect("no cache");
    assert_eq!(finding.severity, Severity::Low);
    assert!(finding.title.contains("150.5 s"), "{}", finding.title);
    let warm = findings(fixture!("jax/cache_warm_0.6.log"), None);
    assert!(of(&warm, "TL131").is_some_and(|finding| {
        finding
            .title
            .starts_with("persistent cache: 3 hits, 1 missed")
    }));
}

#[test]
fn servers_that_compile_late_are_told() {
    let line = |misses: u32| {
        format!(
            "[2026-01-01 00:00:00] Decode batch. #running-req: 4, #token: 64, token usage: 0.10, gen throughput (token/s): {}.50, #queue-req: 0, #cache_miss: {misses}\n",
            80 - 70 * misses
        )
    };
    let text: String = (0..20).map(|at| line(u32::from(at % 5 == 0))).collect();
    let found = findings(&text, None);
    let finding = of(&found, "TL135").expect("misses");
    assert!(
        finding.title.starts_with("4 of 20 decode lines"),
        "{}",
        finding.title
    );
    assert_eq!(finding.severity, Severity::High);
    let text: String = (0..20).map(|_| line(0)).collect();
    assert!(of(&findings(&text, None), "TL135").is_none());
}
