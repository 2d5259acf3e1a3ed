//! Operators' rules: their conditions on requests and responses, and their changes of them.
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

mod access;
mod compile;
mod condition;
mod effects;
mod failures;
mod host;
mod index;
mod limit_warnings;
mod loops;
mod mapping;
mod mistakes;
mod pattern;
mod report;
mod set;
mod shadows;
mod url;
mod vain;

pub use access::{ATTRIBUTES, AccessEffects, CertificateNames, CertificatePattern, ClientRate};
pub use effects::{RequestEffects, ResponseEffects, Values};
pub use failures::{FailureKind, PAGE_MAX, PageContent, StaleErrors};
pub use host::normal_host;
pub use mapping::{PathMapping, below_prefix, may_leave_prefix, without_prefix};
pub use mistakes::{RuleMistake, mistakes, warnings};
pub use report::{COMBINATION, RuleReport, SettingPart, SettingReport};
pub use set::{MatchedRules, RequestView, RuleSet, values};
pub use url::normal_path;
