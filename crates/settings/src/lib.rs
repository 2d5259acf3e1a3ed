//! Shoal's settings: their schema, their defaults, their checks.
//!
//! A setting is a field with a default that works, a unit, and a doc comment written for an
//! operator. `schema` holds all settings, and the sample file and the reference page are printed
//! from it. Reading has three steps:
//!
//! ```text
//! file ─────────┐
//! SHOAL_… ──────┼─► tree: values with places ─► Settings: types, limits ─► check: rules between
//! command line ─┘                                      └──────── mistakes ────────┘
//! ```
//!
//! All mistakes are reported at once, each with the place that an operator must edit. This crate
//! reads no file and no environment; the binary reads them and passes text in.

#![forbid(unsafe_code)]

mod address;
mod check;
#[macro_use]
mod define;
mod disks;
mod document;
mod host;
mod log_target;
mod log_template;
mod mistake;
mod outline;
mod overrides;
mod ports;
mod schema;
mod setting;
mod source;
mod stop_time;
mod tree;

pub use address::{AdminAddress, listen_address};
pub use check::{ARCHITECTURES, REPLACEMENTS};
pub use log_target::collector;
pub use log_target::{LogTarget, SyslogAddress};
pub use log_template::{FieldStyle, LogField, LogTemplate, TemplatePart};
pub use mistake::Mistake;
pub use overrides::Override;
pub use ports::Ports;
pub use schema::*;
pub use setting::read_duration;
pub use source::SettingsSource;
