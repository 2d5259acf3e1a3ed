//! What the error log says of an upstream that goes down or comes up again: a line each, however
//! many requests meet it.

use super::UpstreamGroup;
use std::fmt::Display;
use std::time::Duration;

impl UpstreamGroup {
    /// Requests to member `index` fail.
    pub(super) fn log_failing(&self, index: usize, why: &dyn Display, backoff: Duration) {
        let (site, upstream) = (&self.site, &self.members[index].origin);
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

    /// Checks of member `index` fail.
    pub(super) fn log_unhealthy(&self, index: usize, why: &str) {
        let (site, upstream) = (&self.site, &self.members[index].origin);
        tracing::warn!(site, %upstream, error = why, "an upstream is down and left alone until it passes its health checks");
    }

    /// Member `index` is up again.
    pub(super) fn log_up(&self, index: usize, why: &str) {
        let (site, upstream) = (&self.site, &self.members[index].origin);
        tracing::info!(site, %upstream, "an upstream is up again: {why}");
    }
}
