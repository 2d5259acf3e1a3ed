//! Traces: read from logs of every format, made, or taken from arrays.

use crate::arrays::{counts, from_json, same_length, wrong};
use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::{PyIndexError, PyOSError, PyValueError};
use pyo3::prelude::*;
use shoal_lab::character::{
    CensusTrace, Character, LoadOptions, TraceFields, account_json, census_json, facts, load, reading_json,
};
use shoal_lab::progress::Silent;
use shoal_trace::generate::Traffic;
use shoal_trace::{Filter, Format, Input, Output, ReadOptions, Reader, Record, Separator, Target, Writer};
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Requests in their order: who asked for what and when, and how large it was.
///
/// Make one with `Trace.read`, `Trace.synthetic` or `Trace.from_arrays`. Objects and clients are
/// numbers, their names are kept once.
#[pyclass(frozen, module = "shoal")]
pub struct Trace {
    pub inner: Arc<shoal_trace::Trace>,
    known: TraceFields,
    /// How it came out of its log, where it did.
    log: Option<serde_json::Value>,
}

#[pymethods]
impl Trace {
    /// Reads a log or a table, plain or compressed (gzip, zstd, xz), of any format that `shoal
    /// trace` reads.
    ///
    /// Sizes that lines do not tell are filled from other requests for the object, then by
    /// `size_unknown`, or without it by the median. A log with a larger share of bad lines than
    /// `bad_lines` (0.25) is an error.
    #[staticmethod]
    #[pyo3(signature = (path, *, filter = Vec::new(), format = None, columns = None, separator = None, limit = None, size_unknown = None, bad_lines = None, strict = false))]
    fn read(
        py: Python<'_>,
        path: PathBuf,
        filter: Vec<String>,
        format: Option<&str>,
        columns: Option<String>,
        separator: Option<&str>,
        limit: Option<usize>,
        size_unknown: Option<u64>,
        bad_lines: Option<f64>,
        strict: bool,
    ) -> PyResult<Self> {
        let reading =
            Reading::new(&filter, format, columns, separator, limit, size_unknown, bad_lines, strict)?;
        let loaded = read_log(py, &path, &reading)?;
        let mut log = reading_json(&loaded);
        log["census"] = census_json(&loaded.census);
        log["cache_that_logged"] = account_json(&loaded.account);
        let known = loaded.known();
        Ok(Self { inner: Arc::new(loaded.trace), known, log: Some(log) })
    }

    /// Makes proxy traffic: `Trace.synthetic("requests=100000,seed=1,clients=200")`. The same
    /// values give the same trace.
    #[staticmethod]
    #[pyo3(signature = (values = ""))]
    fn synthetic(py: Python<'_>, values: &str) -> PyResult<Self> {
        let traffic: Traffic = values.parse().map_err(wrong)?;
        let trace = py.detach(|| traffic.make()).map_err(wrong)?;
        Ok(Self { inner: Arc::new(trace), known: TraceFields::ALL, log: None })
    }

    /// Takes requests from arrays of the same length. Objects and clients are numbered anew, in the
    /// order in which they come; their names are the numbers given.
    #[staticmethod]
    #[pyo3(signature = (objects, bytes = None, *, times_ms = None, clients = None))]
    fn from_arrays(
        objects: &Bound<'_, PyAny>,
        bytes: Option<&Bound<'_, PyAny>>,
        times_ms: Option<&Bound<'_, PyAny>>,
        clients: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let objects = counts("objects", objects)?;
        let column = |what: &str, values: Option<&Bound<'_, PyAny>>| {
            let Some(values) = values else { return Ok(None) };
            let column = counts(what, values)?;
            same_length(what, column.len(), objects.len())?;
            Ok::<_, PyErr>(Some(column))
        };
        let known = TraceFields { times: times_ms.is_some(), sizes: bytes.is_some() };
        let (bytes, times) = (column("bytes", bytes)?, column("times_ms", times_ms)?);
        let clients = column("clients", clients)?;
        let mut trace = shoal_trace::Trace::default();
        for (at, object) in objects.iter().enumerate() {
            let of = |column: &Option<Vec<u64>>| column.as_ref().map(|column| column[at]);
            let record = Record {
                url: object.to_string().into(),
                bytes: of(&bytes),
                time_ms: of(&times),
                client: of(&clients).map(|client| client.to_string().into()),
                ..Record::default()
            };
            if !trace.push(&record, 1) {
                return Err(PyValueError::new_err("objects: more than a trace can tell apart"));
            }
        }
        Ok(Self { inner: Arc::new(trace), known, log: None })
    }

    /// When each request was made, in milliseconds since 1970, or its place where the trace has no
    /// times.
    #[getter]
    fn time_ms<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        self.inner.requests().iter().map(|request| request.time_ms).collect::<Vec<_>>().into_pyarray(py)
    }

    /// Each response's size, in bytes.
    #[getter]
    fn bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        self.inner.requests().iter().map(|request| request.bytes).collect::<Vec<_>>().into_pyarray(py)
    }

    /// What was asked for, as numbers from 0.
    #[getter]
    fn objects<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u32>> {
        self.inner.requests().iter().map(|request| request.object).collect::<Vec<_>>().into_pyarray(py)
    }

    /// Who asked, as numbers from 0; all 0 where the trace does not tell.
    #[getter]
    fn clients<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u32>> {
        self.inner.requests().iter().map(|request| request.client).collect::<Vec<_>>().into_pyarray(py)
    }

    /// How many objects there are.
    #[getter]
    fn object_count(&self) -> usize {
        self.inner.objects().len()
    }

    /// How many clients there are; 0 where the trace does not tell.
    #[getter]
    fn client_count(&self) -> usize {
        self.inner.clients().len()
    }

    /// An object's name: its URL, where the trace has URLs.
    fn url(&self, object: u32) -> PyResult<&str> {
        if object as usize >= self.inner.objects().len() {
            return Err(PyIndexError::new_err(format!("there is no object {object}")));
        }
        Ok(self.inner.objects().name(object))
    }

    /// A client's name.
    fn client(&self, client: u32) -> PyResult<&str> {
        if client as usize >= self.inner.clients().len() {
            return Err(PyIndexError::new_err(format!("there is no client {client}")));
        }
        Ok(self.inner.clients().name(client))
    }

    /// How it came out of its log: format, lines, what could not be read and what was left out;
    /// None where it is not from a log.
    #[getter]
    fn reading<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.log.as_ref().map(|log| from_json(py, log)).transpose()
    }

    /// What of it a cache feels: popularity, sizes, reuse distances, locality, working set, change.
    /// The keys are those of `shoal trace info --json`.
    #[pyo3(signature = (*, seed = 1))]
    fn statistics<'py>(&self, py: Python<'py>, seed: u64) -> PyResult<Bound<'py, PyAny>> {
        if self.inner.requests().is_empty() {
            return Err(PyValueError::new_err("the trace has no requests"));
        }
        let found = py.detach(|| facts(&Character::of(&self.inner, self.known, seed, &mut Silent)));
        from_json(py, &found)
    }

    /// Writes it: `.shoal`, `.parquet`, `.csv` (also `.gz`, `.zst`) or `.oracleGeneral`, by the
    /// name.
    fn write(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let name = path.to_string_lossy().into_owned();
        let target = Target::of_file(&name).ok_or_else(|| {
            PyValueError::new_err(format!(
                "{name}: its ending names no format; known are .shoal, .parquet, .csv, .oracleGeneral"
            ))
        })?;
        let written = py.detach(|| self.written(&path, &name, target));
        written.map_err(|error| PyOSError::new_err(format!("{name}: {error}")))
    }

    fn __len__(&self) -> usize {
        self.inner.requests().len()
    }

    fn __repr__(&self) -> String {
        let (requests, objects) = (self.inner.requests().len(), self.inner.objects().len());
        format!("<shoal.Trace: {requests} requests for {objects} objects>")
    }
}

impl Trace {
    fn written(&self, path: &PathBuf, name: &str, target: Target) -> std::io::Result<()> {
        let output = Output::named(name, BufWriter::new(File::create(path)?))?;
        let mut writer = Writer::new(target, output, 0)?;
        let has_clients = !self.inner.clients().is_empty();
        for request in self.inner.requests() {
            let client = has_clients.then(|| self.inner.clients().name(request.client).into());
            writer.put(&Record {
                time_ms: self.known.times.then_some(request.time_ms),
                client,
                url: self.inner.url(request).into(),
                bytes: Some(request.bytes),
                ..Record::default()
            })?;
        }
        let (output, _) = writer.finish()?;
        output.finish()?.into_inner().map_err(|error| error.into_error())?.sync_all()
    }
}

/// How a log is read.
pub struct Reading {
    options: ReadOptions,
    load: LoadOptions,
}

impl Reading {
    /// Takes the keywords that functions on logs share.
    pub fn new(
        filter: &[String],
        format: Option<&str>,
        columns: Option<String>,
        separator: Option<&str>,
        limit: Option<usize>,
        size_unknown: Option<u64>,
        bad_lines: Option<f64>,
        strict: bool,
    ) -> PyResult<Self> {
        let defaults = ReadOptions::default();
        let bad_lines_max = bad_lines.unwrap_or(defaults.bad_lines_max);
        if !(0.0..=1.0).contains(&bad_lines_max) {
            return Err(PyValueError::new_err("bad_lines: a share from 0 to 1 is needed"));
        }
        let options = ReadOptions {
            format: format.map(named).transpose()?,
            columns,
            separator: separator.map(parted_by).transpose()?,
            bad_lines_max,
            strict,
            ..defaults
        };
        let limit = limit.unwrap_or(usize::MAX);
        let load = LoadOptions { filter: rules(filter)?, limit, size_unknown, versions: false };
        Ok(Self { options, load })
    }

    /// Reads responses that replaced stale ones as other objects, as plans do.
    pub fn versions(mut self) -> Self {
        self.load.versions = true;
        self
    }
}

/// Reads a log as a whole.
pub fn read_log(py: Python<'_>, path: &Path, reading: &Reading) -> PyResult<CensusTrace> {
    let loaded = py.detach(|| {
        let input = Input::open(path).map_err(|error| error.to_string())?;
        let reader = Reader::of(input, &reading.options).map_err(|error| error.to_string())?;
        load(reader, &reading.load).map_err(|error| error.to_string())
    });
    loaded.map_err(|why| PyOSError::new_err(format!("{}: {why}", path.display())))
}

fn rules(names: &[String]) -> PyResult<Filter> {
    let mut filter = Filter::default();
    match names.iter().find(|name| !filter.add(name)) {
        None => Ok(filter),
        Some(name) => {
            Err(PyValueError::new_err(format!("filter: {name:?} is none of {}", Filter::RULES.join(", "))))
        }
    }
}

fn parted_by(name: &str) -> PyResult<Separator> {
    Separator::named(name).ok_or_else(|| {
        let known: Vec<&str> = Separator::ALL.iter().map(|separator| separator.name()).collect();
        PyValueError::new_err(format!("separator: {name:?} is none of {}", known.join(", ")))
    })
}

fn named(name: &str) -> PyResult<Format> {
    Format::named(name).ok_or_else(|| {
        let known: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
        PyValueError::new_err(format!("format: {name:?} is none of {}", known.join(", ")))
    })
}
