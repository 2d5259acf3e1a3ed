//! Outcomes of runs by name, on the modelled machine and on a real disk.

pub use shoal_lab::machine_runs::RunResult;

/// Runs under their names, on the modelled machine and, where measured, on a real disk.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcomes {
    /// Runs on the modelled machine.
    pub modelled: Vec<RunResult>,
    /// Runs on a real disk.
    pub real: Vec<RunResult>,
}

impl Outcomes {
    /// Returns a quantity on both machines, from the runs of these names; `None` where a run is
    /// missing.
    pub fn of<const N: usize>(
        &self,
        names: [&str; N],
        quantity: impl Fn([&RunResult; N]) -> Option<f64>,
    ) -> [Option<f64>; 2] {
        [&self.modelled, &self.real].map(|outcomes| {
            let found = names.map(|name| outcomes.iter().find(|outcome| outcome.name == name));
            if found.iter().any(Option::is_none) {
                return None;
            }
            quantity(found.map(|outcome| outcome.expect("none is missing, as just checked")))
        })
    }
}
