//! Damaged input of every kind: no panic, an answer or an error that says what is wrong.

use std::path::Path;

use advisors::Report;
use advisors::registry::RULES;
use profiler::evidence::Evidence;
use profiler::session::Session;
use profiler::session_builder::SessionBuilder;
use profiler::source::{LoadError, read_bytes};
use proptest::prelude::*;

use crate::support::{fixture_bytes, kineto, scenarios, trace_json, xspace};

fn read(bytes: &[u8]) -> Result<Session, LoadError> {
    let mut builder = SessionBuilder::default();
    read_bytes(Path::new("input"), bytes, &mut builder)?;
    Ok(builder.finish())
}

/// Reads and analyses; whatever happens must be an answer or an error with a message.
fn digest(bytes: &[u8]) {
    match read(bytes) {
        Ok(session) => {
            let evidence = Evidence::gather(&session, None, knowledge::chips::chips());
            let report = Report::new(&evidence, RULES);
            for finding in &report.findings {
                let Some(saving) = &finding.saving else {
                    continue;
                };
                assert!(saving.low_ms <= saving.expected_ms, "{finding:?}");
                assert!(saving.expected_ms <= saving.high_ms, "{finding:?}");
                assert!(saving.high_ms <= saving.upper_bound_ms, "{finding:?}");
            }
            serde_json::to_string(&report).expect("a report is JSON");
        }
        Err(error) => assert!(error.to_string().contains("input"), "{error}"),
    }
}

/// One small valid input of each format.
fn seeds() -> &'static [Vec<u8>] {
    static SEEDS: std::sync::LazyLock<Vec<Vec<u8>>> = std::sync::LazyLock::new(|| {
        let profile = scenarios::host_offload();
        vec![
            xspace::to_bytes(&profile),
            trace_json::to_string(&profile).into_bytes(),
            kineto::to_string(&profile).into_bytes(),
            fixture_bytes("hlo/decode_v6e.after_optimizations.txt"),
            fixture_bytes("hlo/mlp_fsdp_v6e.hlo_proto.pb"),
        ]
    });
    &SEEDS
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        digest(&bytes);
    }

    #[test]
    fn mutated_profiles_never_panic(
        seed in 0usize..5,
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
        cut in any::<prop::sample::Index>(),
        truncate in any::<bool>(),
    ) {
        let mut bytes = seeds()[seed].clone();
        for (at, value) in edits {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if truncate {
            bytes.truncate(cut.index(bytes.len()));
        }
        digest(&bytes);
    }
}

#[test]
fn every_truncation_of_a_profile_is_read_as_far_as_it_goes() {
    let bytes = &seeds()[0];
    for cut in (0..bytes.len()).step_by(bytes.len() / 200 + 1) {
        digest(&bytes[..cut]);
    }
}

#[test]
fn an_array_that_every_operation_reads_costs_no_more_for_each() {
    // 20,000 operations without a source line read one another: before the number of neighbours
    // was bounded this took seconds for each thousand.
    let mut text = String::from("{\"traceEvents\":[");
    text.push_str(
        r#"{"ph":"M","pid":3,"name":"process_name","args":{"name":"/device:TPU:0"}},
        {"ph":"M","pid":3,"tid":3,"name":"thread_name","args":{"name":"XLA Ops"}}"#,
    );
    for i in 0..20_000 {
        text.push_str(&format!(
            r#",{{"ph":"X","pid":3,"tid":3,"ts":{i},"dur":1,"name":"add.{i}","args":{{"hlo_category":"loop fusion","long_name":"%add.{i} = f32[8]{{0}} add(f32[8]{{0}} %add.0, f32[8]{{0}} %add.0)"}}}}"#
        ));
    }
    text.push_str("]}");
    let session = read(text.as_bytes()).expect("a trace");
    let evidence = Evidence::gather(&session, None, knowledge::chips::chips());
    let report = Report::new(&evidence, RULES);
    let operations: f64 = report
        .breakdown
        .sources
        .iter()
        .map(|row| row.executions_per_step)
        .sum();
    assert!((operations - 20_000.0).abs() < 1e-6, "{operations}");
}
