//! Rules on shardings, and what the compiler said.
