//! HLO programs: shapes, instructions, modules, their cost and their memory.

/// One HLO module.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The module's name.
    pub name: String,
}
