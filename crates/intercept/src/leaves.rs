//! Certificates of single hosts, signed when a client first asks and kept for a while.

use super::authority::{Authority, LEAF_LIFETIME};
use parking_lot::Mutex;
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Leaves by host, at most [`LEAVES_MAX`].
pub(super) struct Leaves {
    authority: Authority,
    table: Mutex<HashMap<Box<str>, Leaf>>,
}

struct Leaf {
    key: Arc<CertifiedKey>,
    /// Time from which another leaf is signed in its place.
    renewed_at: SystemTime,
}

impl Leaves {
    /// Creates an empty table.
    pub fn new(authority: Authority) -> Self {
        Self { authority, table: Mutex::default() }
    }

    /// Returns the leaf for `host`. Calls `signed` if the leaf is new. Returns `None`, and logs, if
    /// it cannot be signed.
    pub fn leaf_for(&self, host: &str, signed: &dyn Fn()) -> Option<Arc<CertifiedKey>> {
        let now = SystemTime::now();
        let held = self
            .table
            .lock()
            .get(host)
            .filter(|leaf| now < leaf.renewed_at)
            .map(|leaf| Arc::clone(&leaf.key));
        if held.is_some() {
            return held;
        }
        // Two threads may sign at once: the second leaf then stays.
        match self.authority.sign(host, now) {
            Ok(key) => {
                signed();
                let key = Arc::new(key);
                let leaf = Leaf { key: Arc::clone(&key), renewed_at: now + LEAF_LIFETIME - RENEWED_BEFORE };
                self.keep(host, leaf);
                Some(key)
            }
            Err(error) => {
                tracing::error!(host, %error, "no certificate for an intercepted host");
                None
            }
        }
    }

    /// Keeps a leaf. A full table loses the leaf that is the nearest to its end.
    fn keep(&self, host: &str, leaf: Leaf) {
        let mut table = self.table.lock();
        if table.len() >= LEAVES_MAX && !table.contains_key(host) {
            let oldest = table.iter().min_by_key(|(_, leaf)| leaf.renewed_at).map(|(host, _)| host.clone());
            oldest.and_then(|oldest| table.remove(&oldest));
        }
        table.insert(host.into(), leaf);
        debug_assert!(table.len() <= LEAVES_MAX, "one goes for each that comes");
    }
}

/// Most leaves kept.
const LEAVES_MAX: usize = 1024;

/// Time before its end at which a leaf is signed anew.
const RENEWED_BEFORE: Duration = Duration::from_secs(86_400);

const _: () = assert!(RENEWED_BEFORE.as_secs() < LEAF_LIFETIME.as_secs());

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn table_of_leaves_is_bounded() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ca");
        super::super::authority::create(&path, &["*.a.test".to_owned()]).expect("an authority");
        let leaves = Leaves::new(Authority::load(&path).expect("the authority"));
        let signed = Cell::new(0);
        let count = || signed.set(signed.get() + 1);
        for number in 0..=LEAVES_MAX {
            assert!(leaves.leaf_for(&format!("{number}.a.test"), &count).is_some());
        }
        assert_eq!((leaves.table.lock().len(), signed.get()), (LEAVES_MAX, LEAVES_MAX + 1));
        leaves.leaf_for(&format!("{LEAVES_MAX}.a.test"), &count);
        assert_eq!(signed.get(), LEAVES_MAX + 1, "the last one is kept");
        leaves.leaf_for("0.a.test", &count);
        assert_eq!(signed.get(), LEAVES_MAX + 2, "the first one is gone");
    }
}
