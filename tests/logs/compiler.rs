//! Text evidence: compiler.
