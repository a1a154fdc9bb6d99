//! Text evidence: torch trace.
