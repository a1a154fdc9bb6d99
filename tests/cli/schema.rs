//! The JSON report and its committed schema.

use std::path::PathBuf;

use advisors::Report;
use serde_json::Value;

use super::Folder;
use crate::rules::report;
use crate::support::{fixture, scenarios};

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("agents/schema/report.v1.schema.json")
}

fn committed() -> Value {
    let text = std::fs::read_to_string(path()).expect("a committed schema");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn the_committed_schema_is_that_of_the_report() {
    let schema = serde_json::to_string_pretty(&Report::json_schema()).expect("JSON") + "\n";
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(path(), schema).expect("the schema is writable");
        return;
    }
    let text = std::fs::read_to_string(path()).unwrap_or_default();
    assert!(
        text == schema,
        "{} is not what the report looks like; if a field was added, run\n    \
         UPDATE_SCHEMA=1 cargo test --test tests schema\n\
         and if one was renamed or removed, raise SCHEMA_VERSION and keep the old file",
        path().display()
    );
}

#[track_caller]
fn assert_valid(schema: &jsonschema::Validator, report: &Value, what: &str) {
    let errors: Vec<String> = schema
        .iter_errors(report)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{what}: {errors:#?}");
}

#[test]
fn every_report_is_valid() {
    let schema = jsonschema::validator_for(&committed()).expect("a schema");
    for (name, scenario) in scenarios::ALL {
        let report = serde_json::to_value(report(&[scenario()])).expect("JSON");
        assert_valid(&schema, &report, name);
    }
    let hosts = serde_json::to_value(report(&scenarios::two_hosts())).expect("JSON");
    assert_valid(&schema, &hosts, "two_hosts");
    // The schema would refuse what is no report.
    assert!(!schema.is_valid(&serde_json::json!({ "schema_version": 1 })));
}

#[test]
fn what_the_program_prints_is_valid_and_reads_back() {
    let schema = jsonschema::validator_for(&committed()).expect("a schema");
    let folder = Folder::with(&scenarios::sample());
    let sample = fixture("profiles/transformer_fsdp_v6e.xplane.pb.gz")
        .display()
        .to_string();
    for path in ["run.xplane.pb", &sample] {
        let printed = folder.run(&["analyze", path, "--format", "json"]).json();
        assert_valid(&schema, &printed, path);
        let report: Report = serde_json::from_value(printed.clone()).expect("a report");
        assert_eq!(serde_json::to_value(&report).expect("JSON"), printed);
    }
}
