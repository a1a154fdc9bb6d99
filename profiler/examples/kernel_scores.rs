//! Prints what the schedules in dump directories say of kernels on a v6e:
//! `cargo run -p tpu-tune-profiler --example kernel_scores -- KERNEL DUMP...`
//!
//! `KERNEL` is the beginning of an instruction's name. `tests/fixtures/programs/pallas/dump.py`
//! makes the dumps.
#![expect(clippy::print_stdout, reason = "printing is what this is for")]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::{env, fs};

use profiler::compiler::llo::score::{Pricing, RUN_SCALE, rank, score};
use profiler::compiler::llo::{self, KnownScalars, Memory, Setting, Unit};

/// TPU v6e: the compiler's own clock; 85 % of the peak bandwidth that it assumes, 1638 GB/s; and a
/// usual latency.
const CLOCK_HZ: f64 = 1.75e9;
const HBM_BYTES_PER_S: f64 = 0.85 * 1638e9;
const LATENCY_NS: f64 = 500.0;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let kernel = arguments
        .next()
        .ok_or("usage: kernel_scores KERNEL DUMP...")?;
    let mut scores = Vec::new();
    let mut rows = Vec::new();
    for folder in arguments {
        let mut files = Vec::new();
        let mut scalars = BTreeMap::new();
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if llo::is_bundle_file(&name) {
                files.push((name, fs::read_to_string(&path)?));
            } else if name == "owners.txt" {
                let text = fs::read_to_string(&path)?;
                let owners = text
                    .split_whitespace()
                    .map(str::parse)
                    .collect::<Result<_, _>>()?;
                scalars.insert(
                    "grouped_matmul.1".to_owned(),
                    KnownScalars::from([(0, owners)]),
                );
            }
        }
        let mut setting = Setting::new(Memory::new(HBM_BYTES_PER_S, LATENCY_NS, CLOCK_HZ));
        setting.scalars = scalars;
        let (schedules, notes) = llo::read(files, &setting);
        for note in notes.iter() {
            println!("{folder}: {}", note.message);
        }
        let pricing = Pricing {
            clock_hz: CLOCK_HZ,
            hbm_bytes_per_s: HBM_BYTES_PER_S,
            scale: RUN_SCALE,
        };
        for schedule in schedules {
            if !schedule.instruction.starts_with(&kernel) {
                continue;
            }
            let name = Path::new(&folder)
                .file_name()
                .unwrap_or_default()
                .to_string_lossy();
            scores.push(score(&schedule, &pricing, None));
            rows.push((name.into_owned(), schedule));
        }
    }
    let places = rank(&scores);
    for (index, (name, schedule)) in rows.iter().enumerate() {
        let place = places
            .iter()
            .position(|place| place.contains(&index))
            .unwrap_or(0)
            + 1;
        let share = |unit| format!("{:.0}", 100.0 * schedule.slots_of(unit));
        println!(
            "| {name} | {:.1} | {place} | {} | {} | {:.1} | {} | {} / {} | {} / {} / {} / {} | {} |",
            scores.get(index).map_or(0.0, |score| score.time.as_us()),
            schedule.busy_cycles,
            schedule.wait_cycles,
            (schedule.hbm_read_bytes + schedule.hbm_written_bytes) as f64 / 1e6,
            schedule.static_cycles,
            schedule.spill_slots,
            schedule.fill_slots,
            share(Unit::Mxu),
            share(Unit::Valu),
            share(Unit::VectorStore),
            share(Unit::Salu),
            schedule.bottleneck.map_or("", Unit::name),
        );
    }
    Ok(())
}
