//! The steady-state model of caches in a wide area (Voelker 2000, 5).

use crate::arrays::{numbers, wrong};
use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use shoal_lab::model::wan::paper::Rates;
use shoal_lab::model::wan::scheme::{Region, Scheme};
use shoal_lab::model::wan::{Change, Form, Model, SharedCache, WanError, Web};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many requests caches answer together, by the number of their clients. What is not given is
/// as in Table 5.1.
///
/// `rates` is slow, mid-slow, mid-fast or fast; `popular_days` and `unpopular_days` take their
/// place. `change` is how intervals between changes are distributed: exponential,
/// lognormal-between, lognormal-within, pareto-between or pareto-within, with `tail`.
#[pyclass(frozen, module = "shoal")]
pub struct Wan {
    model: Mutex<Model>,
}

#[pymethods]
impl Wan {
    #[new]
    #[pyo3(signature = (*, rates = "mid-slow", alpha = None, documents = None, popular = None, requests_per_day = None, cacheable = None, mean_bytes = None,
        origin_ms = None, hit_ms = None, popular_days = None, unpopular_days = None, change = "exponential", tail = None, form = "sum"))]
    fn new(
        rates: &str,
        alpha: Option<f64>,
        documents: Option<u64>,
        popular: Option<u64>,
        requests_per_day: Option<f64>,
        cacheable: Option<f64>,
        mean_bytes: Option<f64>,
        origin_ms: Option<f64>,
        hit_ms: Option<f64>,
        popular_days: Option<f64>,
        unpopular_days: Option<f64>,
        change: &str,
        tail: Option<f64>,
        form: &str,
    ) -> PyResult<Self> {
        let rates = Rates::named(rates).ok_or_else(|| {
            PyValueError::new_err(format!("rates: {rates:?} is none of slow, mid-slow, mid-fast, fast"))
        })?;
        let law = |mean_days: f64| {
            Change::named(mean_days, change, tail).ok_or_else(|| {
                PyValueError::new_err(format!("change: {change:?} is none of {}", Change::LAWS.join(", ")))
            })
        };
        let paper = Web::table_5_1(rates);
        let documents = documents.unwrap_or(paper.documents);
        let web = Web {
            alpha: alpha.unwrap_or(paper.alpha),
            documents,
            popular: popular.unwrap_or(paper.popular.min(documents)),
            requests_per_day: requests_per_day.unwrap_or(paper.requests_per_day),
            cacheable: cacheable.unwrap_or(paper.cacheable),
            mean_bytes: mean_bytes.unwrap_or(paper.mean_bytes),
            origin_seconds: origin_ms.map_or(paper.origin_seconds, |ms| ms / 1000.0),
            hit_seconds: hit_ms.map_or(paper.hit_seconds, |ms| ms / 1000.0),
            popular_change: law(popular_days.unwrap_or(rates.popular_days))?,
            unpopular_change: law(unpopular_days.unwrap_or(rates.unpopular_days))?,
        };
        let form = match form {
            "sum" => Form::Sum,
            "integral" => Form::Integral,
            _ => return Err(PyValueError::new_err(format!("form: {form:?} is neither sum nor integral"))),
        };
        Ok(Self { model: Mutex::new(Model::new(web, form).map_err(wrong)?) })
    }

    /// C_N: the share of cacheable requests that hit, for each population.
    fn cacheable_hit_rate<'py>(
        &self,
        py: Python<'py>,
        clients: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        self.each(py, clients, |model, clients| Ok(model.cacheable_hit_rate(clients)?.total()))
    }

    /// H_N: the share of all requests that hit, for each population.
    fn hit_rate<'py>(
        &self,
        py: Python<'py>,
        clients: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        self.each(py, clients, Model::hit_rate)
    }

    /// C_N of an LRU cache of so many bytes, for each population.
    fn finite_hit_rate<'py>(
        &self,
        py: Python<'py>,
        clients: &Bound<'py, PyAny>,
        cache_bytes: f64,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        self.each(py, clients, |model, clients| Ok(model.finite(clients, cache_bytes)?.cacheable.total()))
    }

    /// All of it for one cache that so many clients share.
    fn shared(&self, py: Python<'_>, clients: f64) -> PyResult<WanShared> {
        let SharedCache { cacheable, hit_rate, latency_seconds, saved_bytes, storage_bytes, valid_bytes } =
            py.detach(|| self.lock().shared(clients)).map_err(wrong)?;
        let (popular_hits, unpopular_hits) = (cacheable.popular, cacheable.unpopular);
        Ok(WanShared {
            cacheable_hit_rate: cacheable.total(),
            popular_hits,
            unpopular_hits,
            hit_rate,
            latency_seconds,
            saved_bytes,
            storage_bytes,
            valid_bytes,
        })
    }

    /// The least population whose C_N is at least this; None when none up to 10^15 has it.
    fn population_for(&self, py: Python<'_>, cacheable_hit_rate: f64) -> PyResult<Option<f64>> {
        py.detach(|| self.lock().population_for(cacheable_hit_rate)).map_err(wrong)
    }

    /// What each way to cooperate asks of a cache (Table 5.3): by its name, latency, storage, and
    /// requests a day, the top level first. `levels_ms` is the latency from a cache of each level in
    /// milliseconds.
    #[pyo3(signature = (clients, levels_ms, *, fanout = 10))]
    fn schemes<'py>(
        &self,
        py: Python<'py>,
        clients: f64,
        levels_ms: Vec<f64>,
        fanout: u32,
    ) -> PyResult<Bound<'py, PyDict>> {
        let latency_seconds = levels_ms.iter().map(|ms| ms / 1000.0).collect();
        let region = Region { population: clients, fanout, latency_seconds };
        let schemes = PyDict::new(py);
        for scheme in Scheme::ALL {
            let found = py.detach(|| self.lock().performance(scheme, &region)).map_err(wrong)?;
            let told = PyDict::new(py);
            told.set_item("latency_seconds", found.latency_seconds)?;
            told.set_item("storage_bytes", found.storage_bytes)?;
            told.set_item("arrivals_per_day", found.arrivals_per_day)?;
            schemes.set_item(scheme.token(), told)?;
        }
        Ok(schemes)
    }
}

impl Wan {
    fn each<'py>(
        &self,
        py: Python<'py>,
        clients: &Bound<'py, PyAny>,
        of: impl Fn(&Model, f64) -> Result<f64, WanError> + Send + Sync,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let clients = numbers("clients", clients)?;
        let found: Result<Vec<f64>, WanError> = py.detach(|| {
            let model = self.lock();
            clients.iter().map(|clients| of(&model, *clients)).collect()
        });
        Ok(found.map_err(wrong)?.into_pyarray(py))
    }

    fn lock(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one cache for everybody does.
#[pyclass(frozen, get_all, module = "shoal")]
pub struct WanShared {
    /// C_N: the share of cacheable requests that hit.
    pub cacheable_hit_rate: f64,
    /// The part of it that are hits on popular documents.
    pub popular_hits: f64,
    /// The part of it that are hits on others.
    pub unpopular_hits: f64,
    /// H_N: the share of all requests that hit.
    pub hit_rate: f64,
    /// The mean latency of a request, in seconds.
    pub latency_seconds: f64,
    /// Bytes that need not come from the origin, for each request.
    pub saved_bytes: f64,
    /// The storage as the dissertation estimates it, in bytes.
    pub storage_bytes: f64,
    /// The bytes of cacheable documents that are stored and valid at a moment.
    pub valid_bytes: f64,
}
