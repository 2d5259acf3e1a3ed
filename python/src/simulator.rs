//! The policy simulator.

use crate::arrays::requests;
use crate::policy::made;
use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use shoal_lab::simulator::{Capacity, Request};
use shoal_policy::Replacement;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Requests and what became of them.
#[pyclass(frozen, get_all, eq, module = "shoal")]
#[derive(PartialEq)]
pub struct Counts {
    /// Requests.
    pub requests: u64,
    /// Those that found their object.
    pub hits: u64,
    /// Bytes of the objects asked for.
    pub bytes: u64,
    /// Bytes of those found.
    pub hit_bytes: u64,
    /// Objects given up to make room.
    pub evictions: u64,
    /// Misses whose object was not taken in, being larger than the cache.
    pub declined: u64,
}

#[pymethods]
impl Counts {
    /// Hits over requests; 0 without requests.
    #[getter]
    fn hit_ratio(&self) -> f64 {
        ratio(self.hits, self.requests)
    }

    /// Bytes found over bytes asked for; 0 without bytes.
    #[getter]
    fn byte_hit_ratio(&self) -> f64 {
        ratio(self.hit_bytes, self.bytes)
    }

    fn __repr__(&self) -> String {
        format!("<shoal.Counts: {} hits of {} requests>", self.hits, self.requests)
    }
}

type Cache = shoal_lab::simulator::Simulator<Box<dyn Replacement<u64>>>;

/// A cache of one size under one policy, without bodies and without disk: the policy is the very
/// code that the proxy runs.
#[pyclass(frozen, module = "shoal")]
pub struct Simulator {
    cache: Mutex<Cache>,
}

#[pymethods]
impl Simulator {
    /// An empty cache with room for so many bytes, or so many objects.
    #[new]
    #[pyo3(signature = (policy, *, capacity_bytes = None, capacity_objects = None, future = None))]
    fn new(
        policy: &str,
        capacity_bytes: Option<u64>,
        capacity_objects: Option<u64>,
        future: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let capacity = match (capacity_bytes, capacity_objects) {
            (Some(bytes), None) => Capacity::Bytes(bytes),
            (None, Some(objects)) => Capacity::Objects(objects),
            _ => return Err(PyValueError::new_err("give either capacity_bytes or capacity_objects")),
        };
        let cache = Cache::new(made(policy, future)?, capacity);
        Ok(Self { cache: Mutex::new(cache) })
    }

    /// Serves requests in order, a trace's or those of arrays, and tells of each whether it hit.
    #[pyo3(signature = (objects, bytes = None))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        objects: &Bound<'py, PyAny>,
        bytes: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyArray1<bool>>> {
        let requests = requests(objects, bytes)?;
        let hits: Vec<bool> = py.detach(|| {
            let mut cache = self.lock();
            requests.into_iter().map(|(object, bytes)| cache.request(Request { object, bytes })).collect()
        });
        Ok(hits.into_pyarray(py))
    }

    /// What was counted so far.
    #[getter]
    fn counts(&self) -> Counts {
        let counts = self.lock().counts();
        Counts {
            requests: counts.requests,
            hits: counts.hits,
            bytes: counts.bytes,
            hit_bytes: counts.hit_bytes,
            evictions: counts.evictions,
            declined: counts.declined,
        }
    }

    /// Bytes of memory for all that is kept about objects.
    #[getter]
    fn memory_bytes(&self) -> usize {
        self.lock().memory_bytes()
    }

    fn __len__(&self) -> usize {
        self.lock().objects()
    }
}

impl Simulator {
    fn lock(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
