//! Miss-ratio curves: what caches of growing size hit.

use crate::arrays::{WarmUp, counts, requests, wrong};
use crate::trace::Trace;
use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use shoal_lab::curve::{MiniSimulation, Point, Shards, sizes_between};
use std::collections::HashMap;

/// What caches of growing size hit, with how far each value may be off where it was sampled.
#[pyclass(frozen, module = "shoal")]
pub struct Curve {
    inner: shoal_lab::curve::Curve,
    /// Unit of the sizes: bytes or objects.
    unit: &'static str,
}

#[pymethods]
impl Curve {
    /// Takes the points of a curve in a plan, such as `plan["ram"]["curves"]["s3_fifo"]`.
    #[staticmethod]
    fn of(points: Vec<HashMap<String, f64>>) -> PyResult<Self> {
        let point = |values: &HashMap<String, f64>| {
            let value = |name: &str| {
                let missing = || PyValueError::new_err(format!("points: a point has no {name:?}"));
                values.get(name).copied().ok_or_else(missing)
            };
            Ok::<_, PyErr>(Point {
                size: value("bytes")? as u64,
                hit_ratio: value("hit_ratio")?,
                byte_hit_ratio: value("byte_hit_ratio")?,
                error: value("hit_ratio_error")?,
                byte_error: value("byte_hit_ratio_error")?,
            })
        };
        let mut points: Vec<Point> = points.iter().map(point).collect::<PyResult<_>>()?;
        points.sort_by_key(|point| point.size);
        Ok(Self { inner: shoal_lab::curve::Curve { points }, unit: BYTES })
    }

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
    fn hit_ratio_error<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.column(py, |point| point.error)
    }

    /// The same of the byte hit ratio.
    #[getter]
    fn byte_hit_ratio_error<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
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

    /// The size beyond which more room brings little, by the rule of `shoal plan`: the point
    /// farthest above the straight line from the first size to the last, sizes by their logarithm.
    /// None where the curve has no knee.
    fn knee(&self) -> Option<u64> {
        self.inner.knee().map(|point| point.size)
    }

    /// Draws the curve with matplotlib, the error as a band and the knee as a dot, and returns the
    /// axes. `value` is hit_ratio, miss_ratio or byte_hit_ratio.
    #[pyo3(signature = (ax = None, *, value = "hit_ratio", label = None))]
    fn plot<'py>(
        &self,
        py: Python<'py>,
        ax: Option<Bound<'py, PyAny>>,
        value: &str,
        label: Option<&str>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let of: fn(&Point) -> (f64, f64) = match value {
            "hit_ratio" => |point| (point.hit_ratio, point.error),
            "miss_ratio" => |point| (1.0 - point.hit_ratio, point.error),
            "byte_hit_ratio" => |point| (point.byte_hit_ratio, point.byte_error),
            _ => {
                let known = "hit_ratio, miss_ratio, byte_hit_ratio";
                return Err(PyValueError::new_err(format!("value: {value:?} is none of {known}")));
            }
        };
        let ax = match ax {
            Some(ax) => ax,
            None => py.import("matplotlib.pyplot")?.call_method0("gca")?,
        };
        let points = &self.inner.points;
        let sizes: Vec<u64> = points.iter().map(|point| point.size).collect();
        let values: Vec<f64> = points.iter().map(|point| of(point).0).collect();
        let named = PyDict::new(py);
        named.set_item("label", label)?;
        let lines = ax.call_method("plot", (&sizes, &values), Some(&named))?;
        let coloured = PyDict::new(py);
        coloured.set_item("color", lines.get_item(0)?.call_method0("get_color")?)?;
        if points.iter().any(|point| of(point).1 > 0.0) {
            let edge = |sign: f64| points.iter().map(|point| of(point).0 + sign * of(point).1).collect();
            let (low, high): (Vec<f64>, Vec<f64>) = (edge(-1.0), edge(1.0));
            let band = coloured.copy()?;
            band.set_item("alpha", 0.2)?;
            band.set_item("linewidth", 0)?;
            ax.call_method("fill_between", (&sizes, low, high), Some(&band))?;
        }
        if let Some(knee) = self.inner.knee() {
            ax.call_method("plot", ([knee.size], [of(&knee).0], "o"), Some(&coloured))?;
        }
        ax.call_method1("set_xscale", ("log",))?;
        ax.call_method1("set_xlabel", (format!("size of the cache, {}", self.unit),))?;
        ax.call_method1("set_ylabel", (value.replace('_', " "),))?;
        Ok(ax)
    }

    fn __len__(&self) -> usize {
        self.inner.points.len()
    }

    fn __repr__(&self) -> String {
        let (Some(first), Some(last)) = (self.inner.points.first(), self.inner.points.last()) else {
            return "<shoal.Curve: no sizes>".into();
        };
        let knee = self
            .inner
            .knee()
            .map_or(String::new(), |knee| format!(", knee at {} with {:.3}", knee.size, knee.hit_ratio));
        format!(
            "<shoal.Curve: {} sizes from {} to {} {}, hit ratio {:.3} to {:.3}{knee}>",
            self.inner.points.len(),
            first.size,
            last.size,
            self.unit,
            first.hit_ratio,
            last.hit_ratio
        )
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
/// the share `rate` of them. `warm_up` is a number of requests or a share such as 0.5; these do not
/// count.
///
/// An object takes its size and nothing more. `plan` counts what the proxy does: heads and
/// bookkeeping beside bodies, no large objects in RAM, a warm-up of 0.3, and s3_fifo. Its knee is
/// therefore another than that of LRU here.
#[pyfunction]
#[pyo3(signature = (objects, bytes = None, *, sizes = None, policy = "lru", rate = 1.0, watched = None, warm_up = WarmUp::NONE, seed = 1))]
pub fn miss_ratio_curve(
    py: Python<'_>,
    objects: &Bound<'_, PyAny>,
    bytes: Option<&Bound<'_, PyAny>>,
    sizes: Option<&Bound<'_, PyAny>>,
    policy: &str,
    rate: f64,
    watched: Option<usize>,
    warm_up: WarmUp,
    seed: u64,
) -> PyResult<Curve> {
    let unit = if bytes.is_some() || objects.cast::<Trace>().is_ok() { BYTES } else { "objects" };
    let requests = requests(objects, bytes)?;
    let warm_up = warm_up.of(requests.len())?;
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
        return Ok(Curve { inner: py.detach(|| lru(shards, &requests, warm_up).curve(&sizes)), unit });
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
    Ok(Curve { inner, unit })
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

const BYTES: &str = "bytes";
/// Points of a curve where no sizes are given.
const POINTS: usize = 50;
