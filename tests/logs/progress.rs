//! Text evidence: progress.
