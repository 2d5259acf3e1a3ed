//! The shoal binary: one file a command.

fn main() {}
