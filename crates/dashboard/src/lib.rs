//! The dashboard of a node as functions of values: its documents, its history, its live curve.
//!
//! The crate opens no socket and no file, and reads no clock: the time is an argument. The node
//! fills the documents (`shoal_proxy::dashboard`), and the admin listener sends them.
//!
//! - [`documents`]: types of the JSON documents, one a page; `docs/DASHBOARD.md` has their table.
//! - [`Topic`]: a page with its parameters, from a URL's path and query.
//! - [`History`]: the last 24 hours in a fixed memory, kept over a restart as bytes.
//! - [`Rates`] and [`HeatMap`]: the last seconds and minutes of counters.
//! - [`LiveCurve`]: hit ratios of caches of other sizes, from a sample of the requests.
//! - [`shown`]: text of clients and origins made safe to show.
//! - [`asset`]: the page's files.
//! - [`StandalonePage`]: a page in one file, with the dashboard's charts.
//! - [`LINE_STYLES`]: colour, dash and mark of lines.

#![forbid(unsafe_code)]

mod advice;
mod assets;
pub mod documents;
mod heat;
mod history;
mod line_styles;
mod live_curve;
mod rates;
mod standalone;
mod text;
mod topic;

pub use advice::{CacheSizes, size_document};
pub use assets::{ASSETS, Asset, asset};
pub use heat::{COLUMN_S, COLUMNS, HeatMap};
pub use history::{History, HistoryFileError, SERIES, Sample};
pub use line_styles::{COLOURS, LINE_STYLES, LineStyle, MARKS, mark_of};
pub use live_curve::{LiveCurve, THRESHOLD_START};
pub use rates::Rates;
pub use standalone::StandalonePage;
pub use text::{TEXT_CHARACTERS_MAX, shown, shown_as_number, shown_bytes};
pub use topic::{LineFilter, ObjectOrder, Page, Topic};
