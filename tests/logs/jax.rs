//! Text evidence: jax.
