//! Miss-ratio curves: what caches of growing size hit.

use crate::arrays::{counts, requests, wrong};
use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use shoal_lab::curve::{MiniSimulation, Point, Shards, sizes_between};
use std::collections::HashMap;

/// What caches of growing size hit, with how far each value may be off where it was sampled.
#[pyclass(frozen, module = "shoal")]
pub struct Curve {
    inner: shoal_lab::curve::Curve,
}

#[pymethods]
impl Curve {
    /// The sizes.
    #[getter]
    fn sizes<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        self.inner.points.iter().map(|point| point.size).collect::<Vec<_>>().into_pyarray(py)
    }

    /// Hits over requests.
    #[getter]
    fn hit_ratio<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.column(py, |point| point.hit_ratio)
    }

    /// Misses over requests.
    #[getter]
    fn miss_ratio<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.column(py, |point| 1.0 - point.hit_ratio)
    }

    /// Bytes hit over bytes asked for.
    #[getter]
    fn byte_hit_ratio<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.column(py, |point| point.byte_hit_ratio)
    }

    /// How far the hit ratio may be off at 95% confidence; 0 where nothing was sampled.
    #[getter]
    fn error<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.column(py, |point| point.error)
    }

    /// The same of the byte hit ratio.
    #[getter]
    fn byte_error<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.column(py, |point| point.byte_error)
    }

    /// Hit ratio and byte hit ratio at a size, between points by straight lines over the size's
    /// logarithm.
    fn at(&self, size: u64) -> (f64, f64) {
        self.inner.at(size)
    }

    /// The least size with at least this hit ratio; None when none has it.
    fn size_for(&self, hit_ratio: f64) -> Option<u64> {
        self.inner.size_for(hit_ratio)
    }

    /// The size beyond which more room brings little; None where the curve has no knee.
    fn knee(&self) -> Option<u64> {
        self.inner.knee().map(|point| point.size)
    }

    fn __len__(&self) -> usize {
        self.inner.points.len()
    }
}

impl Curve {
    fn column<'py>(&self, py: Python<'py>, of: fn(&Point) -> f64) -> Bound<'py, PyArray1<f64>> {
        self.inner.points.iter().map(of).collect::<Vec<_>>().into_pyarray(py)
    }
}

/// The curve of a trace, or of arrays of objects and sizes, in bytes; without sizes in objects.
///
/// LRU's is by stack distances: exact, sampled by `rate` (SHARDS), or with at most so many
/// `watched` objects. Other policies' are by caches of all sizes at once, over all objects or over
/// the share `rate` of them. The first `warm_up` requests do not count.
#[pyfunction]
#[pyo3(signature = (objects, bytes = None, *, sizes = None, policy = "lru", rate = 1.0, watched = None, warm_up = 0, seed = 1))]
pub fn miss_ratio_curve(
    py: Python<'_>,
    objects: &Bound<'_, PyAny>,
    bytes: Option<&Bound<'_, PyAny>>,
    sizes: Option<&Bound<'_, PyAny>>,
    policy: &str,
    rate: f64,
    watched: Option<usize>,
    warm_up: usize,
    seed: u64,
) -> PyResult<Curve> {
    let requests = requests(objects, bytes)?;
    if !(rate > 0.0 && rate <= 1.0) {
        return Err(PyValueError::new_err(format!("rate: {rate} is no share above 0 and up to 1")));
    }
    let mut sizes = match sizes {
        Some(sizes) => counts("sizes", sizes)?,
        None => default_sizes(&requests),
    };
    sizes.sort_unstable();
    sizes.dedup();
    if policy == "lru" {
        let shards = match watched {
            Some(watched) => Shards::fixed_size(watched, seed),
            None => Shards::fixed_rate(rate, seed),
        };
        return Ok(Curve { inner: py.detach(|| lru(shards, &requests, warm_up).curve(&sizes)) });
    }
    if watched.is_some() {
        return Err(PyValueError::new_err("watched: only for lru; other policies take rate"));
    }
    let found = shoal_policy::ReplacementPolicy::<u64>::named(policy)
        .ok_or_else(|| wrong(format!("there is no policy {policy:?} that knows no future")))?;
    let mut caches = MiniSimulation::new(found.construct, &sizes, rate, seed);
    let inner = py.detach(|| {
        for (at, (object, bytes)) in requests.iter().enumerate() {
            if at == warm_up {
                caches.end_warm_up();
            }
            caches.request(*object, *bytes);
        }
        caches.curve()
    });
    Ok(Curve { inner })
}

fn lru(mut shards: Shards, requests: &[(u64, u64)], warm_up: usize) -> shoal_lab::curve::SampledDistances {
    for (at, (object, bytes)) in requests.iter().enumerate() {
        if at == warm_up {
            shards.end_warm_up();
        }
        shards.request(*object, *bytes);
    }
    shards.finish()
}

/// From a thousandth of all objects' bytes to all of them.
fn default_sizes(requests: &[(u64, u64)]) -> Vec<u64> {
    let sizes: HashMap<u64, u64> = requests.iter().copied().collect();
    let all: u64 = sizes.values().sum();
    sizes_between((all / 1000).max(1), all.max(1), POINTS)
}

/// Points of a curve where no sizes are given.
const POINTS: usize = 50;
