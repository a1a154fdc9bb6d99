//! `check`: migration to TorchTPU, before and after.

use std::path::Path;

use crate::cli::Folder;

/// A fixture in a folder of its own.
fn with(name: &str) -> Folder {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/python/migration");
    let text = std::fs::read(path.join(name)).expect("the fixture is there");
    let folder = Folder::new();
    folder.write(name, &text);
    folder
}

/// Severity and code of each finding.
fn findings(folder: &Folder, name: &str) -> Vec<(String, String)> {
    let report = folder.run(&["check", name, "--format", "json"]).json();
    let findings = report["findings"].as_array().expect("a list").clone();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    findings
        .iter()
        .map(|finding| (text(&finding["severity"]), text(&finding["code"])))
        .collect()
}

macro_rules! assert_patch {
    ($name:expr, $text:expr) => {
        insta::with_settings!({
            snapshot_path => "../snapshots",
            prepend_module_to_snapshot => false,
            omit_expression => true,
        }, {
            insta::assert_snapshot!($name, $text);
        });
    };
}

#[test]
fn a_ddp_script_is_migrated_as_far_as_is_safe() {
    let folder = with("ddp_train.py");
    let patch = folder
        .run(&["check", "ddp_train.py", "--fix", "--diff"])
        .ok();
    assert_patch!("migrate_ddp", patch);

    folder.run(&["check", "ddp_train.py", "--fix"]).ok();
    let text = std::fs::read_to_string(folder.path().join("ddp_train.py")).expect("still there");
    for gone in [
        "torch.cuda.synchronize",
        ".cuda(",
        "\"nccl\"",
        "device_ids",
        "reduce-overhead",
    ] {
        assert!(!text.contains(gone), "{gone}");
    }
    // What is left needs a person: an operator without a kernel.
    let left = findings(&folder, "ddp_train.py");
    let heavy: Vec<&str> = left
        .iter()
        .filter(|(severity, _)| severity != "info")
        .map(|(_, code)| code.as_str())
        .collect();
    assert_eq!(heavy, ["TS601"]);
}

#[test]
fn an_fsdp_script_keeps_what_needs_a_person() {
    let folder = with("fsdp_train.py");
    let patch = folder
        .run(&["check", "fsdp_train.py", "--unsafe-fixes", "--diff"])
        .ok();
    assert_patch!("migrate_fsdp", patch);

    folder
        .run(&["check", "fsdp_train.py", "--unsafe-fixes"])
        .ok();
    let left = findings(&folder, "fsdp_train.py");
    let codes: Vec<&str> = left.iter().map(|(_, code)| code.as_str()).collect();
    // A capability, flash-attn and the Huber loss.
    assert_eq!(codes, ["TS505", "TS509", "TS601"]);
}

#[test]
fn idioms_of_pytorch_xla_have_counterparts() {
    let folder = with("xla_train.py");
    let patch = folder
        .run(&["check", "xla_train.py", "--unsafe-fixes", "--diff"])
        .ok();
    assert_patch!("migrate_xla", patch);
}

#[test]
fn code_for_several_devices_is_right_as_it_is() {
    let folder = with("several_devices.py");
    assert_eq!(findings(&folder, "several_devices.py"), []);
}
