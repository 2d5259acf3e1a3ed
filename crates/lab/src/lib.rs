//! Questions asked of traces: simulators, curves, models, the planner, reports.
//!
//! The lab runs the very code that production runs and reads no clock: time, seeds and the clocks
//! of benchmarks are arguments, so that an experiment gives the same numbers wherever it is
//! repeated.

#![forbid(unsafe_code)]

pub mod character;
pub mod cluster;
pub mod curve;
pub mod error;
mod fenwick;
pub mod figure;
pub mod forecast;
pub mod global_memory;
pub mod machine_runs;
pub mod model;
pub mod plan;
pub mod prefetching;
pub mod progress;
pub mod replay;
pub mod report;
pub mod shared_memory;
pub mod simulator;
pub mod successors;
pub mod sweep;
pub mod wide_area;
pub mod workload;
