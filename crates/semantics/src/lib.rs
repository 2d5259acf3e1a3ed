//! Rules of RFC 9111 for a shared cache, as values: storage, reuse and validation.
//!
//! Nothing here does I/O or reads a clock; the time is an argument. A response is judged once, when
//! it is stored ([`storage::may_store`]). The judgement is a small [`storage::CachePolicy`] of
//! fixed size, kept beside the response, so that a hit compares integers ([`reuse::decide`]).
//!
//! ```text
//! response ── storage::assess ──► Policy, kept with the object
//! request  ── directives ───────► RequestDirectives ─┐
//!                           Policy, now ─────────────┴─ reuse::decide ──► Fresh | … | Validate
//!                                                          validation: ask, compare, freshen
//! ```

#![forbid(unsafe_code)]

pub mod accept_encoding;
pub mod date;
pub mod directives;
pub mod entity_tag;
pub mod fields;
pub mod groups;
pub mod invalidation;
mod lapsing;
pub mod links;
mod lists;
mod next_hop_fields;
mod overrides;
pub mod range;
pub mod reuse;
mod rules;
pub mod status_fields;
pub mod storage;
pub mod surrogate;
pub mod targeted;
pub mod trace_context;
pub mod validation;
pub mod vary;

pub use accept_encoding::{AcceptedCodings, Coding, Codings};
pub use entity_tag::EntityTag;
pub use next_hop_fields::{NextHopFields, NextHopFieldsBuilder};
pub use overrides::{IgnoredDirectives, Overrides};
pub use rules::{CacheRules, HeuristicQuery, SetCookie};
