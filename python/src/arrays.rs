//! NumPy arrays in and out, and the lab's errors as Python's.

use crate::trace::Trace;
use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

/// A `ValueError` that says what a lab's error says.
pub fn wrong(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Whole numbers from 0 up, out of an array or a list of any type of whole numbers.
pub fn counts(what: &str, values: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    let array = as_array(values)?;
    let kind: String = array.getattr("dtype")?.getattr("kind")?.extract()?;
    match kind.as_str() {
        "u" | "b" => copied::<u64>(what, &array.call_method1("astype", ("uint64",))?),
        "i" => {
            let signed = copied::<i64>(what, &array.call_method1("astype", ("int64",))?)?;
            let below = signed.iter().find(|value| **value < 0);
            match below {
                Some(value) => Err(PyValueError::new_err(format!("{what}: {value} is below 0"))),
                None => Ok(signed.into_iter().map(|value| value as u64).collect()),
            }
        }
        "f" if array.len()? == 0 => Ok(Vec::new()),
        _ => Err(PyTypeError::new_err(format!("{what}: whole numbers are needed"))),
    }
}

/// How many requests only warm the caches: a number, or a share of them, as on the command line.
#[derive(Clone, Copy, FromPyObject)]
pub enum WarmUp {
    /// Requests.
    Requests(usize),
    /// Share of the requests.
    Share(f64),
}

impl WarmUp {
    /// No warm-up.
    pub const NONE: Self = Self::Requests(0);

    /// The number of requests, of so many.
    pub fn of(self, requests: usize) -> PyResult<usize> {
        match self {
            Self::Requests(number) => Ok(number),
            Self::Share(share) if (0.0..=1.0).contains(&share) => Ok((requests as f64 * share) as usize),
            Self::Share(share) => Err(PyValueError::new_err(format!(
                "warm_up: {share} is neither a number nor a share from 0 to 1"
            ))),
        }
    }
}

/// Numbers, out of an array, a list or one number.
pub fn numbers(what: &str, values: &Bound<'_, PyAny>) -> PyResult<Vec<f64>> {
    let numpy = values.py().import("numpy")?;
    let array = numpy.call_method1("atleast_1d", (values,))?;
    copied::<f64>(what, &array.call_method1("astype", ("float64",))?)
}

/// Objects and sizes of requests: a trace's, or arrays of the same length. Without sizes each
/// object counts as 1.
pub fn requests(of: &Bound<'_, PyAny>, bytes: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<(u64, u64)>> {
    if let Ok(trace) = of.cast::<Trace>() {
        if bytes.is_some() {
            return Err(PyValueError::new_err("bytes: a trace has its own"));
        }
        let requests = trace.get().inner.requests();
        return Ok(requests.iter().map(|request| (request.object.into(), request.bytes)).collect());
    }
    let objects = counts("objects", of)?;
    let Some(bytes) = bytes else { return Ok(objects.into_iter().map(|object| (object, 1)).collect()) };
    let bytes = counts("bytes", bytes)?;
    same_length("bytes", bytes.len(), objects.len())?;
    Ok(objects.into_iter().zip(bytes).collect())
}

/// Says that an array has another length than the one beside it.
pub fn same_length(what: &str, found: usize, expected: usize) -> PyResult<()> {
    if found == expected {
        return Ok(());
    }
    Err(PyValueError::new_err(format!("{what}: {found} values where there are {expected} requests")))
}

/// A value of Python out of a report in JSON.
pub fn from_json<'py>(py: Python<'py>, value: &serde_json::Value) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (value.to_string(),))
}

fn as_array<'py>(values: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    values.py().import("numpy")?.call_method1("asarray", (values,))
}

fn copied<T: numpy::Element + Copy>(what: &str, array: &Bound<'_, PyAny>) -> PyResult<Vec<T>> {
    let array = array.call_method1("reshape", (-1,)).and_then(|flat| {
        match array.getattr("ndim")?.extract::<usize>()? {
            1 => Ok(flat),
            found => Err(PyValueError::new_err(format!("{what}: {found} dimensions where one is needed"))),
        }
    })?;
    let array: &Bound<'_, PyArray1<T>> = array.cast()?;
    let read: PyReadonlyArray1<'_, T> = array.try_readonly().map_err(wrong)?;
    Ok(read.as_array().iter().copied().collect())
}
