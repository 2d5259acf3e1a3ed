//! The documents of the dashboard's pages, as the admin listener sends them.
//!
//! Counters are since the start. A name that ends in `_per_s` is a rate over the last seconds, made
//! by the node. Text of clients and origins has gone through [`shown`](crate::shown). Lists have at
//! most [`ROWS_MAX`] rows. The node puts its name, version, uptime, state and the viewer's right to
//! change something in front of each.

mod now;
mod storage;
mod traffic;

pub use now::{AnswerRow, Heat, HintRow, Limits, MirrorRow, NowDocument, SiteRow};
pub use storage::{
    AdmissionCounts, CurvePoint, DiskCosts, DiskDocument, DiskRow, RingRow, SizeDocument, SizeNow, WhatIf,
};
pub use traffic::{
    LogDocument, LogLine, ObjectRow, ObjectsDocument, OriginRow, OriginsDocument, ReasonRow, ReasonsDocument,
};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most rows of a list.
pub const ROWS_MAX: usize = 100;

/// Most bytes of a document.
pub const DOCUMENT_BYTES_MAX: usize = 256 << 10;

/// The last hours, by series.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HistoryDocument {
    /// Beginning of the first step, in seconds since 1970.
    pub start: u64,
    /// Length of a step in seconds.
    pub step_s: u64,
    /// Values by name: means a second; `rss_bytes` is a mean, `p50_us` and `p99_us` are times.
    /// `None` is unknown.
    #[serde(borrow = "'static")]
    pub series: BTreeMap<&'static str, Vec<Option<f64>>>,
}
