//! Progress of long work, for people.

/// Receives the progress of long work.
pub trait Progress: Send {
    /// Begins a new part of `steps` steps.
    fn begin(&mut self, part: &str, steps: u64);

    /// Adds `steps` finished steps.
    fn done(&mut self, steps: u64);
}

/// Progress that is shown nowhere.
pub struct Silent;

impl Progress for Silent {
    fn begin(&mut self, _part: &str, _steps: u64) {}

    fn done(&mut self, _steps: u64) {}
}
