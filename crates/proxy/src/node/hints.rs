//! Hints for a node: lists come from the operator, and are worked on by the first worker.

use super::Node;
use crate::admin::HintsFailure;
use crate::exchange::prefetch::{self, HintLines, HintSource, HintsReport, PrefetchStatus};

impl Node {
    /// Takes a list of requests that clients will make soon.
    ///
    /// # Errors
    /// If the node takes no lists, or no more of them now.
    pub fn take_hints(&self, lines: HintLines) -> Result<HintsReport, HintsFailure> {
        let runtime = self.first_worker().ok_or(HintsFailure::Starting)?;
        let _entered = runtime.enter();
        prefetch::take_list(&self.exchange, lines, HintSource::List).map_err(HintsFailure::Refused)
    }

    /// Returns the state of prefetching.
    pub fn prefetch_status(&self) -> PrefetchStatus {
        prefetch::status(&self.exchange)
    }
}
