//! `tpu-tune coverage`: the ATen operators that a model uses, against those that TorchTPU has.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use advisors::rules::source::coverage::{self, graph::Calls};
use anyhow::{Context as _, Result};
use knowledge::torch_tpu::{Support, Version, substitute, version_or_newest};
use profiler::units::counted;

use crate::cli::check::parse_torch_tpu;
use crate::cli::{Format, output};
use crate::render::safe::clean;
use crate::{archive, check, exit};

/// Arguments of `coverage`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Programs of torch.export (.pt2), graphs in text (printed FX graphs, TORCH_TRACE logs), Python
    /// files, or folders of them.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// Version of torch_tpu; without it the newest that is known.
    #[arg(long, value_name = "VERSION", value_parser = parse_torch_tpu)]
    torch_tpu: Option<String>,

    /// How the result is written.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// An operator that is used.
#[derive(Debug, serde::Serialize)]
struct Row {
    /// As the graph names it.
    operator: String,
    /// How it runs.
    support: &'static str,
    /// How often it is called, in a graph or in source text.
    calls: usize,
    /// `file:line` of the first call that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<String>,
    /// Its gradient, where that is missing though the operator is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing_gradient: Option<String>,
    /// What to write instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    instead: Option<&'static str>,
}

/// Runs the command.
///
/// # Errors
/// When a path cannot be read, or the result cannot be written.
pub fn run(args: &Args) -> Result<u8> {
    let known = version_or_newest(args.torch_tpu.as_deref());
    let mut counts: BTreeMap<String, Calls> = BTreeMap::new();
    let mut notes = Vec::new();
    let (mut folders, mut files) = (Vec::new(), Vec::new());
    for path in &args.paths {
        if path.is_dir() || path.extension().is_some_and(|extension| extension == "py") {
            folders.push(path.clone());
        } else {
            files.push(path.clone());
        }
    }
    let sources = if folders.is_empty() {
        Vec::new()
    } else {
        check::sources(&folders)?
    };
    let mut add = |found: BTreeMap<String, Calls>| {
        for (operator, calls) in found {
            merge(&mut counts, operator, calls);
        }
    };
    for path in &sources {
        let bytes = read(path)?;
        match coverage::of_source(&path.display().to_string(), bytes) {
            Ok(found) => add(found),
            Err(note) => notes.push(note.to_string()),
        }
    }
    for path in &files {
        add(graph(path)?);
    }
    let rows: Vec<Row> = counts
        .into_iter()
        .map(|(operator, calls)| row(known, operator, calls))
        .collect();
    match args.format {
        Format::Text => output::write(|out| text(out, known, &rows, &notes))?,
        Format::Json => output::json(&serde_json::json!({
            "torch_tpu": known.torch_tpu,
            "torch": known.torch,
            "operators": rows,
            "notes": notes,
        }))?,
    }
    Ok(exit::OK)
}

fn merge(counts: &mut BTreeMap<String, Calls>, operator: String, calls: Calls) {
    let all = counts.entry(operator).or_default();
    all.count += calls.count;
    all.place = all.place.take().or(calls.place);
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The operators of an exported program or a graph in text.
fn graph(path: &Path) -> Result<BTreeMap<String, Calls>> {
    let failed = || format!("cannot read {}", path.display());
    let mut start = [0; 4];
    let mut file = fs::File::open(path).with_context(failed)?;
    let is_archive =
        std::io::Read::read_exact(&mut file, &mut start).is_ok() && start.starts_with(b"PK");
    if !is_archive {
        let text = String::from_utf8_lossy(&read(path)?).into_owned();
        return Ok(coverage::graph::operators(&text));
    }
    // models/model.json holds the graph; what lies beside it are weights and sample inputs.
    let is_graph = |name: &str| name.ends_with(".json") && name.contains("models/");
    let mut counts = BTreeMap::new();
    for (_, text) in archive::texts(file, is_graph).with_context(failed)? {
        for (operator, calls) in coverage::graph::operators(&text) {
            merge(&mut counts, operator, calls);
        }
    }
    Ok(counts)
}

fn row(known: &Version, operator: String, calls: Calls) -> Row {
    let support = known.support(&operator);
    let missing_gradient = known.missing_gradient(&operator);
    let lacking = support.is_missing() || missing_gradient.is_some();
    let instead = substitute(&operator).map(|substitute| substitute.write.as_str());
    Row {
        support: support.name(),
        calls: calls.count,
        place: calls.place,
        missing_gradient,
        instead: instead.filter(|_| lacking),
        operator,
    }
}

fn text(
    out: &mut impl Write,
    known: &Version,
    rows: &[Row],
    notes: &[String],
) -> std::io::Result<()> {
    let (overloads, operators) = known.kernels();
    writeln!(
        out,
        "torch_tpu {} (listed with torch {}): kernels for {overloads} overloads of {operators} \
         operators\n",
        known.torch_tpu, known.torch
    )?;
    if rows.is_empty() {
        writeln!(out, "no ATen operator is certain to be called there")?;
    }
    for support in Support::ALL {
        let of: Vec<&Row> = rows
            .iter()
            .filter(|row| row.support == support.name())
            .collect();
        let calls: usize = of.iter().map(|row| row.calls).sum();
        if !of.is_empty() {
            writeln!(
                out,
                "{:<14}{:>14}{:>12}",
                support.name(),
                counted(of.len() as u64, "operator"),
                counted(calls as u64, "call")
            )?;
        }
    }
    let lacking = rows.iter().filter(|row| {
        row.support != Support::Kernel.name() && row.support != Support::Decomposed.name()
            || row.missing_gradient.is_some()
    });
    for row in lacking {
        let what = match &row.missing_gradient {
            Some(backward) if row.support == Support::Kernel.name() => {
                format!("no gradient (aten::{backward})")
            }
            _ => row.support.to_owned(),
        };
        writeln!(
            out,
            "\naten::{}: {what}, {}{}",
            clean(&row.operator),
            counted(row.calls as u64, "call"),
            row.place.as_ref().map_or(String::new(), |place| format!(
                ", first at {}",
                clean(place)
            ))
        )?;
        if let Some(instead) = row.instead {
            writeln!(out, "    write {instead}")?;
        }
    }
    for note in notes {
        writeln!(out, "\nwarning: {}", clean(note))?;
    }
    Ok(())
}
