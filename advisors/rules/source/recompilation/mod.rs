//! Rules on shapes and values that make the program be compiled again.
