//! `check`: recompilation.
