//! Rules on values that are read on the host.
