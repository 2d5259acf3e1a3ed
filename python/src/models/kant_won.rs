//! Kant and Won's model of a file cache (1999), and the characteristic time of LRU (Che et al.
//! 2002), over arrays of cache sizes.

use crate::arrays::{numbers, wrong};
use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use shoal_lab::model::specweb99::analytic::RankedPopulation;
use shoal_lab::model::specweb99::{FileCacheResult, Item, RateDerivation, che};
use shoal_lab::workload::Workload;
use shoal_trace::generate::specweb99::FileSet;
use std::sync::Arc;

/// Files with fixed probabilities, asked for independently.
#[pyclass(frozen, module = "shoal")]
pub struct Population {
    inner: Arc<shoal_lab::model::specweb99::Population>,
}

#[pymethods]
impl Population {
    /// Files of these probabilities, which are scaled to sum to one, and sizes in bytes.
    #[new]
    fn new(probabilities: &Bound<'_, PyAny>, bytes: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (shares, bytes) = (numbers("probabilities", probabilities)?, numbers("bytes", bytes)?);
        let is_quantity = |value: &f64| value.is_finite() && *value >= 0.0;
        let sum: f64 = shares.iter().sum();
        if shares.len() != bytes.len() || !shares.iter().chain(&bytes).all(is_quantity) || sum <= 0.0 {
            return Err(PyValueError::new_err(
                "as many probabilities as sizes are needed, numbers from 0 up, and not all probabilities 0",
            ));
        }
        let item = |(share, bytes): (f64, f64)| Item { probability: share / sum, bytes };
        Ok(Self::of(shoal_lab::model::specweb99::Population::of_items(
            shares.into_iter().zip(bytes).map(item).collect(),
        )))
    }

    /// SPECweb99's file set: directories of 36 files, 5.12 MB each.
    #[staticmethod]
    #[pyo3(signature = (directories = 525))]
    fn specweb99(directories: u32) -> PyResult<Self> {
        if !(1..=20_000).contains(&directories) {
            return Err(PyValueError::new_err("directories: a number from 1 to 20000 is needed"));
        }
        Ok(Self::of(shoal_lab::model::specweb99::Population::of_files(&FileSet::of(directories))))
    }

    /// Zipf-like popularity of exponent `alpha`, lognormal sizes of a median and a sigma of the
    /// logarithm.
    #[staticmethod]
    #[pyo3(signature = (objects, alpha = 0.8, *, median_bytes = 4000.0, sigma = 1.5))]
    fn zipf(objects: u32, alpha: f64, median_bytes: f64, sigma: f64) -> PyResult<Self> {
        let fits = (0.0..=4.0).contains(&alpha) && median_bytes > 0.0 && (0.0..=10.0).contains(&sigma);
        if objects == 0 || objects > MOST_OBJECTS || !fits {
            return Err(PyValueError::new_err(format!(
                "1 to {MOST_OBJECTS} objects, an alpha from 0 to 4, a median above 0 and a sigma from 0 to 10 are needed"
            )));
        }
        Ok(Self::of(shoal_lab::model::specweb99::Population::of_distributions(
            objects,
            alpha,
            median_bytes,
            sigma,
        )))
    }

    /// Each object of a trace as often as it was asked for.
    #[staticmethod]
    fn of_trace(trace: &crate::trace::Trace) -> PyResult<Self> {
        let population = shoal_lab::model::specweb99::Population::of_trace(&Workload::new(&trace.inner, 0));
        if population.items().is_empty() {
            return Err(wrong("the trace has no objects with bytes"));
        }
        Ok(Self::of(population))
    }

    /// How likely an access is to be one to each file.
    #[getter]
    fn probabilities<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.inner.items().iter().map(|item| item.probability).collect::<Vec<_>>().into_pyarray(py)
    }

    /// Each file's size, in bytes.
    #[getter]
    fn bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.inner.items().iter().map(|item| item.bytes).collect::<Vec<_>>().into_pyarray(py)
    }

    /// The bytes of all files.
    #[getter]
    fn total_bytes(&self) -> f64 {
        self.inner.bytes()
    }

    fn __len__(&self) -> usize {
        self.inner.items().len()
    }
}

impl Population {
    fn of(population: shoal_lab::model::specweb99::Population) -> Self {
        Self { inner: Arc::new(population) }
    }
}

/// What caches of several sizes leave to the disk.
#[pyclass(frozen, module = "shoal")]
pub struct FileCache {
    outcomes: Vec<FileCacheResult>,
}

#[pymethods]
impl FileCache {
    /// Accesses answered from the cache, of all.
    #[getter]
    fn hit_ratio<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.column(py, |outcome| outcome.hit_ratio)
    }

    /// Bytes answered from the cache, of all.
    #[getter]
    fn byte_hit_ratio<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.column(py, |outcome| outcome.byte_hit_ratio)
    }

    /// Bytes read from disk an access.
    #[getter]
    fn bytes_read<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.column(py, |outcome| outcome.bytes_read)
    }

    /// Transfers from disk an access, of at most 16 KB each.
    #[getter]
    fn transfers<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.column(py, |outcome| outcome.transfers)
    }
}

impl FileCache {
    fn column<'py>(&self, py: Python<'py>, of: fn(&FileCacheResult) -> f64) -> Bound<'py, PyArray1<f64>> {
        self.outcomes.iter().map(of).collect::<Vec<_>>().into_pyarray(py)
    }
}

/// Kant and Won's model for one cache size in bytes, or an array of them. `reuse` is f_r, the
/// probability that a file pushed out is wanted shortly after; `literal` reads the disk's rates as
/// printed instead of as the paper's words have them.
#[pyfunction]
#[pyo3(signature = (population, cache_bytes, *, reuse = 0.333, literal = false))]
pub fn kant_won(
    py: Python<'_>,
    population: &Population,
    cache_bytes: &Bound<'_, PyAny>,
    reuse: f64,
    literal: bool,
) -> PyResult<FileCache> {
    let sizes = sizes(cache_bytes)?;
    if !(0.0..=1.0).contains(&reuse) {
        return Err(PyValueError::new_err(format!("reuse: {reuse} is no probability")));
    }
    let reading = if literal { RateDerivation::Literal } else { RateDerivation::Restored };
    let outcomes = py.detach(|| {
        let ranked = RankedPopulation::of(&population.inner);
        sizes.iter().map(|bytes| ranked.solve(*bytes, reuse).outcome(reading)).collect()
    });
    Ok(FileCache { outcomes })
}

/// LRU by its characteristic time, for one cache size in bytes, or an array of them.
#[pyfunction]
pub fn characteristic_time(
    py: Python<'_>,
    population: &Population,
    cache_bytes: &Bound<'_, PyAny>,
) -> PyResult<FileCache> {
    let sizes = sizes(cache_bytes)?;
    let outcomes = py.detach(|| sizes.iter().map(|bytes| che::outcome(&population.inner, *bytes)).collect());
    Ok(FileCache { outcomes })
}

fn sizes(cache_bytes: &Bound<'_, PyAny>) -> PyResult<Vec<f64>> {
    let sizes = numbers("cache_bytes", cache_bytes)?;
    match sizes.iter().find(|bytes| !bytes.is_finite() || **bytes < 0.0) {
        Some(bytes) => Err(PyValueError::new_err(format!("cache_bytes: {bytes} is no size"))),
        None => Ok(sizes),
    }
}

const MOST_OBJECTS: u32 = 100_000_000;
