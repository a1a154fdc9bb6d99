//! Our figures against those of the real XProf on the same file.
//!
//! Where the policy is to agree, it is to nine digits: time, occurrences, categories, idle, duty
//! cycle, FLOP and byte rates, roofline, and the whole program's row.

use std::collections::BTreeMap;
use std::path::Path;

use profiler::session::Session;
use profiler::source::{LoadOptions, load};
use profiler::xprof_compat::XprofFigures;
use serde_json::Value;

use crate::support::profile::TpuProfile;
use crate::support::{fixture, peers, scenarios, xspace};

const RELATIVE: f64 = 1e-9;

fn close(got: f64, want: f64, what: &str) {
    let scale = want.abs().max(got.abs()).max(1e-9);
    assert!(
        (got - want).abs() <= RELATIVE * scale,
        "{what}: ours {got}, XProf's {want}"
    );
}

fn number(row: &Value, column: &str) -> f64 {
    row[column]
        .as_f64()
        .unwrap_or_else(|| panic!("{column} of {row}"))
}

/// Writes the hosts of a run and returns the session and what XProf says.
fn both(hosts: &[TpuProfile]) -> (Session, Value) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let paths: Vec<_> = hosts
        .iter()
        .enumerate()
        .map(|(i, profile)| {
            let path = folder.path().join(format!("host{i}.xplane.pb"));
            std::fs::write(&path, xspace::to_bytes(profile)).expect("disk has room");
            path
        })
        .collect();
    let session = load(&paths, &LoadOptions::default()).expect("readable");
    let borrowed: Vec<&Path> = paths.iter().map(AsRef::as_ref).collect();
    (session, peers::xprof_figures(&borrowed))
}

/// Every row and total of ours against XProf's.
pub(crate) fn compare(name: &str, session: &Session, xprof: &Value) {
    let ours = XprofFigures::of(session);
    let rows = xprof["hlo_stats"]["rows"].as_array().expect("rows");
    assert_eq!(ours.ops.len(), rows.len(), "{name}: operations");
    let mut by_op: BTreeMap<(String, String), &Value> = BTreeMap::new();
    for row in rows {
        let key = |column: &str| row[column].as_str().expect("text").to_owned();
        by_op.insert((key("program_id"), key("hlo_op_name")), row);
    }
    let roofline = xprof["roofline_model"][0]["rows"].as_array().expect("rows");
    let efficiency: BTreeMap<(String, String), &Value> = roofline
        .iter()
        .filter(|row| row["step"] == "Total")
        .map(|row| {
            let key = |column: &str| row[column].as_str().expect("text").to_owned();
            ((key("hlo_module_id"), key("operation")), row)
        })
        .collect();
    for op in &ours.ops {
        let what = session.op(op.op);
        let module = &session.modules[what.module.expect("a module") as usize];
        let program = module.program_id.expect("an id").to_string();
        let key = (program, what.name.clone());
        let row = by_op[&key];
        let label = |column: &str| format!("{name}: {column} of {}", what.name);
        close(
            op.occurrences as f64,
            number(row, "occurrences"),
            &label("occurrences"),
        );
        close(
            op.total_time_ps.as_us(),
            number(row, "total_time"),
            &label("total_time"),
        );
        close(
            op.self_time_ps.as_us(),
            number(row, "total_self_time"),
            &label("self time"),
        );
        close(
            op.self_time_percent,
            number(row, "total_self_time_percent"),
            &label("percent"),
        );
        close(
            op.model_flop_rate_gflop_per_s,
            number(row, "model_flop_rate"),
            &label("model_flop_rate"),
        );
        close(
            op.measured_memory_gib_per_s,
            number(row, "measured_memory_bw"),
            &label("measured_memory_bw"),
        );
        close(op.hbm_gib_per_s, number(row, "hbm_bw"), &label("hbm_bw"));
        close(
            op.operational_intensity,
            number(row, "operational_intensity"),
            &label("operational_intensity"),
        );
        assert_eq!(op.bound_by, row["bound_by"], "{}", label("bound_by"));
        // Of several hosts XProf 2.24 forgets the VMEM peaks in the roofline, not in hlo_stats.
        let forgotten = session.hosts.len() > 1 && op.bound_by.starts_with("VMEM");
        if let Some(row) = efficiency.get(&key).filter(|_| !forgotten) {
            close(
                op.roofline_efficiency,
                number(row, "roofline_efficiency"),
                &label("roofline_efficiency"),
            );
        }
    }
    let program = roofline
        .iter()
        .find(|row| row["step"] == "Total" && row["category"] == "Program")
        .expect("a Program row");
    let mine = ours.program.expect("peaks are stated");
    close(
        ours.total_time_ps.as_us(),
        number(program, "total_time"),
        &format!("{name}: total"),
    );
    close(
        mine.flop_rate_gflop_per_s,
        number(program, "measured_flop_rate"),
        &format!("{name}: Program FLOP rate"),
    );
    close(
        mine.hbm_gib_per_s,
        number(program, "hbm_bw"),
        &format!("{name}: Program HBM"),
    );
    close(
        mine.roofline_efficiency,
        number(program, "roofline_efficiency"),
        &format!("{name}: Program efficiency"),
    );
    // The overview rounds to a tenth of a percent.
    let duty = xprof["overview_page"][0]["properties"]["device_duty_cycle_percent"]
        .as_str()
        .and_then(|text| text.trim_end_matches('%').parse::<f64>().ok())
        .expect("a duty cycle");
    assert!(
        (ours.duty_cycle_percent - duty).abs() <= 0.051,
        "{name}: duty cycle: ours {}, XProf's {duty}",
        ours.duty_cycle_percent
    );
}

#[test]
fn every_scenario_has_xprofs_figures() {
    if !peers::installed() {
        return;
    }
    for (name, scenario) in scenarios::ALL {
        let (session, xprof) = both(&[scenario()]);
        compare(name, &session, &xprof);
    }
}

#[test]
fn two_hosts_are_merged_as_xprof_merges_them() {
    if !peers::installed() {
        return;
    }
    let (session, xprof) = both(&scenarios::two_hosts());
    compare("two_hosts", &session, &xprof);
}

#[test]
fn the_sample_has_xprofs_figures_and_peak_memory() {
    if !peers::installed() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("sample.xplane.pb");
    let bytes = crate::support::fixture_bytes("profiles/transformer_fsdp_v6e.xplane.pb");
    std::fs::write(&path, bytes).expect("disk has room");
    let xprof = peers::xprof_figures(&[&path]);
    let session = load(&[path], &LoadOptions::default()).expect("readable");
    compare("sample", &session, &xprof);
    let packed = fixture("profiles/transformer_fsdp_v6e.xplane.pb.gz");
    let session = load(&[packed], &LoadOptions::default()).expect("readable, gzipped");
    compare("sample, gzipped", &session, &xprof);
}
