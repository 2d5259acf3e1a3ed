//! Operators' rules: which requests and responses a rule matches, and what it changes.
//!
//! The settings hold rules as text ([`shoal_settings::Rule`]). [`RuleSet::new`] compiles them once
//! when the settings are read. A request is matched once ([`RuleSet::matching`]); the result serves
//! both halves of the exchange:
//!
//! ```text
//!   request ─► matching ─┬─► RequestEffects ─► deny, redirect, URL, fields ─► key, origin
//!                        └─► with the response: ResponseEffects ─► fields, lifetime, storing
//! ```
//!
//! All rules that match take part, in the order of the file, those of a site after the general
//! ones. Where two rules set the same thing, the later one wins.
//!
//! Rules change the request before the cache key is made, and the origin is asked for the changed
//! request. So nothing reaches the origin that the key does not have, and no client can poison the
//! answer of another through a dropped parameter or cookie.
//!
//! Everything here is pure: no sockets, files or clocks.

#![forbid(unsafe_code)]

mod compile;
mod condition;
mod effects;
mod index;
mod mistakes;
mod pattern;
mod set;
mod url;

pub use effects::{RequestEffects, ResponseEffects};
pub use mistakes::{RuleMistake, mistakes, warnings};
pub use set::{MatchedRules, RequestView, RuleSet, values};
