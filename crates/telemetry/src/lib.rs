//! The record of a request, and all that counts or logs it.
//!
//! A transport completes a [`record::AccessRecord`] for each reply. From it come the counters of
//! the process ([`metrics`]) and of its sites ([`by_site`]), and a line of the log
//! ([`access_log`]). A sample of the requests goes to the dashboard ([`samples`]).

#![forbid(unsafe_code)]

pub mod access_log;
pub mod by_site;
pub mod ip_text;
pub mod metrics;
pub mod otlp;
pub mod per_core;
pub mod record;
pub mod samples;
