//! The testbed: up to five nodes with 32 MB each, and the base of all speedups.

use super::LabError;
use shoal_lab::prefetching::{
    DiskTimes, PrefetchCosts, PrefetchKinds, PrefetchResult, PrefetchSetup, Program, ProgramResult, simulate,
};

/// The testbed, or a part of it.
pub(super) struct Bench {
    /// Divisor of memory, files and epochs.
    pub scale: u32,
    pub seed: u64,
}

impl Bench {
    /// Returns the number of frames of a node: 32 MB.
    pub fn frames(&self) -> usize {
        4096 / self.scale as usize
    }

    /// Returns one node that runs a program, and idle ones.
    pub fn setting(&self, idle: usize) -> PrefetchSetup {
        PrefetchSetup {
            epoch_seconds: 5.0 / f64::from(self.scale),
            seed: self.seed,
            ..PrefetchSetup::testbed(self.frames(), idle)
        }
    }

    /// Returns the setting on disks that never read ahead.
    pub fn scattered(&self, idle: usize) -> PrefetchSetup {
        let costs = PrefetchCosts { disk: DiskTimes::SCATTERED, ..PrefetchCosts::TESTBED };
        PrefetchSetup { costs, ..self.setting(idle) }
    }

    /// Runs one program and returns its results.
    pub fn run(&self, program: &Program, setting: &PrefetchSetup) -> Result<ProgramResult, LabError> {
        Ok(self.outcome(program, setting)?.programs[0])
    }

    /// Runs one program and returns its results with those of the nodes.
    pub fn outcome(&self, program: &Program, setting: &PrefetchSetup) -> Result<PrefetchResult, LabError> {
        Ok(simulate(std::slice::from_ref(program), setting)?)
    }

    /// Runs a program without prefetching and hints: GMS.
    pub fn gms(&self, program: &Program, setting: &PrefetchSetup) -> Result<ProgramResult, LabError> {
        let setting = PrefetchSetup { prefetching: PrefetchKinds::NONE, ..setting.clone() };
        self.run(&program.unhinted(), &setting)
    }

    /// Returns the time of a program on one node without hints, in seconds.
    pub fn alone(&self, program: &Program) -> Result<f64, LabError> {
        Ok(self.gms(program, &self.setting(0))?.elapsed_seconds)
    }

    pub fn render(&self) -> Program {
        Program::render(self.scale, self.seed)
    }

    /// Returns the number of references of one operation of Render.
    pub fn operation(&self) -> usize {
        self.render().references.len() / 3
    }
}
