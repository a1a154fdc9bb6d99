//! Text evidence: launch.
