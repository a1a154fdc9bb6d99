//! Formats, exit codes, colours, widths and repeatability.

use std::io::Read as _;
use std::process::Stdio;

use super::{Folder, Ran, hostile};
use crate::support::scenarios;

/// Every way to write a result of a profile `run.xplane.pb`.
const VIEWS: &[&[&str]] = &[
    &["analyze", "run.xplane.pb"],
    &["analyze", "-v", "run.xplane.pb"],
    &["analyze", "--format", "json", "run.xplane.pb"],
    &["analyze", "--format", "markdown", "run.xplane.pb"],
    &["analyze", "--format", "markdown", "-v", "run.xplane.pb"],
    &["analyze", "--format", "sarif", "run.xplane.pb"],
    &["ops", "run.xplane.pb", "-n", "0"],
    &["ops", "run.xplane.pb", "--format", "json"],
    &["ops", "run.xplane.pb", "--format", "markdown"],
    &["steps", "run.xplane.pb"],
    &["steps", "run.xplane.pb", "--format", "json"],
    &["steps", "run.xplane.pb", "--format", "markdown"],
    &["diff", "run.xplane.pb", "run.xplane.pb"],
    &[
        "diff",
        "run.xplane.pb",
        "run.xplane.pb",
        "--by",
        "source",
        "-n",
        "0",
    ],
    &["diff", "run.xplane.pb", "run.xplane.pb", "--format", "json"],
    &[
        "diff",
        "run.xplane.pb",
        "run.xplane.pb",
        "--format",
        "markdown",
    ],
];

fn is_text(args: &[&str]) -> bool {
    !args.contains(&"--format")
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let folder = Folder::with(&scenarios::train_step_fsdp());
    for args in VIEWS {
        let first = folder.run(args).ok();
        assert!(!first.is_empty());
        assert_eq!(first, folder.run(args).ok(), "{args:?}");
    }
}

#[test]
fn text_fits_eighty_columns() {
    for profile in [scenarios::sample(), hostile()] {
        let folder = Folder::with(&profile);
        for args in VIEWS.iter().filter(|args| is_text(args)) {
            for line in folder.run(args).ok().lines() {
                assert!(line.chars().count() <= 80, "{args:?}: {line}");
            }
        }
    }
}

#[test]
fn no_escape_sequence_of_a_profile_reaches_the_terminal() {
    let folder = Folder::with(&hostile());
    for args in VIEWS {
        let out = folder.run(args).ok();
        // JSON is data: it escapes controls and keeps all other characters.
        let is_json = args.contains(&"json");
        let is_hostile = |c: char| match c {
            '\n' => false,
            '\u{202e}' => !is_json,
            _ if is_json => c.is_ascii_control(),
            _ => c.is_control(),
        };
        let bad = out.chars().find(|c| is_hostile(*c));
        assert_eq!(bad, None, "{args:?}");
        assert!(out.contains("evil"), "{args:?}");
    }
}

#[test]
fn names_are_inert_in_markdown() {
    let folder = Folder::with(&hostile());
    for args in VIEWS.iter().filter(|args| args.contains(&"markdown")) {
        let out = folder.run(args).ok();
        let prose = without_code(&out);
        assert!(!prose.contains("<b>"), "{args:?}: {prose}");
        assert!(!prose.contains("@all"), "{args:?}: {prose}");
        for line in out.lines().filter(|line| line.starts_with("| ")) {
            let ends = line.replace("\\|", "").matches('|').count();
            let header = out
                .lines()
                .find(|l| l.starts_with("| :--"))
                .expect("a table");
            assert!(ends >= 2 && header.contains('|'), "{line}");
        }
    }
}

/// Markdown without its code spans, line by line.
fn without_code(text: &str) -> String {
    let mut prose = String::new();
    for line in text.lines() {
        let mut rest = line;
        while let Some(at) = rest.find('`').filter(|at| !rest[..*at].ends_with('\\')) {
            prose.push_str(&rest[..at]);
            let fence: String = rest[at..].chars().take_while(|c| *c == '`').collect();
            let after = &rest[at + fence.len()..];
            let Some(end) = after.find(&fence) else {
                rest = after;
                break;
            };
            rest = &after[end + fence.len()..];
        }
        prose.push_str(rest);
        prose.push('\n');
    }
    prose
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let folder = Folder::with(&scenarios::host_offload());
    let args = &["analyze", "run.xplane.pb"];
    let plain = folder.run(args).ok();
    assert!(!plain.contains('\u{1b}'));
    let forced = |no_color: bool| {
        let mut command = folder.command(args);
        command.env("CLICOLOR_FORCE", "1");
        if no_color {
            command.env_remove("CLICOLOR_FORCE").env("NO_COLOR", "1");
        }
        Ran::from(command.output().expect("the program starts")).ok()
    };
    let coloured = forced(false);
    assert!(coloured.contains("\u{1b}[1m"));
    assert_eq!(forced(true), plain);
    let missing = folder.run(&["analyze", "missing"]);
    assert!(!missing.err.contains('\u{1b}'), "{}", missing.err);
}

#[test]
fn findings_above_the_threshold_exit_with_one() {
    let folder = Folder::with(&scenarios::decode());
    let json = folder
        .run(&["analyze", "run.xplane.pb", "--format", "json"])
        .json();
    let findings = json["findings"].as_array().expect("findings");
    let most = |what: &str| {
        let savings = findings.iter().filter_map(|f| f["saving"][what].as_f64());
        savings.fold(0.0, f64::max)
    };
    let (ms, share) = (most("expected_ms"), most("share_of_step"));
    assert!(share > 0.05, "this scenario has something to save");
    for (threshold, code) in [
        ("high".to_owned(), 1),
        ("MEDIUM".to_owned(), 1),
        ("info".to_owned(), 1),
        (format!("{}ms", ms * 0.99), 1),
        (format!("{} ms", ms * 1.01), 0),
        (format!("{}%", share * 99.0), 1),
        (format!("{}%", share * 101.0), 0),
    ] {
        let ran = folder.run(&["analyze", "run.xplane.pb", "--fail-on", &threshold]);
        assert_eq!((ran.code, ran.err.as_str()), (code, ""), "{threshold}");
        assert!(
            ran.out.contains("Findings"),
            "the report is printed all the same"
        );
    }
    for nonsense in ["dreadful", "-1ms", "nan%", "5"] {
        let arg = format!("--fail-on={nonsense}");
        let ran = folder.run(&["analyze", "run.xplane.pb", &arg]);
        assert_eq!(ran.code, 2, "{nonsense}");
        assert!(ran.err.contains("a share such as 5%"), "{}", ran.err);
    }
    let healthy = Folder::with(&scenarios::healthy());
    let ran = healthy.run(&["analyze", "run.xplane.pb", "--fail-on", "high"]);
    assert_eq!(ran.code, 0, "{}", ran.out);
}

#[test]
fn wrong_usage_exits_with_two_and_help_with_zero() {
    let folder = Folder::new();
    for args in [
        &["--nonsense"][..],
        &["analyze"],
        &["diff", "only-one"],
        &["explain", "TT999"],
    ] {
        assert_eq!(folder.run(args).code, 2, "{args:?}");
    }
    assert!(folder.run(&["--help"]).ok().contains("analyze"));
    let version = folder.run(&["--version"]).ok();
    assert_eq!(
        version.trim(),
        concat!("tpu-tune ", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn a_reader_that_stops_early_is_no_error() {
    let folder = Folder::with(&scenarios::sample());
    for args in [
        &["ops", "run.xplane.pb", "--format", "json", "-n", "0"][..],
        &["analyze", "run.xplane.pb", "--format", "sarif"],
        &["ops", "run.xplane.pb", "-n", "0"],
    ] {
        let mut command = folder.command(args);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut start = [0; 8];
        let mut pipe = child.stdout.take().expect("a pipe");
        pipe.read_exact(&mut start).expect("some output");
        drop(pipe);
        let ran = Ran::from(child.wait_with_output().expect("it ends"));
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{args:?}");
    }
}

#[test]
fn every_rule_has_a_card_and_a_line_in_the_list() {
    let folder = Folder::new();
    let list = folder.run(&["rules", "--format", "json"]).json();
    let rules = list.as_array().expect("a list");
    assert!(!rules.is_empty());
    for rule in rules {
        let code = rule["code"].as_str().expect("a code");
        let name = rule["name"].as_str().expect("a name");
        assert!(!rule["summary"].as_str().expect("a summary").is_empty());
        let card = folder.run(&["explain", code]).ok();
        assert_eq!(card, folder.run(&["explain", name]).ok());
        assert!(card.contains("## What it does"), "{code}");
    }
}
