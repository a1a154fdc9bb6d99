//! Sharding search: which way to lay a program's arguments over a mesh takes least time.
//!
//! ```text
//! StableHLO ─> Problem: arguments, roles, logical axes ─> Space: legal candidates per mesh
//!                                                           │ bounds, estimates
//!   annotated program <─ annotate <── Search <──────────────┘
//!          │                            ^ │
//!          └─> Evaluate (compile, price)┘ └─> Answer: choice, runner-up, why
//! ```
//!
//! A candidate is a rule: each axis of the mesh cuts one axis of the data (batch or sequence) or
//! none, and a set of axes of the weights. That covers data, FSDP, tensor, expert and sequence
//! parallelism and their products, and keeps every layer alike. The caller compiles; here it is
//! decided what, and said why. Nothing here reads a file or a clock.

pub mod annotate;
pub mod answer;
pub mod bounds;
pub mod candidate;
mod estimate;
pub mod evaluate;
mod flow;
pub mod link_prices;
pub mod mesh;
pub mod print;
pub mod problem;
pub mod search;
pub mod signature;
pub mod spec;
pub mod tensor;
mod text;
mod union;
