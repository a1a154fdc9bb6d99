//! Text evidence: memory.

use crate::cli::Folder;

/// Codes and severities of what `analyze` says of a text.
fn analyze(text: &str) -> Vec<(String, String)> {
    let folder = Folder::new();
    folder.write("run.log", text.as_bytes());
    let report = folder
        .run(&["analyze", "run.log", "--format", "json"])
        .json();
    let word = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let findings = report["findings"].as_array().cloned().unwrap_or_default();
    findings
        .iter()
        .map(|finding| (word(&finding["code"]), word(&finding["severity"])))
        .collect()
}

#[test]
fn a_padded_table_among_other_lines_is_one_finding() {
    let table = include_str!("../fixtures/logs/memory/hbm_table_channels.txt");
    let log = format!(
        "{}{table}{}",
        "step 1\n".repeat(500),
        "Traceback\n".repeat(500)
    );
    assert_eq!(analyze(&log), [("TL301".to_owned(), "high".to_owned())]);
}

#[test]
fn an_error_at_run_time_is_printed_with_its_figures_and_place() {
    let folder = Folder::new();
    let text = include_str!("../fixtures/logs/memory/run_time.txt");
    folder.write("run.log", text.as_bytes());
    let out = folder.run(&["analyze", "run.log"]).ok();
    for words in [
        "TL303 high",
        "TL304 high",
        "run.log:2",
        "1.75",
        "wanted: 9.50 GiB",
    ] {
        assert!(out.contains(words), "no {words:?} in:\n{out}");
    }
}

#[test]
fn utf_16_is_read_alike() {
    let text = include_str!("../fixtures/logs/memory/vmem_spills.txt");
    let bytes: Vec<u8> = [0xfeff_u16]
        .into_iter()
        .chain(text.encode_utf16())
        .flat_map(u16::to_le_bytes)
        .collect();
    let folder = Folder::new();
    folder.write("run.log", &bytes);
    let out = folder.run(&["analyze", "run.log"]).ok();
    assert!(out.contains("TL306 high") && out.contains("18.25"), "{out}");
}
