//! The tools of others that the tests compare with, if `tests/setup` installed them.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Whether the peers are there. In CI they must be; elsewhere their absence is said aloud.
pub fn installed() -> bool {
    let there = venv().join("bin/python").exists();
    if !there {
        let advice = format!("no peers at {}: run tests/setup", venv().display());
        assert!(std::env::var_os("CI").is_none(), "{advice}");
        eprintln!("SKIPPED, {advice}");
    }
    there
}

fn venv() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    std::env::var_os("TPU_TUNE_PEERS").map_or_else(|| root.join("target/peers"), PathBuf::from)
}

/// The Python that has the peers: in `$TPU_TUNE_PEERS`, else in `target/peers`.
pub fn python() -> PathBuf {
    let venv = venv();
    let python = venv.join("bin/python");
    assert!(
        python.exists(),
        "no peers at {}: run tests/setup",
        venv.display()
    );
    python
}

/// The folder of the TPU compiler that is installed with the peers.
pub fn libtpu() -> PathBuf {
    let lib = venv().join("lib");
    let found = lib.read_dir().expect("a venv has lib/").find_map(|entry| {
        let folder = entry.ok()?.path().join("site-packages/libtpu");
        folder.is_dir().then_some(folder)
    });
    found.unwrap_or_else(|| panic!("no libtpu in {}: run tests/setup", lib.display()))
}

/// What XProf makes of a session of one or more XSpace files: see
/// `tests/peers/xprof_figures.py` for the shape.
pub fn xprof_figures(paths: &[&Path]) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/xprof_figures.py");
    let output = Command::new(python())
        .arg(script)
        .args(paths)
        .output()
        .expect("python runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "xprof_figures.py: {error}");
    serde_json::from_slice(&output.stdout).expect("the script prints JSON")
}

mod tests {
    use std::collections::BTreeMap;

    use super::super::oracle::Figures;
    use super::super::{scenarios, xspace};
    use super::xprof_figures;

    /// The writer's proof: the real XProf reads each scenario and finds for every
    /// operation what was written.
    #[test]
    fn xprof_reads_what_we_write() {
        if !super::installed() {
            return;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (name, scenario) in scenarios::ALL {
            let profile = scenario();
            let path = folder.path().join(format!("{name}.xplane.pb"));
            std::fs::write(&path, xspace::to_bytes(&profile)).expect("disk has room");
            let xprof = xprof_figures(&[&path]);
            let rows: BTreeMap<(&str, &str), &serde_json::Value> = xprof["hlo_stats"]["rows"]
                .as_array()
                .unwrap_or_else(|| panic!("{name}: {}", xprof["hlo_stats"]))
                .iter()
                .filter_map(|row| {
                    Some((
                        (row["program_id"].as_str()?, row["hlo_op_name"].as_str()?),
                        row,
                    ))
                })
                .collect();
            let figures = Figures::of(&profile);
            assert_eq!(rows.len(), figures.ops.len(), "{name}: operations");
            for (op, expected) in &figures.ops {
                let program = profile.programs[op.program].id.to_string();
                let op = &profile.op(*op).name;
                let row = rows[&(program.as_str(), op.as_str())];
                for (column, picos) in [
                    ("total_time", expected.total),
                    ("total_self_time", expected.self_time),
                ] {
                    close(
                        row[column].as_f64(),
                        picos as f64 / 1e6,
                        &format!("{name} {op} {column}"),
                    );
                }
                close(row["occurrences"].as_f64(), expected.occurrences as f64, op);
            }
            let program = &xprof["roofline_model"][0]["rows"][0];
            let total = figures.xprof_total as f64 / 1e6;
            close(
                program["total_time"].as_f64(),
                total,
                &format!("{name} total_time"),
            );
        }
    }

    fn close(got: Option<f64>, expected: f64, what: &str) {
        let got = got.unwrap_or_else(|| panic!("{what}: no figure"));
        let error = (got - expected).abs() / expected.abs().max(1e-9);
        assert!(error < 1e-9, "{what}: XProf has {got}, we wrote {expected}");
    }
}
