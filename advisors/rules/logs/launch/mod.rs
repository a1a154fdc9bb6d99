//! Rules on launch commands and configurations.
