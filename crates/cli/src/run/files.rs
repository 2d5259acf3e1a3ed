//! The limit on open files: each connection costs one, and each fetch another. And who may open
//! those that the process makes.

use rustix::fs::Mode;
use rustix::process::{Resource, getrlimit, setrlimit, umask};

/// Lets nobody but this user, and its group for reading, at files that this process makes from now
/// on.
pub fn keep_to_ourselves() {
    let before = umask(NOT_FOR_OTHERS);
    umask(before | NOT_FOR_OTHERS);
}

const NOT_FOR_OTHERS: Mode = Mode::WGRP.union(Mode::RWXO);

/// Raises the limit to the hard limit, and says when even that is short for so many connections and
/// tunnels.
pub fn raise_limit(connections: usize) {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current < limit.maximum {
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, "cannot raise the limit on open files");
        }
    }
    let limit = getrlimit(Resource::Nofile).current;
    let wanted = wanted(connections);
    if let Some(limit) = limit.filter(|limit| *limit < wanted) {
        tracing::warn!(
            limit,
            wanted,
            "the limit on open files is low for max_connections and upstream.tunnels: raise it (LimitNOFILE, ulimit -n), or lower those"
        );
    }
}

/// One for every client and every tunnel, and some for the store, the logs and connections to
/// origins.
fn wanted(connections: usize) -> u64 {
    (connections as u64).saturating_add(512)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_reaches_the_hard_limit() {
        raise_limit(1);
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
    }
}
