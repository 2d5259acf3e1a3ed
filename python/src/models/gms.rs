//! The queueing model of global memory (Voelker 2000, 3.3).

use crate::arrays::{numbers, wrong};
use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use shoal_lab::model::gms::simulation::{Arrivals, MOST_GETPAGES, NetworkSetup, Service, simulate};
use shoal_lab::model::gms::{MemoryServer, Method, Network, Putpages, ServerDemand, ServerKind, Solution};

/// Global nodes that ask memory servers for pages: a closed class of getpages, an open one of
/// putpages.
///
/// `probabilities` is P, the share of the requests that each server gets, and sums to one;
/// `demand_us` is D, the microseconds that a server works for a page, one number or one for each;
/// `think_ms` is Z, in milliseconds; `putpages` is f, putpages for each getpage, or, where `putpage_rate` is
/// given, so many a second.
#[pyclass(frozen, module = "shoal")]
pub struct Gms {
    network: Network,
}

#[pymethods]
impl Gms {
    #[new]
    #[pyo3(signature = (global_nodes, probabilities, *, demand_us = None, think_ms = 5.0, putpages = 1.0, putpage_rate = None))]
    fn new(
        global_nodes: u32,
        probabilities: &Bound<'_, PyAny>,
        demand_us: Option<&Bound<'_, PyAny>>,
        think_ms: f64,
        putpages: f64,
        putpage_rate: Option<f64>,
    ) -> PyResult<Self> {
        let probabilities = numbers("probabilities", probabilities)?;
        let demands: Vec<f64> = match demand_us {
            Some(demands) => numbers("demand_us", demands)?.iter().map(|us| us / 1e6).collect(),
            None => vec![ServerDemand::OO7.demand_seconds],
        };
        if demands.len() != 1 && demands.len() != probabilities.len() {
            return Err(PyValueError::new_err("demand_us: one number, or one for each server"));
        }
        let server = |(at, probability): (usize, f64)| MemoryServer {
            kind: ServerKind::Idle,
            demand_seconds: demands.get(at).copied().unwrap_or(demands[0]),
            probability,
        };
        let servers = probabilities.into_iter().enumerate().map(server).collect();
        let putpages = putpage_rate.map_or(Putpages::PerGetpage(putpages), Putpages::Rate);
        let network = Network { global_nodes, think_seconds: think_ms / 1000.0, putpages, servers };
        network.check().map_err(wrong)?;
        Ok(Self { network })
    }

    /// As many servers as `idle` that share the requests equally, for an application of Table 3.1: m3, ld, atom,
    /// render, gdb, oo7.
    #[staticmethod]
    #[pyo3(signature = (global_nodes, idle, *, application = "oo7"))]
    fn balanced(global_nodes: u32, idle: u32, application: &str) -> PyResult<Self> {
        Self::of(Network::balanced(named(application)?, global_nodes, idle.min(MOST_SERVERS), 0, 0.0))
    }

    /// The first server gets the share `skew` of the requests, the others the rest in equal parts.
    #[staticmethod]
    #[pyo3(signature = (global_nodes, idle, skew, *, application = "oo7"))]
    fn skewed(global_nodes: u32, idle: u32, skew: f64, application: &str) -> PyResult<Self> {
        Self::of(Network::skewed(named(application)?, global_nodes, idle.min(MOST_SERVERS), skew))
    }

    /// Solves the model: schweitzer, linearizer or exact.
    #[pyo3(signature = (method = "linearizer"))]
    fn solve(&self, py: Python<'_>, method: &str) -> PyResult<GmsSolution> {
        let found = Method::ALL.into_iter().find(|known| known.name() == method);
        let method = found.ok_or_else(|| {
            PyValueError::new_err(format!("method: {method:?} is none of schweitzer, linearizer, exact"))
        })?;
        let solution = py.detach(|| self.network.solve(method)).map_err(wrong)?;
        Ok(GmsSolution { solution })
    }

    /// Simulates so many getpages of the same cluster. Service times vary exponentially and
    /// putpages come at random, as the model assumes, or, with `constant`, as in a cluster: always
    /// the same time, putpages with their getpages.
    #[pyo3(signature = (getpages = 100_000, *, constant = true, seed = 1))]
    fn simulate(&self, py: Python<'_>, getpages: u64, constant: bool, seed: u64) -> PyResult<GmsMeasured> {
        if getpages == 0 || getpages > MOST_GETPAGES {
            return Err(PyValueError::new_err(format!(
                "getpages: a number from 1 to {MOST_GETPAGES} is needed"
            )));
        }
        let found = py.detach(|| {
            let (arrivals, service) = match constant {
                true => (Arrivals::AfterGetpage, Service::Constant),
                false => {
                    let rate = self.network.solve(Method::Linearizer)?.putpages_per_second;
                    (Arrivals::Random(rate), Service::Exponential)
                }
            };
            simulate(&self.network, &NetworkSetup { arrivals, service, getpages, seed })
        });
        let found = found.map_err(wrong)?;
        Ok(GmsMeasured {
            response_seconds: found.response_seconds.mean,
            response_half_width: found.response_seconds.half_width,
            getpages_per_second: found.getpages_per_second.mean,
            utilizations: found.utilizations,
        })
    }
}

impl Gms {
    fn of(network: Network) -> PyResult<Self> {
        network.check().map_err(wrong)?;
        Ok(Self { network })
    }
}

/// The model solved.
#[pyclass(frozen, module = "shoal")]
pub struct GmsSolution {
    solution: Solution,
}

#[pymethods]
impl GmsSolution {
    /// R: how long a getpage takes on average.
    #[getter]
    fn response_seconds(&self) -> f64 {
        self.solution.response_seconds
    }

    /// X: getpages a second of all global nodes.
    #[getter]
    fn getpages_per_second(&self) -> f64 {
        self.solution.getpages_per_second
    }

    /// λ: putpages a second.
    #[getter]
    fn putpages_per_second(&self) -> f64 {
        self.solution.putpages_per_second
    }

    /// The share of time in which each server works for global nodes.
    #[getter]
    fn utilizations<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.solution.loads.iter().map(|load| load.utilization).collect::<Vec<_>>().into_pyarray(py)
    }

    /// Getpages that wait at each server or are served, on average.
    #[getter]
    fn queues<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.solution.loads.iter().map(|load| load.getpages).collect::<Vec<_>>().into_pyarray(py)
    }

    /// How long a getpage takes at each server, in seconds.
    #[getter]
    fn responses<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.solution.loads.iter().map(|load| load.response_seconds).collect::<Vec<_>>().into_pyarray(py)
    }
}

/// The cluster simulated.
#[pyclass(frozen, get_all, module = "shoal")]
pub struct GmsMeasured {
    /// R: how long a getpage takes.
    pub response_seconds: f64,
    /// Half the width of its 95% confidence interval.
    pub response_half_width: f64,
    /// X: getpages a second.
    pub getpages_per_second: f64,
    /// Each server's busy share of the time.
    pub utilizations: Vec<f64>,
}

fn named(application: &str) -> PyResult<ServerDemand> {
    ServerDemand::named(application).ok_or_else(|| {
        let known: Vec<&str> = ServerDemand::TABLE_3_1.iter().map(|workload| workload.name).collect();
        PyValueError::new_err(format!("application: {application:?} is none of {}", known.join(", ")))
    })
}

/// More servers than any cluster has.
const MOST_SERVERS: u32 = 10_000;
