//! Plans: what `shoal plan --json` prints for a log, with the same options.

use crate::arrays::{from_json, wrong};
use crate::trace::{Reading, read_log};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use shoal_lab::character::{Character, reading_json};
use shoal_lab::plan::{Footprint, Plan, PlanOptions};
use shoal_lab::progress::Silent;
use std::path::PathBuf;

/// Plans a cache for a log: what `shoal plan --json` prints, as a dictionary.
///
/// The options are those of the command line: sizes (`ram`, `disk`, `drive`, `head`,
/// `size_unknown`) in bytes, prices a month, `warm_up` the share of the requests that only warms
/// the caches. `Curve.of(plan["ram"]["curves"]["s3_fifo"])` is the curve whose knee the plan names.
#[pyfunction]
#[pyo3(signature = (path, *, filter = vec!["cacheable".to_owned()], format = None, columns = None, separator = None, limit = None, size_unknown = None,
    bad_lines = None, strict = false, ram_price = None, disk_price = None, egress_price = None, ram = None, disk = None, drive = 480_000_000_000,
    drive_writes = 1.0, drive_years = 5.0, drive_operations = 5000.0, head = 280, miss_cost = 5.0, warm_up = 0.3, seed = 1))]
pub fn plan<'py>(
    py: Python<'py>,
    path: PathBuf,
    filter: Vec<String>,
    format: Option<&str>,
    columns: Option<String>,
    separator: Option<&str>,
    limit: Option<usize>,
    size_unknown: Option<u64>,
    bad_lines: Option<f64>,
    strict: bool,
    ram_price: Option<f64>,
    disk_price: Option<f64>,
    egress_price: Option<f64>,
    ram: Option<u64>,
    disk: Option<u64>,
    drive: u64,
    drive_writes: f64,
    drive_years: f64,
    drive_operations: f64,
    head: u64,
    miss_cost: f64,
    warm_up: f64,
    seed: u64,
) -> PyResult<Bound<'py, PyAny>> {
    let refused = |why: &str| PyValueError::new_err(why.to_owned());
    if !(0.0..=0.9).contains(&warm_up) {
        return Err(refused("warm_up: a share from 0 to 0.9 is needed, such as 0.3"));
    }
    if !(1.0..=1e6).contains(&miss_cost) {
        return Err(refused("miss_cost: a miss costs as much as a hit at least, such as 5"));
    }
    if ram_price.is_some() != egress_price.is_some() {
        return Err(refused("ram_price and egress_price go together: one weighs the other"));
    }
    let reading = Reading::new(&filter, format, columns, separator, limit, size_unknown, bad_lines, strict)?;
    let loaded = read_log(py, &path, &reading.versions())?;
    let wishes = PlanOptions {
        ram_price,
        disk_price,
        egress_price,
        ram_bytes: ram,
        disk_bytes: disk,
        drive_bytes: drive,
        drive_writes_per_day: drive_writes,
        drive_years,
        drive_operations,
        footprint: Footprint { head_bytes: head, ..Footprint::default() },
        miss_cost,
        warm_up,
        seed,
    };
    if !loaded.known().sizes && !loaded.trace.requests().is_empty() {
        return Err(refused("no request has a size; size_unknown gives one"));
    }
    let name = path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    let told = py.detach(|| {
        let character = Character::of(&loaded.trace, loaded.known(), seed, &mut Silent);
        let plan = Plan::of(&loaded, &character, wishes, &mut Silent)?;
        let mut told = shoal_lab::plan::json(&plan, &name);
        told["reading"] = reading_json(&loaded);
        Ok::<_, shoal_lab::error::LabError>(told)
    });
    from_json(py, &told.map_err(wrong)?)
}
