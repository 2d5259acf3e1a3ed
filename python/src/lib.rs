//! Shoal's lab as a Python module: traces, policies, simulators, curves, models and sweeps on NumPy
//! arrays.
//!
//! A thin layer: every function turns arrays into the lab's values, calls it with the interpreter
//! let go, and turns what comes out into arrays. No number is made here. The package around it,
//! with its types, is `python/package`.

#![forbid(unsafe_code)]
#![allow(clippy::too_many_arguments, reason = "they are the keywords of Python functions")]

mod arrays;
mod cluster;
mod curve;
mod models;
mod plan;
mod policy;
mod simulator;
mod sweep;
mod trace;
mod wide_area;

/// Shoal's lab: traces, replacement policies, simulators, miss-ratio curves, models and sweeps.
#[pyo3::pymodule]
mod _shoal {
    #[pymodule_export]
    use crate::cluster::{ClusterCounts, simulate_cluster};
    #[pymodule_export]
    use crate::curve::{Curve, miss_ratio_curve};
    #[pymodule_export]
    use crate::models::gms::{Gms, GmsMeasured, GmsSolution};
    #[pymodule_export]
    use crate::models::kant_won::{FileCache, Population, characteristic_time, kant_won};
    #[pymodule_export]
    use crate::models::pgms::{Pgms, PgmsFinished};
    #[pymodule_export]
    use crate::models::wan::{Wan, WanShared};
    #[pymodule_export]
    use crate::plan::plan;
    #[pymodule_export]
    use crate::policy::{Policy, policies};
    #[pymodule_export]
    use crate::simulator::{Counts, Simulator};
    #[pymodule_export]
    use crate::sweep::{Journal, Sweep};
    #[pymodule_export]
    use crate::trace::Trace;
    #[pymodule_export]
    use crate::wide_area::{WideAreaOutcome, simulate_wide_area};

    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "Python calls it so")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
