//! Cases follow.
