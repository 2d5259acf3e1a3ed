//! Heads on their way to the disk: of several for one response the latest stays, in whatever order they come there.
//!
//! A head replaces the one that it was made from, so that nothing comes to stand with another response's body. The jobs for two
//! heads, the second made from the first, may be done at once and the second first, which then finds neither: it would be refused, and the older
//! head would stay. So each job takes the latest head that there is for the response by then, and lets it
//! replace all those that are on their way too.

use super::super::record::{Head, Record};
use http::StatusCode;
use parking_lot::Mutex;
use shoal_core::{ObjectKey, Timestamp};
use shoal_store::{Error, Store};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// Heads that are on their way.
#[derive(Default)]
pub(super) struct Refreshes {
    ways: Mutex<HashMap<ObjectKey, Way>>,
}

/// To one response.
struct Way {
    latest: Arc<Head>,
    /// What the latest may replace.
    older: Vec<Identity>,
    /// Jobs that have not been done. As many as the pool takes.
    jobs: usize,
}

/// See [`Head::identity`].
type Identity = (Timestamp, Timestamp, StatusCode);

/// A job that brings the latest head to the disk. Its part in that ends with it, also when it is never done.
pub(super) struct Refresh {
    refreshes: Arc<Refreshes>,
    key: ObjectKey,
}

impl Refreshes {
    /// A head that is to replace another is on its way.
    pub(super) fn begin(self: &Arc<Self>, key: &ObjectKey, (old, new): (&Head, &Arc<Head>)) -> Refresh {
        match self.ways.lock().entry(key.clone()) {
            Entry::Vacant(way) => {
                way.insert(Way { latest: Arc::clone(new), older: vec![old.identity()], jobs: 1 });
            }
            Entry::Occupied(way) => way.into_mut().add(old, new),
        }
        Refresh { refreshes: Arc::clone(self), key: key.clone() }
    }
}

impl Way {
    fn add(&mut self, old: &Head, new: &Arc<Head>) {
        self.jobs += 1;
        let (from, latest) = (old.identity(), self.latest.identity());
        if from != latest && !self.older.contains(&from) {
            // Another response has taken the place.
            (self.latest, self.older) = (Arc::clone(new), vec![from]);
            return;
        }
        if new.policy.response_time() < self.latest.policy.response_time() {
            return;
        }
        if self.older.len() >= OLDER_MAX {
            self.older.remove(0);
        }
        self.older.push(latest);
        self.latest = Arc::clone(new);
    }
}

impl Refresh {
    /// Has the latest head replace what the disk has, if that is older and of the same response.
    pub(super) fn perform(&self, store: &dyn Store) -> Result<bool, Error> {
        let Some((latest, older)) = self.latest() else { return Ok(false) };
        let replaces = |stored: &[u8]| match Record::decode(stored) {
            Some(Record::Response(head)) => older.contains(&head.identity()),
            _ => false,
        };
        store.update_metadata(&self.key, &Record::Response(latest).encode(), &replaces)
    }

    fn latest(&self) -> Option<(Arc<Head>, Vec<Identity>)> {
        let ways = self.refreshes.ways.lock();
        ways.get(&self.key).map(|way| (Arc::clone(&way.latest), way.older.clone()))
    }
}

impl Drop for Refresh {
    fn drop(&mut self) {
        let mut ways = self.refreshes.ways.lock();
        let Some(way) = ways.get_mut(&self.key) else { return };
        way.jobs -= 1;
        if way.jobs == 0 {
            ways.remove(&self.key);
        }
    }
}

/// Heads that the latest may replace: one that has fallen this far behind while jobs wait is forgotten, and stays until it is validated again.
const OLDER_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::super::super::record::Names;
    use super::*;
    use http::{HeaderMap, Method};
    use shoal_semantics::Rules;
    use shoal_semantics::storage::{Exchanged, Storage, assess};
    use shoal_store::{Insert, Stored, Usage};
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    /// A disk with one response, which may hold up the first of two updates until the second has been made.
    struct OneHead {
        metadata: Mutex<Vec<u8>>,
        updates: AtomicUsize,
        turn: Option<Barrier>,
    }

    impl OneHead {
        fn new(head: &Arc<Head>, is_reordered: bool) -> Self {
            let metadata = Mutex::new(Record::Response(Arc::clone(head)).encode());
            let turn = is_reordered.then(|| Barrier::new(2));
            Self { metadata, updates: AtomicUsize::new(0), turn }
        }

        fn second(&self) -> u64 {
            let Some(Record::Response(head)) = Record::decode(&self.metadata.lock()) else {
                panic!("a head")
            };
            head.policy.response_time().millis() / 1000
        }
    }

    impl Store for OneHead {
        fn name(&self) -> &'static str {
            "one head"
        }

        fn may_contain(&self, _: &ObjectKey) -> bool {
            true
        }

        fn open(&self, _: &ObjectKey) -> Result<Option<Stored>, Error> {
            Ok(None)
        }

        fn insert(&self, _: &ObjectKey, _: &[u8], _: Option<u64>) -> Result<Box<dyn Insert>, Error> {
            Err(Error::Corrupt { part: "store without bodies" })
        }

        fn update_metadata(
            &self,
            _: &ObjectKey,
            metadata: &[u8],
            replaces: &dyn Fn(&[u8]) -> bool,
        ) -> Result<bool, Error> {
            let is_first = self.updates.fetch_add(1, SeqCst) == 0;
            let turn = self.turn.as_ref();
            if is_first {
                turn.map(Barrier::wait);
            }
            let replaced = {
                let mut stored = self.metadata.lock();
                let replaced = replaces(&stored);
                if replaced {
                    *stored = metadata.to_vec();
                }
                replaced
            };
            if !is_first {
                turn.map(Barrier::wait);
            }
            Ok(replaced)
        }

        fn remove(&self, _: &ObjectKey) -> Result<bool, Error> {
            Ok(false)
        }

        fn usage(&self) -> Usage {
            Usage::default()
        }

        fn close(&self) -> Result<(), Error> {
            Ok(())
        }
    }

    /// The response as it was when it came or was validated, so many seconds after the epoch.
    fn head(second: u64) -> Arc<Head> {
        let at = Timestamp::from_seconds(second);
        let exchanged = Exchanged {
            method: &Method::GET,
            query: None,
            request: &HeaderMap::new(),
            status: StatusCode::OK,
            response: &HeaderMap::from_iter([(
                http::header::CACHE_CONTROL,
                "max-age=60".parse().expect("a value"),
            )]),
            request_time: at,
            response_time: at,
        };
        let Storage::Store(policy) = assess(&exchanged, &Rules::default()) else { panic!("storable") };
        let names = Names { slots: Box::new([]), groups: Box::new([]), via_site: false };
        Arc::new(Head::new(StatusCode::OK, HeaderMap::new(), policy, (at, names)))
    }

    fn key() -> ObjectKey {
        ObjectKey::new(*b"http://a/")
    }

    #[test]
    fn the_second_of_two_heads_stays_when_it_comes_to_the_disk_first() {
        let (disk, refreshes) = (OneHead::new(&head(1), true), Arc::<Refreshes>::default());
        std::thread::scope(|scope| {
            let (disk, refresh) = (&disk, refreshes.begin(&key(), (&head(1), &head(2))));
            let first = scope.spawn(move || refresh.perform(disk));
            while disk.updates.load(SeqCst) == 0 {
                std::thread::yield_now();
            }
            let second = refreshes.begin(&key(), (&head(2), &head(3)));
            assert!(second.perform(disk).expect("it is there"));
            assert!(!first.join().expect("no panic").expect("it is there"), "it is older");
        });
        assert_eq!(disk.second(), 3);
        assert!(refreshes.ways.lock().is_empty());
    }

    /// What is on the disk in the end when each of these pairs was to replace, in this order, and all jobs are done afterwards,
    /// the last one first.
    fn left_by(pairs: &[(u64, u64)]) -> u64 {
        let (disk, refreshes) = (OneHead::new(&head(1), false), Arc::<Refreshes>::default());
        let begin = |(old, new): &(u64, u64)| refreshes.begin(&key(), (&head(*old), &head(*new)));
        let jobs: Vec<Refresh> = pairs.iter().map(begin).collect();
        for job in jobs.iter().rev() {
            job.perform(&disk).expect("it is there");
        }
        drop(jobs);
        assert!(refreshes.ways.lock().is_empty());
        disk.second()
    }

    #[test]
    fn the_latest_replaces_what_is_on_its_way_too() {
        assert_eq!(left_by(&[(1, 2)]), 2);
        assert_eq!(left_by(&[(1, 2), (2, 3), (3, 4)]), 4);
        assert_eq!(left_by(&[(1, 3), (1, 2)]), 3, "of two for the same the later");
        assert_eq!(left_by(&[(1, 2), (1, 3)]), 3);
        assert_eq!(left_by(&[(7, 8)]), 1, "of another response");
        assert_eq!(left_by(&[(1, 2), (7, 8)]), 1, "which has taken the place by now");
    }

    /// It bears the same times as before.
    #[test]
    fn one_that_is_to_be_validated_counts_as_later() {
        let (disk, refreshes) = (OneHead::new(&head(1), false), Arc::<Refreshes>::default());
        let invalidated = Arc::new(head(2).invalidated());
        let jobs = [
            refreshes.begin(&key(), (&head(1), &head(2))),
            refreshes.begin(&key(), (&head(2), &invalidated)),
        ];
        assert!(jobs[0].perform(&disk).expect("it is there"));
        assert!(*disk.metadata.lock() == Record::Response(invalidated).encode());
    }

    #[test]
    fn what_may_be_replaced_is_bounded() {
        let refreshes = Arc::<Refreshes>::default();
        let jobs: Vec<Refresh> =
            (1..100).map(|second| refreshes.begin(&key(), (&head(second), &head(second + 1)))).collect();
        assert_eq!(refreshes.ways.lock()[&key()].older.len(), OLDER_MAX);
        drop(jobs);
        assert!(refreshes.ways.lock().is_empty());
    }
}
