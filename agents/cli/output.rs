//! Where results go: standard output, buffered, without colours where nobody sees them.

use std::io::{self, BufWriter, Write};

use anyhow::Result;
use serde::Serialize;

use crate::cli::TableFormat;
use crate::render::page::Page;

/// Runs `write` on standard output and flushes it.
///
/// # Errors
/// When `write` fails or standard output does.
pub fn write(
    write: impl FnOnce(&mut BufWriter<anstream::AutoStream<io::StdoutLock<'static>>>) -> io::Result<()>,
) -> Result<()> {
    let mut out = BufWriter::new(anstream::AutoStream::auto(io::stdout().lock()));
    write(&mut out)?;
    out.flush()?;
    Ok(())
}

/// Writes JSON on standard output.
///
/// # Errors
/// When standard output fails.
pub fn json(value: &impl Serialize) -> Result<()> {
    write(|out| {
        // `From` gives back the system's own error, so that a broken pipe stays one.
        serde_json::to_writer_pretty(&mut *out, value).map_err(io::Error::from)?;
        writeln!(out)
    })
}

/// Writes a page, or the JSON that it shows, on standard output.
///
/// # Errors
/// When standard output fails.
pub fn page(
    format: TableFormat,
    page: &Page,
    value: impl FnOnce() -> serde_json::Value,
) -> Result<()> {
    match format {
        TableFormat::Text => write(|out| page.write_text(out)),
        TableFormat::Markdown => write(|out| page.write_markdown(out)),
        TableFormat::Json => json(&value()),
    }
}
