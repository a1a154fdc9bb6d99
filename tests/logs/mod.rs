//! `analyze` on text: logs, reports, launch commands.

mod compiler;
mod jax;
mod launch;
mod memory;
mod metrics;
mod progress;
mod torch_tpu;
mod torch_trace;
