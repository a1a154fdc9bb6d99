//! `tpu-tune parity`: whether a changed program still computes the same numbers, without a TPU.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use profiler::parity::ceiling::Share;
use profiler::parity::check::{Options, Parity, ResultOf, Set, Verdict, check};
use profiler::parity::inputs::Range;
use profiler::parity::judge::Outcome;
use serde::Serialize;

use crate::cli::{TableFormat, output};
use crate::exit;
use crate::parity::Cpu;
use crate::predict::read_program;
use crate::render::page::Page;
use crate::render::table::{Align, Table};

/// Arguments of `parity`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The program as it was: StableHLO (text, bytecode, a jax.export artifact) or HLO.
    #[arg(value_name = "A")]
    before: PathBuf,

    /// The program as it was changed.
    #[arg(value_name = "B")]
    after: PathBuf,

    /// Names the inputs: the same seed makes the same ones on every machine.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,

    /// Sets of inputs of each of the nine regimes.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    inputs: u32,

    /// Part of the ceilings that B may use, from 0 (equal bits alone) to 1. It can only be
    /// tightened.
    #[arg(long, value_name = "SHARE", default_value = "1", value_parser = parse_share)]
    tolerance: Share,

    /// A CPU PJRT plugin to run on [default: TPU_TUNE_CPU_PLUGIN, else JAX in the active Python].
    #[arg(long, value_name = "PATH", help_heading = "Runner")]
    cpu_plugin: Option<PathBuf>,

    /// Seconds that one compilation or run may take.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 600,
        help_heading = "Runner"
    )]
    run_timeout: u64,

    /// How the comparison is written.
    #[arg(long, value_enum, default_value_t)]
    format: TableFormat,
}

fn parse_share(text: &str) -> Result<Share, String> {
    let share = text.parse().ok().and_then(Share::new);
    share.ok_or_else(|| {
        "expected a number from 0 to 1: ceilings can be tightened, never raised".to_owned()
    })
}

/// The comparison and what it is of, as JSON shows it.
#[derive(Serialize)]
struct Compared<'a> {
    a: String,
    b: String,
    runner: &'a str,
    parity: &'a Parity,
}

/// Runs the command.
///
/// # Errors
/// When a program cannot be read or run.
pub fn run(args: &Args) -> Result<u8> {
    let (a, b) = (read_program(&args.before)?, read_program(&args.after)?);
    let timeout = Duration::from_secs(args.run_timeout);
    let mut cpu = Cpu::open(args.cpu_plugin.as_deref(), timeout)?;
    let mut text = |path: &Path, file| {
        let text = cpu.text(file, timeout);
        text.with_context(|| format!("cannot use {}", path.display()))
    };
    let (before, after) = (text(&args.before, &a)?, text(&args.after, &b)?);
    let name = cpu.name.clone();
    let options = Options {
        seed: args.seed,
        sets: args.inputs,
        share: args.tolerance,
    };
    let parity = check(&before, &after, options, cpu.runner()?, |regime, set| {
        tracing::info!(regime = regime.name(), set, "running both programs");
    })
    .map_err(|error| anyhow!(error))?;
    let compared = Compared {
        a: args.before.display().to_string(),
        b: args.after.display().to_string(),
        runner: &name,
        parity: &parity,
    };
    let value = serde_json::to_value(&compared)?;
    output::page(args.format, &page(&compared), || value)?;
    Ok(match parity.verdict {
        Verdict::BitExact | Verdict::WithinTolerance => exit::OK,
        Verdict::Changes => exit::FINDINGS,
        Verdict::Vacuous | Verdict::NotComparable => exit::BAD_INPUT,
    })
}

fn page(compared: &Compared<'_>) -> Page {
    let parity = compared.parity;
    let mut page = Page::new();
    page.facts(facts(compared));
    page.heading(match parity.verdict {
        Verdict::BitExact => "Bit-exact",
        Verdict::WithinTolerance => "Within tolerance",
        Verdict::Changes => "B changes the result",
        Verdict::Vacuous => "Vacuous: nothing is shown",
        Verdict::NotComparable => "Not comparable",
    });
    for reason in &parity.reasons {
        page.item(format!("{reason}."));
    }
    if parity.verdict == Verdict::NotComparable {
        return page;
    }
    for sentence in remarks(parity) {
        page.item(sentence);
    }
    page.heading("By inputs, the worst result of each set");
    page.table(table(parity));
    for item in failures(parity) {
        page.item(item);
    }
    page.sentence(
        "ULPs are steps of the result's type between A and B. Errors are against the oracle, in units: the type's epsilon times the element's magnitude, or the median magnitude where that is larger; B may have at most the ceiling. In f64 is how far A and B are apart in double precision: rounding aside.",
    );
    page.sentence(
        "This ran on a CPU, every rounding as the programs ask for it. A TPU computes a dot of f32 at default precision from bf16 products, in A and in B.",
    );
    page
}

fn facts(compared: &Compared<'_>) -> Vec<(String, String)> {
    let parity = compared.parity;
    let fact = |label: &str, text: String| (label.to_owned(), text);
    let mut facts = vec![
        fact("A", compared.a.clone()),
        fact("B", compared.b.clone()),
        fact("Runs on", compared.runner.to_owned()),
    ];
    const SHOWN: usize = 8;
    let arguments = parity.arguments.iter().zip(&parity.ranges);
    let mut shown: Vec<String> = arguments
        .take(SHOWN)
        .map(|(ty, range)| match range {
            Range::Regime => ty.clone(),
            Range::Mask => format!("{ty} (mask)"),
            Range::Index { below } => format!("{ty} (0 to {})", below.saturating_sub(1)),
            Range::Assumed { below } => {
                format!("{ty} (0 to {}, assumed)", below.saturating_sub(1))
            }
            Range::Full => format!("{ty} (all values)"),
        })
        .collect();
    if parity.arguments.len() > SHOWN {
        shown.push(format!("{} more", parity.arguments.len() - SHOWN));
    }
    facts.push(fact("Arguments", shown.join(", ")));
    facts.push(fact("Seed", parity.seed.to_string()));
    if parity.verdict != Verdict::NotComparable {
        let oracle = match &parity.no_oracle {
            None => "A in double precision".to_owned(),
            Some(reason) => format!("none, A is the reference: {reason}"),
        };
        facts.push(fact("Oracle", oracle));
    }
    facts
}

/// What must be known to read the verdict.
fn remarks(parity: &Parity) -> Vec<String> {
    let mut remarks = Vec::new();
    let results = || parity.sets.iter().flat_map(|set| &set.results);
    let apart = results().filter_map(|result| result.apart_in_double);
    if let Some(apart) = apart.reduce(f64::max) {
        let exact = parity.verdict == Verdict::BitExact;
        remarks.push(match apart {
            0.0 if exact => "In double precision both programs agree exactly as well.".to_owned(),
            0.0 => "In double precision both programs agree exactly: what differs is rounding alone.".to_owned(),
            apart if apart <= SAME_IN_DOUBLE => format!(
                "In double precision both programs agree within {apart:.0e} of the magnitude: what differs is rounding alone."
            ),
            apart => format!(
                "In double precision they still differ by up to {apart:.1e} of the magnitude: more than rounding differs."
            ),
        });
    }
    let silent: Vec<&str> = parity
        .sets
        .iter()
        .filter(|set| !set.counts())
        .map(|set| set.regime.name())
        .collect();
    if !silent.is_empty() && parity.verdict != Verdict::Vacuous {
        remarks.push(format!(
            "Not counted, as a program that computes nothing passes there too or A itself is lost: {}.",
            silent.join(", ")
        ));
    }
    if !parity.unproven_results.is_empty() {
        let list: Vec<String> = parity
            .unproven_results
            .iter()
            .map(usize::to_string)
            .collect();
        remarks.push(format!(
            "Nothing is shown of result {}: on every set it equals zeros, a constant or an argument closely enough.",
            list.join(", ")
        ));
    }
    remarks
}

/// Sums in another order in double precision stay far below this, other formulas far above.
const SAME_IN_DOUBLE: f64 = 1e-9;

fn table(parity: &Parity) -> Table<8> {
    let mut table = Table::new([
        ("inputs", Align::Left),
        ("result", Align::Right),
        ("verdict", Align::Left),
        ("max ULPs", Align::Right),
        ("A errs", Align::Right),
        ("B errs", Align::Right),
        ("ceiling", Align::Right),
        ("in f64", Align::Right),
    ]);
    for set in &parity.sets {
        let Some((index, worst)) = worst(set) else {
            continue;
        };
        let judged = &worst.judged;
        let units = |units: Option<f64>| units.map_or_else(|| "-".to_owned(), shown);
        table.row([
            match set.set {
                0 => set.regime.name().to_owned(),
                more => format!("{} {}", set.regime.name(), more + 1),
            },
            index.to_string(),
            words(worst).to_owned(),
            judged.max_ulps.map_or_else(
                || "-".to_owned(),
                |ulps| match ulps {
                    0..=9_999 => ulps.to_string(),
                    _ => format!("{:.0e}", ulps as f64),
                },
            ),
            units(judged.a.map(|errors| errors.units.max)),
            units(judged.b.map(|errors| errors.units.max)),
            units(judged.ceiling.map(|ceiling| ceiling.max)),
            worst.apart_in_double.map_or_else(
                || "-".to_owned(),
                |apart| match apart {
                    0.0 => "0".to_owned(),
                    _ => format!("{apart:.0e}"),
                },
            ),
        ]);
    }
    table
}

fn shown(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        value if value < 10_000.0 => format!("{value:.2}"),
        value => format!("{value:.1e}"),
    }
}

fn words(result: &ResultOf) -> &'static str {
    match result.judged.outcome {
        Outcome::Beyond => "changes",
        Outcome::Unjudged => "A is lost",
        _ if !result.passing_nulls.is_empty() => "vacuous",
        Outcome::Within => "within",
        Outcome::BitExact => "bit-exact",
    }
}

/// The result that is furthest from passing; of those that pass one that counts.
fn worst(set: &Set) -> Option<(usize, &ResultOf)> {
    let key = |result: &ResultOf| {
        let used = result.judged.b.zip(result.judged.ceiling);
        let used = used.map_or(0.0, |(errors, ceiling)| {
            errors.units.max / ceiling.max.max(f64::MIN_POSITIVE)
        });
        let failed = result.judged.outcome == Outcome::Beyond;
        (failed, result.counts(), result.judged.outcome, used)
    };
    set.results.iter().enumerate().max_by(|(_, a), (_, b)| {
        let (a, b) = (key(a), key(b));
        (a.0, a.1, a.2)
            .cmp(&(b.0, b.1, b.2))
            .then(a.3.total_cmp(&b.3))
    })
}

/// The first failures in words, with the element that errs most.
fn failures(parity: &Parity) -> Vec<String> {
    const SHOWN: usize = 3;
    let all = parity.sets.iter().flat_map(|set| {
        let results = set.results.iter().enumerate();
        results.map(move |(index, result)| (set, index, &result.judged))
    });
    let failing = all.filter(|(_, _, judged)| judged.outcome == Outcome::Beyond);
    let words = failing.map(|(set, index, judged)| {
        let mut words = format!(
            "{}, result {index}: {}",
            set.regime.name(),
            judged.reasons.join("; ")
        );
        if let Some(worst) = &judged.worst {
            let oracle = match judged.b {
                Some(_) => format!("the oracle has {:.6e}, ", worst.oracle),
                None => String::new(),
            };
            words.push_str(&format!(
                "; at {:?} {oracle}A {:.6e}, B {:.6e}",
                worst.position, worst.a, worst.b
            ));
        }
        words
    });
    words.take(SHOWN).collect()
}
