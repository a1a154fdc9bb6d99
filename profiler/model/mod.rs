//! The arithmetic of a model and a fleet, from a configuration alone: no trace, no program.
//!
//! ```text
//! config.json ──> config.rs  ──> Decoder: layers with their attention and their MLP
//!   Decoder ──> params.rs      parameters: all, of one token, without embeddings
//!           ──> flops.rs       FLOPs of a token, by a convention that is stated
//!           ──> utilization.rs MFU and HFU, from a step's time or tokens a second
//!           ──> memory.rs      weights, gradients, optimizer, activations, KV cache of a device
//!           ──> scaling.rs     compute against collectives as chips are added (mesh.rs: where the
//!                              axes of a job lie in the torus)
//!   text of config.json ──> places.rs  where a field stands, for findings
//! ```
//!
//! Nothing here is measured. What a figure leaves out stands beside it.

pub mod config;
pub mod families;
pub mod flops;
pub mod memory;
pub mod mesh;
pub mod parallelism;
pub mod params;
pub mod places;
pub mod quantity;
pub mod scaling;
pub mod utilization;

pub use config::{Attention, ConfigError, Decoder, Layer, Mlp};
pub use flops::{AttentionCount, Convention, EmbeddingCount, Flops, Remat};
pub use memory::{MemoryPlan, Optimizer, Stored};
pub use parallelism::{Parallelism, ParallelismError};
pub use params::Params;
