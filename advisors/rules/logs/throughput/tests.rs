use profiler::chip::Generation;

use crate::finding::Severity;
use crate::rules::logs::words::{findings, of};

/// Lines as MaxText's, with the step's time, TFLOP/s of a device and loss.
fn lines(steps: usize, seconds: impl Fn(usize) -> f64, loss: impl Fn(usize) -> f64) -> String {
    let line = |step| {
        format!(
            "completed step: {step}, seconds: {:.3}, TFLOP/s/device: 400.000, Tokens/s/device: 7000.000, total_weights: 8, loss: {:.3}\n",
            seconds(step),
            loss(step)
        )
    };
    (0..steps).map(line).collect()
}

#[test]
fn throughput_is_told_with_its_convention() {
    let text = lines(20, |_| 2.0, |_| 1.0);
    let found = findings(&text, Some(Generation::V6e));
    let finding = of(&found, "TL501").expect("told");
    assert_eq!(
        finding.title,
        "MaxText, 20 lines: 2.00 s a step, 7000.0 tokens/s a device, 400.0 TFLOP/s a device, 43.6 % MFU"
    );
    assert!(
        finding
            .caveats
            .iter()
            .any(|caveat| caveat.contains("causal"))
    );
    assert!(
        found
            .iter()
            .all(|finding| finding.severity == Severity::Info)
    );
    let found = findings(&text, None);
    assert!(!found[0].title.contains("MFU") && found[0].advice[0].contains("--chip"));
}

#[test]
fn slow_steps_are_numbered_and_added_up() {
    let text = lines(
        100,
        |step| if [40, 77].contains(&step) { 31.5 } else { 1.5 },
        |_| 1.0,
    );
    let found = findings(&text, None);
    let finding = of(&found, "TL502").expect("slow steps");
    assert_eq!(
        (finding.severity, finding.lost_s),
        (Severity::Medium, Some(60.0))
    );
    assert!(finding.title.contains("2 of 100 steps are slow (step 40, 77), up to 31.5 s against a median of 1.50 s, 60.0 s lost"), "{}", finding.title);
    assert_eq!(finding.confidence.kind, "recompilation");
    let text = lines(
        100,
        |step| if step % 20 == 19 { 31.5 } else { 1.5 },
        |_| 1.0,
    );
    let found = findings(&text, None);
    let finding = of(&found, "TL502").expect("slow steps");
    assert!(
        finding
            .title
            .contains("every 20 steps: a checkpoint or an evaluation"),
        "{}",
        finding.title
    );
    assert_eq!(finding.confidence.kind, "host-dispatch");
}

#[test]
fn drift_and_losses_without_a_number() {
    let found = findings(&lines(80, |step| 1.0 + step as f64 / 100.0, |_| 1.0), None);
    let finding = of(&found, "TL503").expect("it drifts");
    assert_eq!(finding.severity, Severity::Medium);
    let loss = |step| if step >= 30 { f64::NAN } else { 1.0 };
    let found = findings(&lines(40, |_| 1.0, loss), None);
    let finding = of(&found, "TL504").expect("no number");
    assert!(
        finding
            .title
            .contains("in 10 of 40 step lines, from step 30 on"),
        "{}",
        finding.title
    );
}

#[test]
fn waits_for_cache_and_input() {
    let line = "INFO: Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 50.0 tokens/s, Running: 12 reqs, Waiting: 40 reqs, GPU KV cache usage: 99.2%\n";
    let found = findings(&line.repeat(5), None);
    let finding = of(&found, "TL505").expect("full");
    assert!(
        finding.title.contains("in 5 of 5 lines: up to 40 wait"),
        "{}",
        finding.title
    );
    let line = "step: 10 step_time: 1.0 data_time: 0.4\n";
    let found = findings(&line.repeat(6), None);
    let finding = of(&found, "TL508").expect("waits");
    assert_eq!(
        finding.title,
        "steps wait 400.0 ms of 1.00 s for input (40 %)"
    );
}

#[test]
fn the_slow_configuration_and_the_empty_profile() {
    let found = findings(
        "plain: 6.50 req/s\nwith sort and scatter: 0.50 req/s\n",
        None,
    );
    let finding = of(&found, "TL506").expect("slow");
    assert_eq!(
        finding.title,
        "with sort and scatter: 0.5 req/s, 13.0 times less than plain (6.5 req/s)"
    );
    assert_eq!(
        (finding.severity, finding.confidence.kind.as_str()),
        (Severity::High, "op-substitution")
    );
    let found = findings("one chip: 2.00 req/s\nfour chips: 8.00 req/s\n", None);
    assert_eq!(found[0].severity, Severity::Info);
    let found = findings("-rw-r--r-- 1 me me 0 Jan 01 00:00 host.xplane.pb\n", None);
    assert_eq!(
        (found[0].code.as_str(), found[0].confidence.kind.as_str()),
        ("TL507", "capture-quality")
    );
}
