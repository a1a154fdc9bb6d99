//! `tpu-tune compare`: two programs, compiled for one target and compared operation by operation.

use std::path::PathBuf;

use anyhow::Result;
use profiler::compiler::cost_model::program_price::RatioBand;
use profiler::diff::Diff;
use profiler::units::{Bytes, Picos};
use serde_json::json;

use crate::cli::diff::Tables;
use crate::cli::{TableFormat, output};
use crate::exit;
use crate::predict::{CompileArgs, Lazy, Predicted, calibration, predict, ratio, schedule};
use crate::render::page::Page;
use crate::render::table::{Align, Table};
use crate::what_if::diff;

/// Arguments of `compare`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The first program: StableHLO (text, bytecode, a jax.export artifact) or HLO.
    #[arg(value_name = "A")]
    before: PathBuf,

    /// The second program.
    #[arg(value_name = "B")]
    after: PathBuf,

    #[command(flatten)]
    compile: CompileArgs,

    #[command(flatten)]
    tables: Tables,

    /// How the comparison is written.
    #[arg(long, value_enum, default_value_t)]
    format: TableFormat,
}

/// Runs the command.
///
/// # Errors
/// When one of the programs cannot be compiled, or the result cannot be written.
pub fn run(args: &Args) -> Result<u8> {
    let compiler = Lazy::new(&args.compile.compiler);
    let before = predict(
        schedule(&args.before, &args.compile, &compiler)?,
        &args.compile,
    )?;
    let after = predict(
        schedule(&args.after, &args.compile, &compiler)?,
        &args.compile,
    )?;
    let target = &args.compile.target;
    let diff = diff(&before, &after, target);
    let ratio = ratio(
        &before,
        &after,
        &diff,
        &calibration(&args.compile, after.compiled.as_ref())?,
    );
    let value = json!({
        "schema_version": 1,
        "target": args.compile.target.name(),
        "ratio": ratio,
        "before": side(&before),
        "after": side(&after),
        "diff": diff,
    });
    output::page(
        args.format,
        &page(args, &before, &after, &diff, ratio),
        || value,
    )?;
    Ok(exit::OK)
}

/// One program's figures, for programs.
fn side(predicted: &Predicted) -> serde_json::Value {
    json!({
        "program": predicted.session.inputs.first().map(|input| &input.path),
        "time": predicted.step(),
        "memory": predicted.compiled.as_ref().map(|compiled| compiled.memory),
        "compiler": predicted.compiled.as_ref().map(|compiled| &compiled.build),
        "flops": predicted.compiled.as_ref().and_then(|compiled| compiled.flops),
        "device_time": predicted.device,
    })
}

fn page(
    args: &Args,
    before: &Predicted,
    after: &Predicted,
    diff: &Diff,
    ratio: Option<RatioBand>,
) -> Page {
    let mut page = Page::new();
    let mut facts = vec![("Target".to_owned(), {
        let target = &args.compile.target;
        format!("{target} ({})", target.topology())
    })];
    for (label, predicted) in [("A", before), ("B", after)] {
        let path = predicted.session.inputs.first();
        facts.push((
            label.to_owned(),
            path.map(|input| input.path.display().to_string())
                .unwrap_or_default(),
        ));
        if let Some(time) = predicted.step() {
            let words = format!("predicted {}, {}", Picos(time.time_ps), time.words());
            facts.push((String::new(), words));
        }
    }
    if let Some(ratio) = ratio {
        facts.push(("B / A".to_owned(), ratio_words(ratio)));
    }
    page.facts(facts);
    page.heading("On one device");
    page.table(resources(before, after));
    args.tables.show(&mut page, diff);
    page.sentence(
        "Nothing was measured: times are predicted from what the compiler made of each program. The band of the ratio is narrower than those of the times where both programs spend their time in the same kinds of operation, because what the model gets wrong for a kind cancels.",
    );
    page
}

/// The ratio, and whether it tells a difference at all.
fn ratio_words(ratio_band: RatioBand) -> String {
    let RatioBand { ratio, low, high } = ratio_band;
    format!(
        "{ratio:.3} ({low:.3} to {high:.3}, 90 % band): {}",
        verdict(ratio_band, ["B is faster", "B is slower"])
    )
}

/// What a ratio's band allows to say.
pub(crate) fn verdict(ratio: RatioBand, [faster, slower]: [&'static str; 2]) -> &'static str {
    if ratio.high < 1.0 {
        faster
    } else if ratio.low > 1.0 {
        slower
    } else {
        "no difference can be told"
    }
}

/// What both need besides time.
fn resources(before: &Predicted, after: &Predicted) -> Table<4> {
    let mut table = Table::new([
        ("what", Align::Left),
        ("A", Align::Right),
        ("B", Align::Right),
        ("B / A", Align::Right),
    ]);
    let memory = |predicted: &Predicted| predicted.compiled.as_ref().map(|c| c.memory);
    let flops = |predicted: &Predicted| predicted.compiled.as_ref().and_then(|c| c.flops);
    if let (Some(a), Some(b)) = (memory(before), memory(after)) {
        let rows = [
            ("HBM at the peak", a.peak_bytes, b.peak_bytes),
            ("arguments", a.argument_bytes, b.argument_bytes),
            ("results", a.output_bytes, b.output_bytes),
            ("temporaries", a.temporary_bytes, b.temporary_bytes),
        ];
        for (what, a, b) in rows {
            table.row([
                what.to_owned(),
                Bytes(a).to_string(),
                Bytes(b).to_string(),
                quotient(a as f64, b as f64),
            ]);
        }
    }
    if let (Some(a), Some(b)) = (flops(before), flops(after)) {
        table.row([
            "GFLOP (XLA's count)".to_owned(),
            format!("{:.1}", a / 1e9),
            format!("{:.1}", b / 1e9),
            quotient(a, b),
        ]);
    }
    let collectives = |predicted: &Predicted| predicted.device.collectives;
    let (a, b) = (collectives(before), collectives(after));
    table.row([
        "collectives".to_owned(),
        format!("{a:.0}"),
        format!("{b:.0}"),
        quotient(a, b),
    ]);
    table
}

fn quotient(a: f64, b: f64) -> String {
    if a > 0.0 {
        format!("{:.3}", b / a)
    } else {
        "-".to_owned()
    }
}
