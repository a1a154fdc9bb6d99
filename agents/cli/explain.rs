//! `tpu-tune explain`: a rule's card.

use std::io::Write as _;

use advisors::registry::{RULES, find};
use anyhow::{Result, bail};

use crate::cli::{Format, output};
use crate::exit;

/// Arguments of `explain`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Code or name of a rule, as TT301 or exposed-host-offload.
    #[arg(value_name = "CODE")]
    rule: String,

    /// How the card is written.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Runs the command.
///
/// # Errors
/// When there is no such rule.
pub fn run(args: &Args) -> Result<u8> {
    let Some(rule) = find(&args.rule) else {
        let known: Vec<_> = RULES.iter().map(|rule| rule.code()).collect();
        bail!("no rule {:?}; there are {}", args.rule, known.join(", "));
    };
    match args.format {
        Format::Text => output::write(|out| out.write_all(rule.card().as_bytes()))?,
        Format::Json => output::json(&serde_json::json!({
            "schema_version": 1,
            "code": rule.code(), "name": rule.name(), "card_markdown": rule.card(),
        }))?,
    }
    Ok(exit::OK)
}
