//! Threads and kept connections: which thread may use a connection that another one opened.
//!
//! A connection's readiness is told to the thread that opened it. If another thread uses it, each
//! piece of a body wakes both.

/// Use of the connections that other threads opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThreadUse {
    /// Any thread uses them before it opens a new one, so that an origin has few connections.
    Shared,
    /// A thread leaves those of others alone while few are kept. Between nodes they are cheap.
    Apart,
}

impl ThreadUse {
    /// Returns `true` if a thread may use another's connection when `parked` are kept.
    pub(super) fn allows(self, parked: usize) -> bool {
        self == Self::Shared || parked >= APART_MAX
    }
}

/// Kept connections from which on threads share them all the same.
const APART_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_apart_share_when_many_are_kept() {
        let allowed = |sharing: ThreadUse| [0, APART_MAX - 1, APART_MAX].map(|kept| sharing.allows(kept));
        assert_eq!(allowed(ThreadUse::Shared), [true; 3]);
        assert_eq!(allowed(ThreadUse::Apart), [false, false, true]);
    }
}
