//! `tpu-tune targets`: what programs can be compiled for.

use std::io::Write as _;

use anyhow::Result;
use profiler::chip::Generation;
use profiler::compiler::target::Target;
use serde::Serialize;

use crate::cli::{TableFormat, output};
use crate::exit;
use crate::render::table::{Align, Table};

/// Arguments of `targets`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How the list is written.
    #[arg(long, value_enum, default_value_t)]
    format: TableFormat,
}

/// A target, as JSON shows it.
#[derive(Serialize)]
struct Listed {
    name: String,
    topology: String,
    /// What the number in the name counts.
    name_counts: &'static str,
    chips: u32,
    tensor_cores: u32,
    devices: u32,
    hbm_gib_per_device: f64,
}

/// Runs the command.
///
/// # Errors
/// When the list cannot be written.
pub fn run(args: &Args) -> Result<u8> {
    let targets: Vec<Listed> = Generation::ALL
        .into_iter()
        .flat_map(Target::slices)
        .map(|target| listed(&target))
        .collect();
    if args.format == TableFormat::Json {
        output::json(&targets)?;
        return Ok(exit::OK);
    }
    let mut table = Table::new([
        ("target", Align::Left),
        ("topology", Align::Left),
        ("chips", Align::Right),
        ("TensorCores", Align::Right),
        ("devices", Align::Right),
        ("HBM GiB/device", Align::Right),
    ]);
    for target in targets {
        table.row([
            target.name,
            target.topology,
            target.chips.to_string(),
            target.tensor_cores.to_string(),
            target.devices.to_string(),
            format!("{:.1}", target.hbm_gib_per_device),
        ]);
    }
    output::write(|out| match args.format {
        TableFormat::Markdown => table.write_markdown(out),
        _ => {
            table.write(out)?;
            writeln!(
                out,
                "\nThe number in a name counts chips on v5e and v6e and TensorCores on the others, as\n\
                 Google Cloud counts them. A topology names any other grid of chips: v5p:2x2x4."
            )
        }
    })?;
    Ok(exit::OK)
}

fn listed(target: &Target) -> Listed {
    let facts = knowledge::chips::chip(target.generation);
    let devices_per_chip = f64::from(target.devices()) / f64::from(target.chips().max(1));
    Listed {
        name: target.name(),
        topology: target.topology(),
        name_counts: target.counted(),
        chips: target.chips(),
        tensor_cores: target.tensor_cores(),
        devices: target.devices(),
        hbm_gib_per_device: facts.hbm_gib_per_chip.value / devices_per_chip,
    }
}
