//! Text evidence: memory.
