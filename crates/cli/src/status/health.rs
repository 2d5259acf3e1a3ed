//! `shoal status --health`: the health check of containers and schedulers.
//!
//! It asks `/healthz` alone, which needs no user and tells one word. The certificate is not
//! checked, since no secret is sent. A node must not be ended for a certificate that has expired.

use crate::admin_client::AdminNode;
use crate::failure::Failure;
use crate::show::print;

/// Question of a health check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum HealthKind {
    /// The node accepts clients
    Ready,
    /// The node answers at all: it may be starting or stopping
    Live,
}

impl HealthKind {
    /// Asks the node, prints its word, and ends with exit code 0 or 1.
    pub fn check(self, node: &AdminNode) -> Result<(), Failure> {
        let answer = node.ask("GET", "/healthz", "");
        let (text, is_well) = match answer {
            Ok(answer) => (answer.body.trim().to_owned(), self.accepts(answer.status)),
            Err(failure) => (failure.lines().join("; "), false),
        };
        print(&format!("{text}\n"))?;
        if is_well { Ok(()) } else { Err(Failure::Checked(1)) }
    }

    /// Returns `true` if an answer of this status is healthy.
    fn accepts(self, status: u16) -> bool {
        match self {
            Self::Ready => status == 200,
            Self::Live => matches!(status, 200 | 503),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_judged_by_the_question() {
        for (status, ready, live) in [(200, true, true), (503, false, true), (404, false, false)] {
            assert_eq!((HealthKind::Ready.accepts(status), HealthKind::Live.accepts(status)), (ready, live));
        }
    }
}
