//! Sweeps: read, computed on all cores, or cell by cell wherever one likes.

use pyo3::exceptions::{PyIndexError, PyKeyError, PyOSError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use shoal_lab::progress::Silent;
use shoal_lab::sweep::{SweepError, SweepTrace, Value, run};
use shoal_trace::parquet::{ColumnKind, Field};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A grid of simulations and models, read from a specification in TOML (docs/SWEEPS.md).
#[pyclass(frozen, module = "shoal")]
pub struct Sweep {
    sweep: shoal_lab::sweep::Sweep,
    /// The trace that was used last, with its number.
    loaded: Mutex<Option<(usize, Arc<SweepTrace>)>>,
}

#[pymethods]
impl Sweep {
    /// Reads a specification's file.
    #[new]
    fn new(path: PathBuf) -> PyResult<Self> {
        let text = std::fs::read_to_string(&path)
            .map_err(|error| PyOSError::new_err(format!("{}: {error}", path.display())))?;
        Self::of(&text, path.parent().unwrap_or(Path::new("")), &path.display().to_string())
    }

    /// Reads a specification's text; files that it names start at `folder`.
    #[staticmethod]
    #[pyo3(signature = (text, folder = PathBuf::new()))]
    fn parse(text: &str, folder: PathBuf) -> PyResult<Self> {
        Self::of(text, &folder, "specification")
    }

    fn __len__(&self) -> usize {
        self.sweep.cells.len()
    }

    /// What a cell asks: its kind and parameters by name.
    fn cell<'py>(&self, py: Python<'py>, number: usize) -> PyResult<Bound<'py, PyDict>> {
        let cell = self.sweep.cells.get(number).ok_or_else(|| absent(number))?;
        let told = PyDict::new(py);
        told.set_item("kind", cell.kind.name)?;
        for (parameter, value) in cell.kind.parameters.iter().zip(&cell.inputs) {
            told.set_item(parameter.name, python(py, value)?)?;
        }
        Ok(told)
    }

    /// Answers a cell: its results by name, and `refused`, why it has none where it has none. A
    /// trace that it needs stays in memory for the next cells.
    fn compute<'py>(&self, py: Python<'py>, number: usize) -> PyResult<Bound<'py, PyDict>> {
        let answer = py.detach(|| {
            let trace = self.sweep.cells.get(number).and_then(|cell| cell.trace);
            let loaded = trace.map(|trace| self.load(trace)).transpose()?;
            self.sweep.compute(number, loaded.as_deref())
        });
        let answer = answer.map_err(failed)?;
        let told = PyDict::new(py);
        for (field, value) in self.sweep.cells[number].kind.answers().iter().zip(&answer) {
            told.set_item(field.name, python(py, value)?)?;
        }
        Ok(told)
    }

    /// Computes what is due on so many threads, all cores by default, keeps it in a folder and
    /// writes the tables there. Gives their paths.
    #[pyo3(signature = (folder, *, jobs = None))]
    fn run(&self, py: Python<'_>, folder: PathBuf, jobs: Option<usize>) -> PyResult<Vec<PathBuf>> {
        let jobs = jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        let summary = py.detach(|| run(&self.sweep, &folder, jobs, &mut Silent));
        Ok(summary.map_err(failed)?.files)
    }
}

impl Sweep {
    fn of(text: &str, folder: &Path, name: &str) -> PyResult<Self> {
        let sweep = shoal_lab::sweep::Sweep::parse(text, folder).map_err(|mistakes| {
            let lines: Vec<String> = mistakes.iter().map(|mistake| format!("{name}:{mistake}")).collect();
            PyValueError::new_err(lines.join("\n"))
        })?;
        Ok(Self { sweep, loaded: Mutex::new(None) })
    }

    fn load(&self, trace: usize) -> Result<Arc<SweepTrace>, SweepError> {
        let mut last = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, loaded)) = last.as_ref().filter(|(number, _)| *number == trace) {
            return Ok(Arc::clone(loaded));
        }
        *last = None;
        let loaded = Arc::new(self.sweep.load(trace)?);
        *last = Some((trace, Arc::clone(&loaded)));
        Ok(loaded)
    }
}

/// What of a sweep has been computed, kept in a folder: for those who have the cells computed
/// elsewhere. One process at a time may have it open.
#[pyclass(frozen, module = "shoal")]
pub struct Journal {
    sweep: Py<Sweep>,
    journal: Mutex<Option<shoal_lab::sweep::Journal>>,
}

#[pymethods]
impl Journal {
    #[new]
    fn new(py: Python<'_>, sweep: Py<Sweep>, folder: PathBuf) -> PyResult<Self> {
        let inner = &sweep.get().sweep;
        let journal = py.detach(|| shoal_lab::sweep::Journal::open(&folder, inner)).map_err(failed)?;
        Ok(Self { sweep, journal: Mutex::new(Some(journal)) })
    }

    /// Numbers of the cells that have not been computed.
    fn due(&self) -> PyResult<Vec<usize>> {
        self.with(|journal, _| Ok(journal.due()))
    }

    /// Keeps what `Sweep.compute` gave for a cell; it is in the file when this returns. A cell that
    /// has an answer keeps it.
    fn add(&self, number: usize, answer: &Bound<'_, PyDict>) -> PyResult<()> {
        self.with(|journal, sweep| {
            let cell = sweep.cells.get(number).ok_or_else(|| absent(number))?;
            let fields = cell.kind.answers();
            let values: Vec<Value> =
                fields.iter().map(|field| value(answer, field)).collect::<PyResult<_>>()?;
            journal.add(sweep, number, values).map_err(failed)
        })
    }

    /// Writes what is known as Parquet, a file a kind, and gives their paths.
    fn write_tables(&self) -> PyResult<Vec<PathBuf>> {
        self.with(|journal, sweep| journal.write_tables(sweep).map_err(failed))
    }

    /// Lets others open it.
    fn close(&self) {
        *self.journal.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, pyo3::types::PyTuple>) {
        self.close();
    }
}

impl Journal {
    fn with<T>(
        &self,
        act: impl FnOnce(&mut shoal_lab::sweep::Journal, &shoal_lab::sweep::Sweep) -> PyResult<T>,
    ) -> PyResult<T> {
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        let journal = journal.as_mut().ok_or_else(|| PyValueError::new_err("the journal is closed"))?;
        act(journal, &self.sweep.get().sweep)
    }
}

fn value(answer: &Bound<'_, PyDict>, field: &Field) -> PyResult<Value> {
    let found = answer
        .get_item(field.name)?
        .ok_or_else(|| PyKeyError::new_err(format!("{} is missing", field.name)))?;
    if found.is_none() {
        return Ok(Value::None);
    }
    match field.kind {
        ColumnKind::Int64 => found.extract().map(Value::Count),
        ColumnKind::Double => found.extract().map(Value::Number),
        ColumnKind::Text => found.extract().map(Value::Text),
        _ => Err(PyTypeError::new_err(format!("{} has no value", field.name))),
    }
}

fn python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::None => py.None().into_bound(py),
        Value::Count(count) => count.into_pyobject(py)?.into_any(),
        Value::Number(number) => number.into_pyobject(py)?.into_any(),
        Value::Text(text) => text.into_pyobject(py)?.into_any(),
    })
}

fn absent(number: usize) -> PyErr {
    PyIndexError::new_err(format!("there is no cell {number} in this sweep"))
}

fn failed(error: SweepError) -> PyErr {
    match error {
        SweepError::NoSuchCell { number } => absent(number),
        SweepError::File { .. } | SweepError::Trace { .. } => PyOSError::new_err(error.to_string()),
        SweepError::Results { .. } => PyValueError::new_err(error.to_string()),
        _ => PyRuntimeError::new_err(error.to_string()),
    }
}
