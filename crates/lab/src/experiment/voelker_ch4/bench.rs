//! The testbed: 32 MB of each of up to five nodes, and what all speedups are in proportion to.

use super::Error;
use crate::prefetching::{
    Costs, DiskTimes, PrefetchResult, PrefetchSetup, Prefetching, Program, ProgramResult, simulate,
};

/// The testbed, or a part of it.
pub(super) struct Bench {
    /// Memory, files and epochs are divided by this.
    pub scale: u32,
    pub seed: u64,
}

impl Bench {
    /// The frames of a node: 32 MB.
    pub fn frames(&self) -> usize {
        4096 / self.scale as usize
    }

    /// One node that runs a program, and idle ones.
    pub fn setting(&self, idle: usize) -> PrefetchSetup {
        PrefetchSetup {
            epoch_seconds: 5.0 / f64::from(self.scale),
            seed: self.seed,
            ..PrefetchSetup::testbed(self.frames(), idle)
        }
    }

    /// The same on disks that never read ahead.
    pub fn scattered(&self, idle: usize) -> PrefetchSetup {
        let costs = Costs { disk: DiskTimes::SCATTERED, ..Costs::TESTBED };
        PrefetchSetup { costs, ..self.setting(idle) }
    }

    /// What one program did.
    pub fn run(&self, program: &Program, setting: &PrefetchSetup) -> Result<ProgramResult, Error> {
        Ok(self.outcome(program, setting)?.programs[0])
    }

    /// The same with what nodes did.
    pub fn outcome(&self, program: &Program, setting: &PrefetchSetup) -> Result<PrefetchResult, Error> {
        Ok(simulate(std::slice::from_ref(program), setting)?)
    }

    /// What a program does where nothing is prefetched and nothing known: GMS.
    pub fn gms(&self, program: &Program, setting: &PrefetchSetup) -> Result<ProgramResult, Error> {
        let setting = PrefetchSetup { prefetching: Prefetching::NONE, ..setting.clone() };
        self.run(&program.unhinted(), &setting)
    }

    /// How long a program takes on one node without hints, in seconds.
    pub fn alone(&self, program: &Program) -> Result<f64, Error> {
        Ok(self.gms(program, &self.setting(0))?.elapsed_seconds)
    }

    pub fn render(&self) -> Program {
        Program::render(self.scale, self.seed)
    }

    /// References of one operation of Render.
    pub fn operation(&self) -> usize {
        self.render().references.len() / 3
    }
}
