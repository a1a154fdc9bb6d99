//! Rules on sizes that pad.
