//! `TORCH_TRACE` logs, as `analyze` and `predict` tell them; and the real TorchTPU, run here.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::cli::Folder;

/// Findings of a report, by code.
fn finding<'a>(report: &'a Value, code: &str) -> Option<&'a Value> {
    let findings = report["findings"].as_array().expect("a list");
    findings.iter().find(|finding| finding["code"] == code)
}

/// A count that a finding shows.
fn count(finding: &Value, what: &str) -> u64 {
    let evidence = finding["evidence"].as_array().expect("a list");
    let exhibit = evidence.iter().find(|exhibit| exhibit["what"] == what);
    let text = exhibit.expect("the exhibit")["value"]["text"]
        .as_str()
        .expect("text");
    text.parse().expect("a number")
}

fn analyze(folder: &Folder, path: &str) -> Value {
    let out = folder.run(&["analyze", path, "--format", "json"]).ok();
    serde_json::from_str(&out).expect("JSON")
}

#[test]
fn a_folder_of_traces_is_read_and_says_what_to_pad() {
    let folder = Folder::new();
    let log = include_bytes!("../fixtures/logs/torch_trace/ragged.strict.log");
    folder.write("traces/dedicated_log_torch_trace_rank_0_x1y2.log", log);
    let report = analyze(&folder, "traces");
    let again = finding(&report, "TL101").expect("recompiles");
    assert_eq!(again["severity"], "high");
    assert_eq!(count(again, "launches"), 91);
    assert_eq!(count(again, "compiles in all"), 35);
    assert_eq!(count(again, "compiles after warm-up"), 22);
    assert_eq!(again["places"][0]["file"], "/home/user/ragged.py");
    assert_eq!(again["places"][0]["line"], 20);
    let advice = again["advice"].to_string();
    assert!(advice.contains("batches of 17, 20 beside 32") && advice.contains("drop_last=True"));
    let reads = finding(&report, "TL202").expect("reads");
    assert_eq!(reads["places"][0]["line"], 21);
}

#[test]
fn a_cured_run_has_nothing_above_information() {
    for log in [
        include_str!("../fixtures/logs/torch_trace/ragged_fixed.strict.log"),
        include_str!("../fixtures/logs/torch_trace/ragged_fixed.fused.log"),
    ] {
        let folder = Folder::new();
        folder.write("trace.log", log.as_bytes());
        let report = analyze(&folder, "trace.log");
        let findings = report["findings"].as_array().expect("a list");
        assert!(!findings.is_empty());
        assert!(
            findings.iter().all(|finding| finding["severity"] == "info"),
            "{findings:?}"
        );
    }
}

#[test]
fn a_program_that_a_trace_does_not_hold_is_answered_with_those_it_holds() {
    let folder = Folder::new();
    let log = include_bytes!("../fixtures/logs/torch_trace/compiled.log");
    folder.write("trace.log", log);
    let ran = folder.run(&[
        "predict",
        "trace.log",
        "--target",
        "v6e-1",
        "--program",
        "decoder",
    ]);
    ran.refused(&["has no program whose name contains \"decoder\"", "tt_jit_"]);
}

#[test]
fn a_program_of_a_trace_is_compiled_and_priced() {
    if !crate::support::peers::installed() {
        return;
    }
    let folder = Folder::new();
    let log = include_bytes!("../fixtures/logs/torch_trace/compiled.log");
    folder.write("trace.log", log);
    let mut command = folder.command(&[
        "predict",
        "trace.log",
        "--target",
        "v6e-1",
        "--format",
        "json",
    ]);
    command.env("TPU_LIBRARY_PATH", crate::support::peers::libtpu());
    let output = command.output().expect("the program starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["origin"], "predicted");
}

/// The real TorchTPU on XLA's plugin for the CPU, if `tests/setup` was asked for it.
struct TorchTpu {
    python: PathBuf,
    root: PathBuf,
}

impl TorchTpu {
    #[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
    fn find() -> Option<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).to_owned();
        let named = std::fs::read_to_string(root.join("target/torch_tpu/python")).ok();
        let python = named
            .map(|named| PathBuf::from(named.trim()))
            .filter(|python| python.exists());
        if python.is_none() {
            let asked = std::env::var_os("TPU_TUNE_TORCH_TPU").is_some();
            let advice = "no TorchTPU: set TPU_TUNE_TORCH_TPU=1 (6.5 GB) or to a virtual environment that has it, and run tests/setup";
            assert!(!asked, "{advice}");
            eprintln!("SKIPPED, {advice}");
        }
        Some(Self {
            python: python?,
            root,
        })
    }

    /// Runs a script with TORCH_TRACE; the cache's requests, hits and compilations.
    fn trace(&self, script: &str, mode: &str, into: &Path) -> [u64; 3] {
        let scripts = self.root.join("tests/peers/torchtpu");
        let made = self.root.join("target/torch_tpu");
        let plugin = made.join("plugin/lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so");
        let output = Command::new(&self.python)
            .arg(scripts.join("on_cpu.py"))
            .arg(scripts.join(script))
            .arg(mode)
            .env("TPU_LIBRARY_PATH", made.join("shim.so"))
            .env("CPU_PJRT_PLUGIN", plugin)
            .env("TPU_SKIP_MDS_QUERY", "1")
            .env("TORCH_TRACE", into)
            .output()
            .expect("python runs");
        let out = String::from_utf8_lossy(&output.stdout);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
        let stats = out
            .lines()
            .find_map(|line| line.strip_prefix("cache_stats "));
        let stats: Value = serde_json::from_str(stats.expect("counters")).expect("JSON");
        ["requests", "hits", "compilations"].map(|name| stats[name].as_u64().expect("a count"))
    }
}

#[test]
fn the_real_torch_tpu_before_and_after_the_cures() {
    let Some(torch_tpu) = TorchTpu::find() else {
        return;
    };
    for mode in ["strict", "fused"] {
        let folder = Folder::new();
        let [requests, hits, _] = torch_tpu.trace("ragged.py", mode, &folder.path().join("before"));
        let before = analyze(&folder, "before");
        let again = finding(&before, "TL101").expect("recompiles");
        assert_eq!(count(again, "launches"), requests);
        assert_eq!(count(again, "compiles in all"), requests - hits);
        assert!(
            again["advice"].to_string().contains("drop_last=True"),
            "{again}"
        );
        let reads = finding(&before, "TL202").expect("reads");
        assert!(
            reads["title"]
                .as_str()
                .expect("a title")
                .contains("a branch on `any"),
            "{reads}"
        );

        let [after_requests, after_hits, _] =
            torch_tpu.trace("ragged_fixed.py", mode, &folder.path().join("after"));
        let after = analyze(&folder, "after");
        let launches = finding(&after, "TL201").expect("launches");
        assert_eq!(count(launches, "launches"), after_requests);
        assert!(finding(&after, "TL101").is_none(), "{after}");
        assert!(finding(&after, "TL202").is_none(), "{after}");
        assert!(after_requests - after_hits < requests - hits);
    }
}
