//! `check`: attention. Fixes are compared as text, and by running PyTorch before and after.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cli::Folder;

/// Models whose attention `--fix` rewrites, with the option that it takes.
const FIXED: &[(&str, &str)] = &[
    ("causal", "--fix"),
    ("sliding_window", "--fix"),
    ("document", "--fix"),
    ("padding", "--unsafe-fixes"),
    ("score_mods", "--fix"),
    ("expanded", "--fix"),
    ("triangle", "--fix"),
];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/python/attention")
}

fn fixed(name: &str, option: &str) -> (Folder, String) {
    let before = std::fs::read(fixtures().join(format!("{name}.py"))).expect("a fixture");
    let folder = Folder::new();
    let path = folder.write("model.py", &before);
    folder.run(&["check", option, "model.py"]);
    let after = std::fs::read_to_string(path).expect("UTF-8");
    (folder, after)
}

#[test]
fn fixes_write_what_is_expected_and_keep_the_rest() {
    for (name, option) in FIXED {
        let (_, after) = fixed(name, option);
        let expected = fixtures().join("after").join(format!("{name}.py"));
        let expected = std::fs::read_to_string(expected).expect("a fixture");
        assert_eq!(after, expected, "{name}");
    }
}

#[test]
fn a_custom_score_mod_is_left_alone_with_a_reason() {
    let before = std::fs::read_to_string(fixtures().join("custom.py")).expect("a fixture");
    let (folder, after) = fixed("custom", "--unsafe-fixes");
    assert_eq!(before, after);
    let said = folder.run(&["check", "model.py"]).out;
    for reason in [
        "`soft_cap` caps scores with tanh",
        "`squared` is neither a factor nor a bias",
        "log-sum-exp",
    ] {
        assert!(said.contains(reason), "{reason}: {said}");
    }
}

/// A Python with PyTorch, named by `TPU_TUNE_TORCH`; its absence is said aloud.
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn torch() -> Option<PathBuf> {
    let python = std::env::var_os("TPU_TUNE_TORCH").map(PathBuf::from);
    if python.is_none() {
        eprintln!("SKIPPED, no PyTorch: set TPU_TUNE_TORCH to a Python that has torch");
    }
    python
}

#[test]
fn pytorch_gives_the_same_before_and_after() {
    let Some(python) = torch() else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/same_outputs.py");
    for (name, option) in FIXED {
        let (folder, _) = fixed(name, option);
        let output = Command::new(&python)
            .arg(&script)
            .arg(fixtures().join(format!("{name}.py")))
            .arg(folder.path().join("model.py"))
            // Float32 sums in another order, of values near one.
            .arg("2e-6")
            .env("TPU_SKIP_MDS_QUERY", "1")
            .output()
            .expect("python runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {error}");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("largest difference"), "{name}: {said}");
    }
}
