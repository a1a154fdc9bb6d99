//! The program's own log, for those who look into it: `TPU_TUNE_LOG=debug`.

use tracing::level_filters::LevelFilter;

/// Writes the log to standard error where `TPU_TUNE_LOG` names a level (error, warn, info, debug,
/// trace). Called once.
pub fn start() {
    let level = std::env::var("TPU_TUNE_LOG")
        .ok()
        .and_then(|level| level.parse::<LevelFilter>().ok());
    if let Some(level) = level {
        tracing_subscriber::fmt()
            .with_max_level(level)
            .with_writer(std::io::stderr)
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .init();
    }
}
