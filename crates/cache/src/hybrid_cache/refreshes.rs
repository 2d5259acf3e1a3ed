//! Renewed heads of stored responses: in RAM at once, and on their way to the disk.
//!
//! A head replaces only an earlier head of the same response. No head is therefore combined with
//! another's body, and jobs may reach the disk in any order. A job takes the response's latest head
//! at that time: at most one job waits per response.

use super::super::invalidations::ValiditySnapshot;
use super::super::metadata::{ObjectMetadata, ResponseMetadata};
use super::{HybridCache, MemoryEntry};
use crate::io_pool::JobKind;
use parking_lot::Mutex;
use shoal_core::ObjectKey;
use shoal_store::{Error, Store};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Result of renewing a head in RAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The renewed head is in RAM.
    Kept,
    /// RAM has a later head of the same response.
    Outrun,
    /// The response is not in RAM, or no longer valid.
    Absent,
}

/// Time within which the disk must get a renewed head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// As soon as possible.
    AtOnce,
    /// Within a second: each request renews the response.
    Soon,
}

/// Heads that wait for a job to take them to the disk.
#[derive(Default)]
pub(super) struct PendingHeadUpdates {
    waiting: Mutex<HashMap<Place, Arc<ResponseMetadata>>>,
}

/// A response: its key and its number.
type Place = (ObjectKey, u64);

/// A job that writes the latest head of a response to the disk.
pub(super) struct HeadUpdateJob {
    refreshes: Arc<PendingHeadUpdates>,
    place: Place,
    is_taken: bool,
}

impl HybridCache {
    /// Replaces the head of a stored response, in RAM and on disk.
    pub async fn refresh(
        self: &Arc<Self>,
        key: &ObjectKey,
        head: &Arc<ResponseMetadata>,
        validity: &ValiditySnapshot,
    ) {
        if self.refresh_in_memory(key, head, validity) != Renewal::Outrun {
            self.refresh_on_disk(key, head, Pace::AtOnce).await;
        }
    }

    /// Replaces the head of a response in RAM.
    pub fn refresh_in_memory(
        &self,
        key: &ObjectKey,
        head: &Arc<ResponseMetadata>,
        validity: &ValiditySnapshot,
    ) -> Renewal {
        // The body may have moved meanwhile, or the head been replaced; both are rare.
        let outcome = (0..RENEWALS_MAX).find_map(|_| self.refresh_where_it_is(key, head, validity));
        self.note_stored(key, &ObjectMetadata::Response(Arc::clone(head)));
        outcome.unwrap_or(Renewal::Absent)
    }

    /// Replaces the head at the body's current place. Returns `None` if the entry changed
    /// meanwhile, or is no longer valid.
    fn refresh_where_it_is(
        &self,
        key: &ObjectKey,
        head: &Arc<ResponseMetadata>,
        validity: &ValiditySnapshot,
    ) -> Option<Renewal> {
        let is_one = |it: &MemoryEntry| {
            it.key == *key && it.record.head().is_some_and(|own| own.is_of_same_response(head))
        };
        let Some(before) = self.memory.peek(key.hash()).filter(|before| is_one(before)) else {
            return Some(Renewal::Absent);
        };
        if !before.record.head().is_some_and(|own| head.is_later_than(own)) {
            return Some(Renewal::Outrun);
        }
        let resident = self.entry(key, ObjectMetadata::Response(Arc::clone(head)), before.body.clone());
        resident.is_settled.store(self.disk.is_none() || self.on_disk(key), Relaxed);
        let weight = resident.weight();
        // The replaced body leaves the account, so it must be this one.
        let place = before.body.as_ptr().addr();
        let is_before = |now: &MemoryEntry| {
            now.is_same(&before) && now.body.as_ptr().addr() == place && validity.is_unchanged()
        };
        let kept = self.memory.replace_if(key.hash(), Arc::new(resident), weight, is_before);
        kept.then_some(Renewal::Kept)
    }

    /// Replaces the head of a response on disk, unless another response has taken its place.
    pub async fn refresh_on_disk(
        self: &Arc<Self>,
        key: &ObjectKey,
        head: &Arc<ResponseMetadata>,
        pace: Pace,
    ) {
        if !self.disk.as_ref().is_some_and(|disk| disk.may_contain(key)) {
            return;
        }
        // A waiting job takes this head along.
        let Some(refresh) = self.refreshes.begin(key, head) else { return };
        if pace == Pace::AtOnce || self.refreshes.waiting.lock().len() > SLEEPERS_MAX {
            return self.perform(refresh).await;
        }
        let objects = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(SOON).await;
            objects.perform(refresh).await;
        });
    }

    async fn perform(&self, refresh: HeadUpdateJob) {
        let Some(store) = self.disk.clone() else { return };
        let key = refresh.place.0.clone();
        let lane = store.disk_index(key.hash());
        let update = move || refresh.perform(&*store);
        if self.run((lane, JobKind::Change), update).await.is_none() {
            // an outdated record on disk would be validated again, which is safe: nothing more to
            // do
            tracing::debug!(?key, "metadata on disk stays as it was");
        }
    }
}

impl PendingHeadUpdates {
    /// Returns the job for a head that goes to the disk, unless a waiting job will take it.
    pub(super) fn begin(
        self: &Arc<Self>,
        key: &ObjectKey,
        head: &Arc<ResponseMetadata>,
    ) -> Option<HeadUpdateJob> {
        let place = (key.clone(), head.identity.response());
        match self.waiting.lock().entry(place.clone()) {
            Entry::Vacant(free) => {
                debug_assert_eq!(place.1, head.identity.response());
                free.insert(Arc::clone(head));
                Some(HeadUpdateJob { refreshes: Arc::clone(self), place, is_taken: false })
            }
            Entry::Occupied(mut taken) => {
                if head.is_later_than(taken.get()) {
                    taken.insert(Arc::clone(head));
                }
                None
            }
        }
    }
}

impl HeadUpdateJob {
    /// Replaces the head on disk by the latest one, if the disk's head is earlier and of the same
    /// response.
    pub(super) fn perform(mut self, store: &dyn Store) -> Result<bool, Error> {
        let Some(latest) = self.take() else { return Ok(false) };
        let replaces = |stored: &[u8]| match ObjectMetadata::decode(stored) {
            Some(ObjectMetadata::Response(head)) => latest.is_later_than(&head),
            _ => false,
        };
        store.update_metadata(
            &self.place.0,
            &ObjectMetadata::Response(Arc::clone(&latest)).encode(),
            &replaces,
        )
    }

    /// Takes the latest head. Later heads start another job from now on.
    fn take(&mut self) -> Option<Arc<ResponseMetadata>> {
        match std::mem::replace(&mut self.is_taken, true) {
            true => None,
            false => self.refreshes.waiting.lock().remove(&self.place),
        }
    }
}

/// Dropping an unfinished job removes its entry, so that later heads get a new job.
impl Drop for HeadUpdateJob {
    fn drop(&mut self) {
        self.take();
    }
}

/// Interval at which a response that each request renews is written to the disk.
const SOON: Duration = Duration::from_secs(1);

/// Maximum jobs that wait for this interval at once.
const SLEEPERS_MAX: usize = 1024;

/// Maximum attempts to renew a head at the response's current place.
const RENEWALS_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::super::super::identity::Identity;
    use super::super::super::metadata::{Provenance, ResponseScope};
    use super::super::super::purge_table::Sequence;
    use super::*;
    use http::{HeaderMap, Method, StatusCode};
    use shoal_core::Timestamp;
    use shoal_semantics::CacheRules;
    use shoal_semantics::storage::{ForwardedExchange, StorageDecision, may_store};
    use shoal_store::{Insert, OpenObject, PromptStore, StoreUpkeep, StoreView, Usage};
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    /// A disk with one response. It may delay the first of two updates until the second has been
    /// made.
    struct OneHead {
        metadata: Mutex<Vec<u8>>,
        updates: AtomicUsize,
        turn: Option<Barrier>,
    }

    impl OneHead {
        fn new(head: &Arc<ResponseMetadata>, is_reordered: bool) -> Self {
            let metadata = Mutex::new(ObjectMetadata::Response(Arc::clone(head)).encode());
            let turn = is_reordered.then(|| Barrier::new(2));
            Self { metadata, updates: AtomicUsize::new(0), turn }
        }

        fn second(&self) -> u64 {
            let Some(ObjectMetadata::Response(head)) = ObjectMetadata::decode(&self.metadata.lock()) else {
                panic!("a head")
            };
            head.policy.response_time().millis() / 1000
        }
    }

    impl Store for OneHead {
        fn open(&self, _: &ObjectKey) -> Result<Option<OpenObject>, Error> {
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

        fn close(&self) -> Result<(), Error> {
            Ok(())
        }
    }

    impl PromptStore for OneHead {}

    impl StoreView for OneHead {
        fn name(&self) -> &'static str {
            "one head"
        }

        fn may_contain(&self, _: &ObjectKey) -> bool {
            true
        }

        fn usage(&self) -> Usage {
            Usage::default()
        }
    }

    impl StoreUpkeep for OneHead {}

    impl shoal_store::Peek for OneHead {
        fn peek(&self, _: &ObjectKey) -> Result<Option<shoal_store::ObjectSummary>, Error> {
            Ok(None)
        }
    }

    /// Returns heads of one response: the original, and its renewals a second apart.
    fn heads(count: usize) -> Vec<Arc<ResponseMetadata>> {
        let mut identity = Identity::unique();
        let each = |second| {
            let head = head(Timestamp::from_seconds(second), identity);
            identity = identity.renewed();
            head
        };
        (1..=count as u64).map(each).collect()
    }

    fn head(at: Timestamp, identity: Identity) -> Arc<ResponseMetadata> {
        let exchanged = ForwardedExchange {
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
        let StorageDecision::Store(policy) = may_store(&exchanged, &CacheRules::default()) else {
            panic!("storable")
        };
        let names = ResponseScope { slots: Box::new([]), groups: Box::new([]), via_site: false };
        let origin = Provenance { requested: Sequence::new(10), names, identity };
        Arc::new(ResponseMetadata::new(StatusCode::OK, HeaderMap::new(), policy, origin))
    }

    fn key() -> ObjectKey {
        ObjectKey::new(*b"http://a/")
    }

    #[test]
    fn later_head_survives_reordered_updates() {
        let heads = heads(3);
        let (disk, refreshes) = (OneHead::new(&heads[0], true), Arc::<PendingHeadUpdates>::default());
        std::thread::scope(|scope| {
            let (disk, refresh) = (&disk, refreshes.begin(&key(), &heads[1]).expect("none waits"));
            let first = scope.spawn(move || refresh.perform(disk));
            while disk.updates.load(SeqCst) == 0 {
                std::thread::yield_now();
            }
            let second = refreshes.begin(&key(), &heads[2]).expect("the first is under way");
            assert!(second.perform(disk).expect("it is there"));
            assert!(!first.join().expect("no panic").expect("it is there"), "it is older");
        });
        assert_eq!(disk.second(), 3);
        assert!(refreshes.waiting.lock().is_empty());
    }

    #[test]
    fn waiting_job_writes_latest_head() {
        let heads = heads(100);
        let (disk, refreshes) = (OneHead::new(&heads[0], false), Arc::<PendingHeadUpdates>::default());
        let job = refreshes.begin(&key(), &heads[1]).expect("none waits");
        for head in heads[2..].iter().rev() {
            assert!(refreshes.begin(&key(), head).is_none(), "one waits");
        }
        assert!(job.perform(&disk).expect("it is there"));
        assert_eq!((disk.second(), disk.updates.load(SeqCst)), (100, 1));
    }

    /// This holds even if both responses came at one moment, with one status.
    #[test]
    fn heads_of_another_response_stay_away() {
        let at = Timestamp::from_seconds(1);
        let [stored, other] = [Identity::unique(), Identity::unique()].map(|identity| head(at, identity));
        let (disk, refreshes) = (OneHead::new(&stored, false), Arc::<PendingHeadUpdates>::default());
        let jobs = [&other, &stored].map(|old| {
            let renewed = head(Timestamp::from_seconds(2), old.identity.renewed());
            refreshes.begin(&key(), &renewed).expect("none waits of this response")
        });
        let done = jobs.map(|job| job.perform(&disk).expect("it is there"));
        assert_eq!((done, disk.second()), ([false, true], 2));
    }

    /// The invalidated head has the same times as before.
    #[test]
    fn one_that_is_to_be_validated_counts_as_later() {
        let heads = heads(2);
        let (disk, refreshes) = (OneHead::new(&heads[0], false), Arc::<PendingHeadUpdates>::default());
        let invalidated = Arc::new(heads[1].invalidated());
        let job = refreshes.begin(&key(), &heads[1]).expect("none waits");
        assert!(refreshes.begin(&key(), &invalidated).is_none(), "one waits");
        assert!(job.perform(&disk).expect("it is there"));
        assert!(*disk.metadata.lock() == ObjectMetadata::Response(invalidated).encode());
    }

    #[test]
    fn job_that_is_never_done_is_not_waited_for() {
        let heads = heads(3);
        let refreshes = Arc::<PendingHeadUpdates>::default();
        drop(refreshes.begin(&key(), &heads[1]).expect("none waits"));
        assert!(refreshes.waiting.lock().is_empty());
        assert!(refreshes.begin(&key(), &heads[2]).is_some());
    }
}
