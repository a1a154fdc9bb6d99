//! Text evidence: PyTorch/XLA.

use crate::cli::Folder;
use crate::support::fixture_bytes;

#[test]
fn a_report_is_analysed_with_counts_and_places() {
    let folder = Folder::new();
    folder.write(
        "met.txt",
        &fixture_bytes("logs/xla_metrics/ragged_report_2.9.txt"),
    );
    let report = folder
        .run(&["analyze", "met.txt", "--format", "json"])
        .json();
    let findings = report["findings"].as_array().expect("a list");
    let of = |code: &str| findings.iter().find(|finding| finding["code"] == code);
    let recompiles = of("TL120").expect("it recompiles");
    let place = &recompiles["places"][0];
    assert_eq!(place["file"], "met.txt");
    let line = place["line"].as_u64().expect("a line");
    let text =
        String::from_utf8(fixture_bytes("logs/xla_metrics/ragged_report_2.9.txt")).expect("UTF-8");
    let shown = text.lines().nth(usize::try_from(line).expect("small") - 1);
    assert_eq!(shown, Some("Metric: CompileTime"));
    assert!(of("TL221").is_some() && of("TL220").is_some());
}

#[test]
fn a_healthy_report_fails_nothing() {
    let folder = Folder::new();
    folder.write(
        "met.txt",
        &fixture_bytes("logs/xla_metrics/steady_report_2.9.txt"),
    );
    let ran = folder.run(&["analyze", "met.txt", "--fail-on", "low"]);
    assert_eq!(ran.code, 0, "{ran:?}");
}
