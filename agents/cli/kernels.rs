//! `tpu-tune kernels`: custom kernels scored from the compiler's final schedule, and ranked.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use profiler::compiler::llo::score::{Pricing, Score, rank, score};
use profiler::compiler::llo::{KernelSchedule, Memory, Unit};
use profiler::program::cost;
use profiler::units::percent;
use serde_json::json;

use crate::cli::{TableFormat, output};
use crate::exit;
use crate::predict::{CompileArgs, Lazy, Predicted, predict, schedule};
use crate::render::page::Page;
use crate::render::table::{Align, Table};

/// Arguments of `kernels`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Programs with Pallas kernels: StableHLO text or bytecode, one for each setting of the
    /// kernel's block sizes.
    #[arg(required = true, value_name = "PROGRAM")]
    programs: Vec<PathBuf>,

    #[command(flatten)]
    compile: CompileArgs,

    /// How the table is written.
    #[arg(long, value_enum, default_value_t)]
    format: TableFormat,
}

/// One kernel of one program.
struct Scored {
    program: String,
    schedule: KernelSchedule,
    score: Score,
}

/// Runs the command.
///
/// # Errors
/// When a program cannot be compiled or has no kernel, or the result cannot be written.
pub fn run(args: &Args) -> Result<u8> {
    let facts = knowledge::chips::chip(args.compile.target.generation);
    let Some((pricing, _)) = Pricing::of(facts).zip(Memory::of(facts)) else {
        bail!(
            "the clock of {} is not known: its kernels cannot be scored; the compiler states it for v5e, v6e and tpu7x",
            facts.product_name
        );
    };
    let compiler = Lazy::new(&args.compile.compiler);
    let mut scored: Vec<Scored> = Vec::new();
    for path in &args.programs {
        let predicted = predict(schedule(path, &args.compile, &compiler)?, &args.compile)?;
        let found = kernels(&predicted, &pricing, name(path));
        if found.is_empty() {
            let mut notes = predicted.session.notes.iter();
            let why = notes.find(|note| note.code == "no-kernel-schedules");
            let why = why.map_or(String::new(), |note| format!("; {}", note.message));
            bail!(
                "{} has no kernel with a schedule: expected a Pallas kernel (a tpu_custom_call){why}",
                path.display(),
            );
        }
        scored.extend(found);
    }
    let scores: Vec<Score> = scored.iter().map(|kernel| kernel.score).collect();
    let places = rank(&scores);
    let place = |index: usize| {
        let found = places.iter().position(|place| place.contains(&index));
        found.unwrap_or(0) + 1
    };
    let value: Vec<_> = scored
        .iter()
        .enumerate()
        .map(|(index, kernel)| {
            json!({
                "program": kernel.program,
                "place": place(index),
                "score": kernel.score,
                "schedule": kernel.schedule,
            })
        })
        .collect();
    output::page(args.format, &page(&scored, place), || {
        json!({
            "schema_version": 1,
            "target": args.compile.target.name(),
            "kernels": value,
        })
    })?;
    Ok(exit::OK)
}

/// The file's name up to its first dot.
fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.split('.').next().unwrap_or(&name);
    stem.to_owned()
}

fn kernels(predicted: &Predicted, pricing: &Pricing, program: String) -> Vec<Scored> {
    let Some(of) = predicted.session.programs.first() else {
        return Vec::new();
    };
    let mut costs = cost::CostModel::new(&of.program);
    predicted
        .kernels
        .iter()
        .filter_map(|schedule| {
            let op = of.program.find(&schedule.instruction)?;
            let instruction = of.program.get(op)?;
            if instruction.attributes.custom_call_target != "tpu_custom_call" {
                return None;
            }
            let bytes = costs.cost(op).traffic.hbm().total_padded().0;
            Some(Scored {
                program: program.clone(),
                schedule: schedule.clone(),
                score: score(schedule, pricing, Some(bytes)),
            })
        })
        .collect()
}

fn page(scored: &[Scored], place: impl Fn(usize) -> usize) -> Page {
    let mut order: Vec<usize> = (0..scored.len()).collect();
    order.sort_by_key(|index| (place(*index), *index));
    let mut page = Page::new();
    page.heading("Kernels by their final schedule, the fastest first");
    let mut table = Table::new([
        ("place", Align::Right),
        ("program", Align::Left),
        ("score", Align::Right),
        ("cycles", Align::Right),
        ("waiting", Align::Right),
        ("spills", Align::Right),
        ("fills", Align::Right),
    ]);
    for index in &order {
        let Some(Scored {
            program,
            schedule,
            score,
        }) = scored.get(*index)
        else {
            continue;
        };
        table.row([
            place(*index).to_string(),
            program.clone(),
            score.time.to_string(),
            schedule.cycles().to_string(),
            percent(schedule.wait_cycles as f64 / schedule.cycles().max(1) as f64),
            schedule.spill_slots.to_string(),
            schedule.fill_slots.to_string(),
        ]);
    }
    page.table(table);
    for index in &order {
        if let Some(kernel) = scored.get(*index) {
            page.item(detail(kernel));
        }
    }
    page.sentence(
        "A score is the cycles of the schedule, its control flow run, over the clock, or the bytes that the kernel cannot but move over the bandwidth. Kernels that share a place are within 3 %, which scores do not tell apart. Nothing was measured.",
    );
    page
}

fn detail(kernel: &Scored) -> String {
    let schedule = &kernel.schedule;
    let units: Vec<String> = Unit::ALL
        .iter()
        .filter(|unit| schedule.slots_of(**unit) >= 0.01)
        .map(|unit| format!("{} {}", unit.name(), percent(schedule.slots_of(*unit))))
        .collect();
    let Score { low, high, .. } = kernel.score;
    let high = high.map_or("?".to_owned(), |high| high.to_string());
    let mut words = format!(
        "{}, {}: {low} to {high}; slots {}",
        kernel.program,
        schedule.instruction,
        units.join(", ")
    );
    if let Some(unit) = schedule.bottleneck {
        words.push_str(&format!("; most used {}", unit.name()));
    }
    words.push_str(&format!(
        "; HBM {:.1} MB",
        (schedule.hbm_read_bytes + schedule.hbm_written_bytes) as f64 / 1e6
    ));
    if schedule.unknown_trip_loops > 0 || schedule.unknown_decisions > 0 {
        words.push_str(&format!(
            "; {} loops and {} decisions depend on data and count as run once",
            schedule.unknown_trip_loops, schedule.unknown_decisions
        ));
    }
    words
}
