//! Rules on programs that are compiled again.
