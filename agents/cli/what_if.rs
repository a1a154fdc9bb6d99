//! `tpu-tune what-if`: changes of a program, compiled and priced beside the original.

use std::path::PathBuf;

use anyhow::Result;
use profiler::compiler::what_if::{Change, Resize};
use profiler::evidence::compiled_change::CompiledChange;
use profiler::units::Picos;
use serde_json::json;

use crate::cli::compare::verdict;
use crate::cli::{TableFormat, output};
use crate::exit;
use crate::predict::CompileArgs;
use crate::render::page::Page;
use crate::render::table::{Align, Table};
use crate::what_if::{Tried, WhatIf, what_if};

/// Arguments of `what-if`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The program: StableHLO text, as `lowered.as_text()` gives it.
    #[arg(value_name = "PROGRAM")]
    program: PathBuf,

    #[command(flatten)]
    compile: CompileArgs,

    /// Changes that are compiled at most, those about the most FLOPs first.
    #[arg(long, short = 'n', default_value_t = DEFAULT_LIMIT)]
    limit: usize,

    /// How the result is written.
    #[arg(long, value_enum, default_value_t)]
    format: TableFormat,
}

/// Changes that are compiled unless the user says otherwise.
pub(crate) const DEFAULT_LIMIT: usize = 12;

/// Runs the command.
///
/// # Errors
/// When the program cannot be changed or compiled, or the result cannot be written.
pub fn run(args: &Args) -> Result<u8> {
    let found = what_if(&args.program, &args.compile, args.limit)?;
    let changes = found.changes(&args.compile.target, &found.before.session);
    let page = page(args, &found, &changes);
    output::page(args.format, &page, || as_json(args, &found, &changes))?;
    Ok(exit::OK)
}

fn page(args: &Args, found: &WhatIf, changes: &[CompiledChange]) -> Page {
    let target = &args.compile.target;
    let mut page = Page::new();
    let mut facts = vec![
        ("Program".to_owned(), args.program.display().to_string()),
        (
            "Target".to_owned(),
            format!("{target} ({})", target.topology()),
        ),
    ];
    if let Some(time) = found.before.step() {
        facts.push((
            "Now".to_owned(),
            format!("predicted {}, {}", Picos(time.time_ps), time.words()),
        ));
    }
    page.facts(facts);
    if found.tried.is_empty() {
        page.sentence(
            "No dimension of its matmuls leaves tiles unfilled, and no weight is transposed before each use: there is nothing to try.",
        );
        return page;
    }
    page.heading("Changes, compiled beside the original, the best first");
    let mut table = Table::new([
        ("no", Align::Right),
        ("change", Align::Left),
        ("time", Align::Right),
        ("ratio", Align::Right),
        ("90 % band", Align::Right),
        ("says", Align::Left),
    ]);
    for (number, tried) in (1..).zip(&found.tried) {
        table.row(row(number, tried));
    }
    page.table(table);
    for (number, tried) in (1..).zip(&found.tried) {
        page.item(format!("{number}: {}", detail(tried, changes)));
    }
    if found.left_out > 0 {
        page.sentence(format!(
            "{} more changes were not tried: raise --limit for them.",
            found.left_out
        ));
    }
    page.sentence(
        "Each is the whole program compiled again: weights are stored in the new form, and the work of added elements is paid for. Nothing was measured.",
    );
    page
}

fn row(number: usize, tried: &Tried) -> [String; 6] {
    let number = number.to_string();
    let change = short(&tried.change);
    match &tried.outcome {
        Ok(priced) => {
            let ratio = priced.ratio;
            let time = priced.predicted.step().map_or(0, |band| band.time_ps);
            [
                number,
                change,
                Picos(time).to_string(),
                format!("{:.3}", ratio.ratio),
                format!("{:.3} to {:.3}", ratio.low, ratio.high),
                verdict(ratio, ["faster", "slower"]).to_owned(),
            ]
        }
        Err(_) => [
            number,
            change,
            "-".into(),
            "-".into(),
            "-".into(),
            "no result".into(),
        ],
    }
}

/// The change in as few words as tell it from the others.
fn short(change: &Change) -> String {
    let sizes = |resizes: &[Resize]| {
        let sizes: Vec<String> = resizes
            .iter()
            .map(|resize| format!("{}->{}", resize.from, resize.to))
            .collect();
        sizes.join(" ")
    };
    match change {
        Change::Resize(resizes) => sizes(resizes),
        Change::PadInGraph(resizes) => format!("{} at run time", sizes(resizes)),
        other => other.to_string(),
    }
}

/// The change in words, and what came of it.
fn detail(tried: &Tried, changes: &[CompiledChange]) -> String {
    let mut words = tried.change.to_string();
    match &tried.outcome {
        Err(error) => words.push_str(&format!(": {error}")),
        Ok(_) => {
            let change = changes.iter().find(|change| change.change == words);
            let list = |what: &str, list: &[String]| match list.is_empty() {
                true => String::new(),
                false => format!("; {what} {}", list.join(", ")),
            };
            if let Some(change) = change {
                words.push_str(&list("saves", &change.saved));
                words.push_str(&list("pays", &change.paid));
            }
        }
    }
    words
}

fn as_json(args: &Args, found: &WhatIf, changes: &[CompiledChange]) -> serde_json::Value {
    let tried: Vec<_> = found
        .tried
        .iter()
        .map(|tried| {
            let words = tried.change.to_string();
            let change = changes.iter().find(|change| change.change == words);
            let priced = tried.outcome.as_ref().ok();
            json!({
                "change": words,
                "matmul_flops_share": tried.share,
                "time": priced.and_then(|priced| priced.predicted.step()),
                "ratio": priced.map(|priced| priced.ratio),
                "saves": change.map(|change| &change.saved),
                "pays": change.map(|change| &change.paid),
                "more_hbm_bytes": change.map(|change| change.more_hbm_bytes),
                "error": tried.outcome.as_ref().err(),
            })
        })
        .collect();
    json!({
        "schema_version": 1,
        "program": args.program,
        "target": args.compile.target.name(),
        "time": found.before.step(),
        "changes": tried,
        "left_out": found.left_out,
    })
}
