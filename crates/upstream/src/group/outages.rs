//! Log lines for an upstream that goes down or comes up: one line per change, for any number of
//! requests.

use super::UpstreamGroup;
use std::fmt::Display;
use std::time::Duration;

impl UpstreamGroup {
    /// Logs that requests to member `index` fail.
    pub(super) fn log_failing(&self, index: usize, why: &dyn Display, backoff: Duration) {
        let (site, upstream) = (&self.site, self.members[index].url());
        match self.members.len() {
            1 => {
                tracing::warn!(site, %upstream, error = %why, "an upstream is down; being the only one, it is asked all the same")
            }
            _ => {
                let error = why;
                tracing::warn!(site, %upstream, %error, left_alone = ?backoff, "an upstream is down and left alone, each time for longer until it answers");
            }
        }
    }

    /// Logs that checks of member `index` fail.
    pub(super) fn log_unhealthy(&self, index: usize, why: &str) {
        let (site, upstream) = (&self.site, self.members[index].url());
        tracing::warn!(site, %upstream, error = why, "an upstream is down and left alone until it passes its health checks");
    }

    /// Logs that member `index` is up again.
    pub(super) fn log_up(&self, index: usize, why: &str) {
        let (site, upstream) = (&self.site, self.members[index].url());
        tracing::info!(site, %upstream, "an upstream is up again: {why}");
    }
}
