//! The direction of dependencies between the crates, as ARCHITECTURE.md draws it.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

/// Every edge that may exist, `(from, to)`.
const ALLOWED: &[(&str, &str)] = &[
    ("tpu-tune", "tpu-tune-advisors"),
    ("tpu-tune", "tpu-tune-knowledge"),
    ("tpu-tune", "tpu-tune-profiler"),
    ("tpu-tune", "tpu-tune-web"),
    ("tpu-tune-web", "tpu-tune-advisors"),
    ("tpu-tune-web", "tpu-tune-knowledge"),
    ("tpu-tune-web", "tpu-tune-profiler"),
    ("tpu-tune-advisors", "tpu-tune-knowledge"),
    ("tpu-tune-advisors", "tpu-tune-profiler"),
    ("tpu-tune-knowledge", "tpu-tune-profiler"),
];

/// Crates that touch the network, processes or a clock's runtime: only the root package may.
const IMPURE: &[&str] = &["tokio", "async-openai", "sqlx", "reqwest", "hyper"];

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON")
}

#[test]
fn crates_depend_downwards_only() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("packages");
    let ours: BTreeSet<&str> = packages
        .iter()
        .map(|package| package["name"].as_str().expect("name"))
        .collect();
    assert_eq!(
        ours.len(),
        5,
        "a new crate is a design change: draw it in ARCHITECTURE.md"
    );
    for package in packages {
        let from = package["name"].as_str().expect("name");
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let to = dependency["name"].as_str().expect("name");
            if ours.contains(to) {
                assert!(
                    ALLOWED.contains(&(from, to)),
                    "{from} must not depend on {to}"
                );
            }
            if from != "tpu-tune" {
                assert!(
                    !IMPURE.contains(&to),
                    "{from} is pure: it must not depend on {to}"
                );
            }
        }
    }
}
