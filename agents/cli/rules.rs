//! `tpu-tune rules`: all rules.

use std::io::Write as _;

use advisors::registry::RULES;
use anyhow::Result;

use crate::cli::{Format, output};
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
    match args.format {
        Format::Text => {
            let mut table = Table::new([
                ("code", Align::Left),
                ("rule", Align::Left),
                ("what it finds", Align::Left),
            ]);
            for rule in RULES {
                let (code, name) = (rule.code().to_owned(), rule.name().to_owned());
                table.row([code, name, rule.summary().to_owned()]);
            }
            output::write(|out| {
                table.write(out)?;
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
