//! Limit on open files, and permissions of the files that the process creates. Each connection
//! costs one open file, and each fetch another.

use rustix::fs::Mode;
use rustix::process::{Resource, getrlimit, setrlimit, umask};

/// Restricts files that this process creates from now on: other users have no access, and the group
/// may only read.
pub fn keep_to_ourselves() {
    let before = umask(NOT_FOR_OTHERS);
    umask(before | NOT_FOR_OTHERS);
}

const NOT_FOR_OTHERS: Mode = Mode::WGRP.union(Mode::RWXO);

/// Raises the soft limit to the hard limit. Warns if even the hard limit is too low for
/// `connections` connections and tunnels.
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

/// Returns the wanted limit: one file for every client and every tunnel, and some for the store,
/// the logs and connections to origins.
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
