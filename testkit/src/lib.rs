//! Tests that cross crates: a scripted origin, the binary under test, guarantees.
