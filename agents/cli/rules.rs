//! `tpu-tune rules`: all rules.

use std::io::Write as _;

use advisors::registry::RULES;
use anyhow::Result;

use crate::cli::{Format, output};
use crate::exit;
use crate::render::safe::{WIDTH, wrap};

/// Where a rule's summary begins: under its name.
const INDENT: usize = 7;

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
    match args.format {
        Format::Text => {
            output::write(|out| {
                for rule in RULES {
                    writeln!(out, "{}  {}", rule.code(), rule.name())?;
                    for line in wrap(rule.summary(), WIDTH - INDENT) {
                        writeln!(out, "{:INDENT$}{line}", "")?;
                    }
                }
                writeln!(out, "\n`tpu-tune explain CODE` prints a rule's card.")
            })?;
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
            output::json(&rules)?;
        }
    }
    Ok(exit::OK)
}
