//! The hidden command that is the compiler's own process.

use std::path::PathBuf;

use anyhow::Result;

/// What the process loads and may use.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The compiler's library.
    #[arg(long, value_name = "PATH")]
    library: PathBuf,
    /// Memory that it may map.
    #[arg(long, value_name = "N")]
    memory_limit_bytes: u64,
}

pub(crate) fn run(args: &Args) -> Result<u8> {
    crate::compiler::process::serve(&args.library, args.memory_limit_bytes)?;
    Ok(crate::exit::OK)
}
