//! Shoal's settings: their schema, their defaults, their checks.
//!
//! A setting is a field with a default that works, a unit, and a doc comment written for an operator.
//! Nothing here reads a file or the environment; the binary does and passes text in.

#![forbid(unsafe_code)]

mod schema;

pub use schema::*;
