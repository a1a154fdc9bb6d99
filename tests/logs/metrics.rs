//! Text evidence: metrics.
