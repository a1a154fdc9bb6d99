//! Text evidence: torch tpu.
