//! Sessions, written for other tools to open.
