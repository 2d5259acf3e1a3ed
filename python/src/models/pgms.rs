//! Cooperative prefetching and caching, simulated (Voelker 2000, chapter 4).

use crate::arrays::{counts, wrong};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use shoal_lab::prefetching::{
    DiskTimes, HintCoverage, MOST_NODES, PrefetchCosts, PrefetchKinds, PrefetchSetup, Program, ProgramResult,
    simulate,
};

/// A program that tells what it will read, on a node whose idle neighbours' disks and memory
/// prefetch for it.
///
/// `program` is one of render, random, reverse and hotcold, `scale` times smaller than the
/// testbed's 100 MB, or pages in the order in which they are read. `frames` is what each node
/// holds, in pages of 8 KB; where absent the testbed's 4096 over `scale`. It reads its data
/// `rounds` times and computes `computing_us` microseconds (the program's own where absent) for each
/// page that it reads.
#[pyclass(frozen, module = "shoal")]
pub struct Pgms {
    program: Program,
    setting: PrefetchSetup,
}

#[pymethods]
impl Pgms {
    #[new]
    #[pyo3(signature = (program, *, idle = 4, frames = None, scale = 8, rounds = 1, computing_us = None, disk_ms = 13.0, global_us = 370.0, outstanding = 8, seed = 1))]
    fn new(
        program: &Bound<'_, PyAny>,
        idle: usize,
        frames: Option<usize>,
        scale: u32,
        rounds: usize,
        computing_us: Option<f64>,
        disk_ms: f64,
        global_us: f64,
        outstanding: usize,
        seed: u64,
    ) -> PyResult<Self> {
        within("scale", scale as usize, 1, MOST_SCALE)?;
        within("idle", idle, 0, MOST_NODES - 1)?;
        within("rounds", rounds, 1, MOST_ROUNDS)?;
        let mut program = reads(program, scale, seed)?;
        within("references", program.references.len().saturating_mul(rounds), 1, MOST_REFERENCES)?;
        program.references = program.references.repeat(rounds);
        program.computing_seconds = computing_us.map_or(program.computing_seconds, |us| us / 1e6);
        let disk_seconds = disk_ms / 1000.0;
        let mut setting = PrefetchSetup::testbed(frames.unwrap_or(FRAMES / scale as usize), idle);
        // a disk faster than the testbed's at random reads is no slower at those that follow each
        // other
        let disk = DiskTimes {
            random_seconds: disk_seconds,
            sequential_seconds: DiskTimes::TESTBED.sequential_seconds.min(disk_seconds),
        };
        setting.costs = PrefetchCosts { disk, ..PrefetchCosts::TESTBED.with_global(global_us / 1e6) };
        setting.costs.times().map_err(wrong)?;
        setting.outstanding = outstanding;
        setting.seed = seed;
        Ok(Self { program, setting })
    }

    /// How many pages the program reads, those that it reads again counted again.
    #[getter]
    fn references(&self) -> usize {
        self.program.references.len()
    }

    /// How many different pages it reads.
    #[getter]
    fn pages(&self) -> usize {
        self.program.pages()
    }

    /// Runs the program. `prefetch` names kinds with + between them: dl (disk to local), gl (global
    /// to local), dg (disk to global), or none; `hinted` is the share of the references that it
    /// tells beforehand, `wrong` the share of the hints that is wrong where it tells all. "none"
    /// with hinted=0 is GMS.
    #[pyo3(signature = (prefetch = "dl+gl+dg", *, hinted = 1.0, wrong = 0.0))]
    fn simulate(&self, py: Python<'_>, prefetch: &str, hinted: f64, wrong: f64) -> PyResult<PgmsFinished> {
        let refused = |why: &str| PyValueError::new_err(why.to_owned());
        let prefetching = PrefetchKinds::named(prefetch)
            .ok_or_else(|| refused("prefetch: dl, gl and dg with + between them, or none"))?;
        let hinting = HintCoverage::for_shares(hinted, wrong).ok_or_else(|| {
            refused("hinted, wrong: shares from 0 to 1, and all is told where some of it is wrong")
        })?;
        let setting = PrefetchSetup { prefetching, ..self.setting.clone() };
        let program = self.program.hinting(hinting);
        let outcome =
            py.detach(|| simulate(std::slice::from_ref(&program), &setting)).map_err(crate::arrays::wrong)?;
        let finished = outcome.programs.first().ok_or_else(|| refused("no program was run"))?;
        Ok(PgmsFinished::of(finished, outcome.epochs))
    }
}

/// How a program ran.
#[pyclass(frozen, get_all, module = "shoal")]
pub struct PgmsFinished {
    /// From its beginning to its end.
    pub elapsed_seconds: f64,
    /// Of these, computing.
    pub user_seconds: f64,
    /// The system's work for it.
    pub system_seconds: f64,
    /// Waiting for pages.
    pub stall_seconds: f64,
    /// Pages that came from the own disk.
    pub disk_to_local: u64,
    /// From others' memory.
    pub global_to_local: u64,
    /// Pages that idle nodes read from their disks.
    pub disk_to_global: u64,
    /// Epochs that began.
    pub epochs: u64,
}

impl PgmsFinished {
    fn of(finished: &ProgramResult, epochs: u64) -> Self {
        Self {
            elapsed_seconds: finished.elapsed_seconds,
            user_seconds: finished.user_seconds,
            system_seconds: finished.system_seconds,
            stall_seconds: finished.stall_seconds(),
            disk_to_local: finished.disk_to_local.all(),
            global_to_local: finished.global_to_local.all(),
            disk_to_global: finished.disk_to_global.all(),
            epochs,
        }
    }
}

#[pymethods]
impl PgmsFinished {
    fn __repr__(&self) -> String {
        let Self { elapsed_seconds, stall_seconds, .. } = self;
        format!("<shoal.PgmsFinished: {elapsed_seconds:.3} s, {stall_seconds:.3} s of it waiting>")
    }
}

/// A program by name, or its pages.
fn reads(program: &Bound<'_, PyAny>, scale: u32, seed: u64) -> PyResult<Program> {
    if let Ok(name) = program.extract::<String>() {
        return Program::named(&name, scale, seed).ok_or_else(|| {
            PyValueError::new_err(format!("program: {name:?} is none of render, random, reverse, hotcold"))
        });
    }
    let pages = counts("program", program)?;
    if pages.iter().any(|page| *page > u64::from(u32::MAX - 1)) {
        return Err(PyValueError::new_err("program: pages are numbered below 4294967295"));
    }
    Ok(Program {
        name: "given".into(),
        references: pages.into_iter().map(|page| page as u32).collect(),
        ..Program::reverse(MOST_SCALE as u32)
    })
}

fn within(what: &str, found: usize, least: usize, most: usize) -> PyResult<()> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    Err(PyValueError::new_err(format!("{what}: {found} is not from {least} to {most}")))
}

/// Of each node of the testbed: 32 MB.
const FRAMES: usize = 4096;
const MOST_SCALE: usize = 64;
const MOST_ROUNDS: usize = 100;
const MOST_REFERENCES: usize = 100_000_000;
