//! Profiles that are not part of the project, when a folder of them is named.
//!
//! `TPU_TUNE_REAL_PROFILES=<folder> cargo test real_profiles -- --ignored` reads every profile
//! there and checks the figures in `<name>.expected.json` beside it.

use std::path::{Path, PathBuf};

use profiler::source::{LoadOptions, load};
use profiler::xprof_compat::XprofFigures;
use serde_json::Value;

fn expected(profile: &Path) -> Option<Value> {
    let name = profile.file_name()?.to_str()?;
    let stem = [".xplane.pb", ".trace.json.gz", ".trace.json"]
        .iter()
        .find_map(|ending| name.strip_suffix(ending))?;
    let text =
        std::fs::read_to_string(profile.with_file_name(format!("{stem}.expected.json"))).ok()?;
    serde_json::from_str(&text).ok()
}

fn close(got: f64, want: f64, relative: f64, what: &str) {
    assert!(
        (got - want).abs() <= relative * want.abs().max(1e-12),
        "{what}: got {got}, want {want}"
    );
}

#[test]
#[ignore = "needs TPU_TUNE_REAL_PROFILES"]
fn every_real_profile_gives_its_expected_figures() {
    let folder = std::env::var("TPU_TUNE_REAL_PROFILES").expect("set TPU_TUNE_REAL_PROFILES");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("folder")
        .map(|e| e.expect("entry").path())
        .collect();
    paths.sort();
    let mut seen = 0;
    for path in paths {
        let Some(want) = expected(&path) else {
            continue;
        };
        seen += 1;
        check(&path, &want);
    }
    assert!(seen > 0, "no profile with a .expected.json");
}

fn check(path: &Path, want: &Value) {
    let shown = path.display();
    let session = load(&[path.to_owned()], &LoadOptions::default());
    if let Some(why) = want.get("refused").and_then(Value::as_str) {
        match session {
            Err(error) => assert!(
                error.to_string().contains("lossy UTF-8"),
                "{shown}: {error}"
            ),
            Ok(session) => {
                assert!(
                    why.contains("GPU") && !session.foreign_planes.is_empty(),
                    "{shown}: {why}"
                );
            }
        }
        return;
    }
    let session = session.unwrap_or_else(|error| panic!("{shown}: {error}"));
    let figures = XprofFigures::of(&session);
    if let Some(total) = want["total_time_ms"].as_f64() {
        close(figures.total_time_ps.as_ms(), total, 1e-8, "total time");
    }
    if let Some(idle) = want["idle_percent"].as_f64() {
        close(figures.idle_percent, idle, 1e-3, "idle");
    }
    if let Some(duty) = want["duty_cycle_percent"].as_f64() {
        close(figures.duty_cycle_percent, duty, 1e-4, "duty cycle");
    }
    for row in want["ops"].as_array().into_iter().flatten() {
        let name = row["name"].as_str().expect("name");
        let category = row["category"].as_str().expect("category");
        let got = figures
            .ops
            .iter()
            .find(|got| session.op(got.op).name == name && session.op(got.op).category == category)
            .unwrap_or_else(|| panic!("{shown}: no op {name}"));
        close(
            got.occurrences as f64,
            row["occurrences"].as_f64().expect("count"),
            0.0,
            name,
        );
        let time = row["total_self_time_us"].as_f64().expect("time");
        close(got.self_time_ps.as_us(), time, 1e-9, name);
    }
    for (plane, categories) in want["categories_all_modules_us"]
        .as_object()
        .into_iter()
        .flatten()
    {
        let device = session
            .devices
            .iter()
            .find(|d| d.plane == *plane)
            .expect("device");
        for (category, time) in categories.as_object().expect("object") {
            let of_category = |id: &u32| session.op(*id).category == *category;
            let sum: u64 = device
                .ops
                .id
                .iter()
                .zip(&device.op_self_ps)
                .filter(|(id, _)| of_category(id))
                .map(|(_, own)| own)
                .sum();
            let want = time.as_f64().expect("time");
            let got = sum as f64 / 1e6;
            assert!(
                (got - want).abs() <= 6e-4,
                "{category}: got {got} us, want {want} us"
            );
        }
    }
    for (plane, ms) in want["step"]["ms"].as_object().into_iter().flatten() {
        let steps = profiler::evidence::steps::Steps::find(&session);
        let index = session
            .devices
            .iter()
            .position(|d| d.plane == *plane)
            .expect("device");
        let core = steps.of_device(index).expect("steps");
        let time = core.sorted_durations()[0];
        close(time.as_ms(), ms.as_f64().expect("ms"), 1e-8, plane);
    }
    if let Some(median) = want["step"]["median_ms"].as_f64() {
        let steps = profiler::evidence::steps::Steps::find(&session);
        close(steps.time.median_ps.as_ms(), median, 2e-3, "median step");
    }
}
