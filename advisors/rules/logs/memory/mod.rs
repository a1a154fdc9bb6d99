//! Rules on memory that ran out.
