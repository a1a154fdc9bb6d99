//! StableHLO text, read so that it can be changed: what each value's dimensions are, and where
//! they are written.
//!
//! ```text
//! text ──> lexer ──> parser ──> Module { functions, operations, values, places of types }
//! ```
//!
//! Reads the custom and the generic form, as JAX, TorchTPU and MLIR's tools print them. It does
//! not verify a program (the compiler does) and gives operations no meaning.

pub mod lexer;
mod module;
mod op;
mod parser;
mod signature;
#[cfg(test)]
mod tests;
pub mod types;

pub use module::{Function, Module};
pub use op::{Block, Integer, Op, OpId, Operand, TypeUse, Value, ValueId};
pub use parser::parse;
