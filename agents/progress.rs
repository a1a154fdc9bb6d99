//! What a person sees while a long read goes on: a line on standard error, gone when it is done.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use profiler::units::Bytes;

/// Smaller inputs are read before anybody looks.
const SHOWN_ABOVE_BYTES: u64 = 32 << 20;

/// Runs `read` and shows that it runs, where standard error is a terminal and the input is large.
pub fn while_reading<T>(paths: &[PathBuf], read: impl FnOnce() -> T) -> T {
    let size: u64 = paths
        .iter()
        .filter_map(|path| path.metadata().ok())
        .map(|meta| meta.len())
        .sum();
    if size < SHOWN_ABOVE_BYTES || !std::io::stderr().is_terminal() {
        return read();
    }
    let bar = ProgressBar::new_spinner();
    bar.set_message(format!("reading {}", Bytes(size)));
    // The template is constant and valid; the plain style is no loss.
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}, {elapsed}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(100));
    let outcome = read();
    bar.finish_and_clear();
    outcome
}
