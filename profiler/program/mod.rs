//! HLO programs: shapes, instructions, modules, their cost and their memory.
//!
//! ```text
//! HLO text   ──> hlo_text  ─┐
//!                           ├─> Program: one graph of instructions ──> cost, matmul, kernel
//! xla.HloProto ─> hlo_proto ┘            └─ BufferAssignment ──> peak memory
//! ```
//!
//! A trace often carries only single instructions (`long_name`): [`hlo_text::parse_instruction`]
//! reads one, and [`cost`] says of it what can be said without the rest of the program.

mod attributes;
pub mod buffers;
mod buffers_proto;
pub mod collective;
pub mod cost;
pub mod dtype;
mod fingerprint;
pub mod frames;
mod graph;
pub mod hlo_proto;
pub mod hlo_text;
pub mod instruction;
mod instruction_proto;
pub mod kernel;
pub mod liveness;
pub mod matmul;
mod matmul_guess;
pub mod mesh;
mod movement;
pub mod opcode;
#[cfg(test)]
mod real_data;
mod scan;
pub mod shape;
mod shape_proto;
pub mod shape_text;
pub mod stablehlo;
pub mod traffic;
mod trips;
mod window;

pub use graph::{Computation, ComputationId, Edge, OpId, Program};
pub(crate) use graph::{ComputationParts, ProgramParts};
pub(crate) use hlo_proto::split_hlo_proto;
pub use hlo_proto::{looks_like_hlo_proto, read_hlo_proto};
pub use hlo_text::{looks_like_hlo_text, parse_instruction, parse_module};
pub use instruction::Instruction;
pub use trips::Executions;
