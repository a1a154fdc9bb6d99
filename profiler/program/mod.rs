//! HLO programs: shapes, instructions, modules, their cost and their memory.
