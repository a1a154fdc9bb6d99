//! `tpu-tune rules`: all rules.

use std::io::Write as _;

use advisors::registry::RULES;
use anyhow::Result;

use crate::cli::Format;
use crate::exit;
use crate::render::table::{Align, Table};

/// Arguments of `rules`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How the list is written.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Runs the command.
///
/// # Errors
/// When the list cannot be written.
pub fn run(args: &Args) -> Result<u8> {
    let mut out = anstream::stdout().lock();
    match args.format {
        Format::Text => {
            let mut table = Table::new([("code", Align::Left), ("rule", Align::Left)]);
            for rule in RULES {
                table.row([rule.code().to_owned(), rule.name().to_owned()]);
            }
            table.write(&mut out)?;
            writeln!(out, "\n`tpu-tune explain CODE` prints a rule's card.")?;
        }
        Format::Json => {
            let rules: Vec<_> = RULES
                .iter()
                .map(|rule| {
                    serde_json::json!({
                        "code": rule.code(), "name": rule.name(), "summary": rule.summary(),
                    })
                })
                .collect();
            serde_json::to_writer_pretty(&mut out, &rules)?;
            writeln!(out)?;
        }
    }
    Ok(exit::OK)
}
