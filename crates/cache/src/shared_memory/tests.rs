//! Objects travel only if all clients may have them, and a page is its object or nothing.

use super::*;
use crate::identity::Identity;
use crate::invalidations::Invalidations;
use crate::metadata::{Provenance, ResponseMetadata, ResponseScope};
use crate::purge_table::Sequence;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use parking_lot::Mutex;
use shoal_semantics::CacheRules;
use shoal_semantics::storage::{ForwardedExchange, StorageDecision, may_store};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Other node that keeps all pages.
#[derive(Default)]
struct Elsewhere {
    turns: AtomicU64,
    pages: Mutex<HashMap<Key, Bytes>>,
    ended: Mutex<Vec<Key>>,
    evicted: Mutex<Vec<EvictedObject>>,
    /// Invalidations that each page meets when it leaves the directory.
    purges: Mutex<Option<Arc<Invalidations>>>,
}

impl SharedMemory for Elsewhere {
    fn begin(&self, _: Key) -> u64 {
        self.turns.fetch_add(1, Relaxed) + 1
    }

    fn end(&self, key: Key) {
        self.ended.lock().push(key);
        self.pages.lock().remove(&key);
    }

    fn evicted(&self, object: EvictedObject) {
        self.evicted.lock().push(object);
    }

    fn find(&self, key: &ObjectKey, _: bool, _: Urgency) -> Option<PlacedPage> {
        let page = self.pages.lock().remove(&key.hash())?;
        self.purges.lock().iter().for_each(|purges| purges.mark(key));
        Some(PlacedPage { bytes: page.len() as u64, bring: Box::pin(async move { Some(page) }) })
    }

    fn disk_took(&self, _: Duration) {}
}

fn head(request: &[(&'static str, &'static str)], control: &'static str) -> Option<ObjectMetadata> {
    let fields = |list: &[(&'static str, &'static str)]| {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        HeaderMap::from_iter(list.iter().map(pair))
    };
    let response = fields(&[("cache-control", control), ("etag", "\"1\"")]);
    let now = crate::clock::now();
    let exchange = ForwardedExchange {
        method: &Method::GET,
        query: None,
        request: &fields(request),
        status: StatusCode::OK,
        response: &response,
        request_time: now,
        response_time: now,
    };
    let StorageDecision::Store(policy) = may_store(&exchange, &CacheRules::default()) else { return None };
    let names = ResponseScope { slots: Box::new([]), groups: Box::new([]), via_site: true };
    let origin = Provenance { requested: Sequence::new(10), names, identity: Identity::unique() };
    Some(ObjectMetadata::Response(Arc::new(ResponseMetadata::new(StatusCode::OK, response, policy, origin))))
}

fn fresh() -> ObjectMetadata {
    head(&[], "max-age=600").expect("it may be stored")
}

/// A cache of 1 MiB of RAM without a disk.
fn cache() -> (Arc<HybridCache>, Arc<Elsewhere>) {
    let cache = HybridCache::in_ram(1 << 18);
    let elsewhere = Arc::<Elsewhere>::default();
    cache.share_memory(&(Arc::clone(&elsewhere) as Arc<dyn SharedMemory>));
    (Arc::new(cache), elsewhere)
}

fn key(number: u32) -> ObjectKey {
    ObjectKey::new(format!("http://a.test/{number}").into_bytes())
}

fn keep(cache: &HybridCache, key: &ObjectKey, record: &ObjectMetadata, length: usize) {
    let validity = Invalidations::new().snapshot(key);
    let body = Bytes::from(vec![7; length]);
    assert!(cache.insert_memory(key, record, body.into(), &validity).is_some());
}

/// Returns the object in RAM as one that may travel.
fn travels(cache: &HybridCache, key: &ObjectKey) -> Option<EvictedObject> {
    EvictedObject::of(&cache.memory_entry(key).expect("it is there"))
}

#[tokio::test]
async fn evicted_object_comes_back_from_its_page() {
    let (cache, elsewhere) = cache();
    (0..200).for_each(|number| keep(&cache, &key(number), &fresh(), 20_000));
    let evicted = std::mem::take(&mut *elsewhere.evicted.lock());
    assert!(evicted.len() > 100, "most have left RAM: {}", evicted.len());
    let object = &evicted[0];
    assert!(object.is_fresh() && object.weight() >= 20_000 && object.age() < Duration::from_secs(60));
    let page = Bytes::from(object.page());
    elsewhere.pages.lock().insert(object.key(), page.clone());
    let wanted = (0..200).map(key).find(|key| key.hash() == object.key()).expect("one of them");
    let validity = Invalidations::new();
    let found =
        cache.find((&wanted, Urgency::Demand), || validity.snapshot(&wanted)).await.expect("it comes back");
    assert_eq!(found.body.length(), 20_000);
    assert!(cache.memory_entry(&wanted).is_some(), "it is in RAM again");
    for end in 0..page.len().min(400) {
        assert!(read_page(&wanted, &page.slice(..end)).is_none_or(|(_, body)| body.len() < 20_000));
    }
    assert!(read_page(&key(4711), &page).is_none(), "it is another object's");
    cache.pools().for_each(|pool| pool.close());
}

#[tokio::test]
async fn purged_object_does_not_come_back() {
    let (cache, elsewhere) = cache();
    keep(&cache, &key(1), &fresh(), 100);
    let page = travels(&cache, &key(1)).expect("it may travel").page();
    elsewhere.pages.lock().insert(key(1).hash(), page.clone().into());
    cache.remove(&key(1)).await;
    assert_eq!(*elsewhere.ended.lock(), [key(1).hash()]);
    // A page that comes while its URL is invalidated is no object either.
    elsewhere.pages.lock().insert(key(1).hash(), page.into());
    let invalidations = Invalidations::new();
    let begin = || {
        let validity = invalidations.snapshot(&key(1));
        invalidations.mark(&key(1));
        validity
    };
    assert!(cache.find((&key(1), Urgency::Demand), begin).await.is_none());
    assert!(cache.memory_entry(&key(1)).is_none());
    cache.pools().for_each(|pool| pool.close());
}

#[tokio::test]
async fn purge_of_a_page_that_leaves_the_directory_is_seen() {
    let (cache, elsewhere) = cache();
    keep(&cache, &key(1), &fresh(), 100);
    let page = travels(&cache, &key(1)).expect("it may travel").page();
    cache.remove(&key(1)).await;
    elsewhere.pages.lock().insert(key(1).hash(), page.into());
    let invalidations = Arc::new(Invalidations::new());
    *elsewhere.purges.lock() = Some(Arc::clone(&invalidations));
    // The validity begins before the page is taken, so that the purge is later.
    assert!(cache.find((&key(1), Urgency::Demand), || invalidations.snapshot(&key(1))).await.is_none());
    assert!(elsewhere.pages.lock().is_empty() && cache.memory_entry(&key(1)).is_none());
    cache.pools().for_each(|pool| pool.close());
}

#[test]
fn responses_for_one_client_stay() {
    let (cache, _) = cache();
    assert!(head(&[], "private, max-age=600").is_none(), "nothing private is stored at all");
    let authorized = head(&[("authorization", "x")], "public, max-age=600").expect("it may be stored");
    let validated = head(&[], "no-cache").expect("it may be stored");
    for (number, record) in [(1, &authorized), (2, &validated)] {
        keep(&cache, &key(number), record, 100);
        assert!(travels(&cache, &key(number)).is_none(), "{number}");
    }
    let forward = |url: &str| ObjectKey::new([url.as_bytes(), FORWARD].concat());
    for (key, may_travel) in [
        (forward("http://a.test/"), true),
        (forward("https://a.test/"), false),
        (ObjectKey::new(b"https://a.test/".to_vec()), true),
        (ObjectKey::new(b"http://a.test/\0variant".to_vec()), false),
    ] {
        keep(&cache, &key, &fresh(), 100);
        assert_eq!(travels(&cache, &key).is_some(), may_travel, "{:?}", key.full());
    }
    keep(&cache, &key(3), &fresh(), 0);
    assert!(travels(&cache, &key(3)).is_none(), "without a body there is nothing to gain");
    cache.pools().for_each(|pool| pool.close());
}

/// Holder of bytes, and their charges.
struct Holder(AtomicU64, Mutex<Vec<GuestCharge>>);

impl GuestHolder for Holder {
    fn held_bytes(&self) -> u64 {
        self.0.load(Relaxed)
    }

    fn give_up(&self, bytes: u64) -> u64 {
        let mut given = 0;
        while given < bytes && self.1.lock().pop().is_some() {
            self.0.fetch_sub(10_000, Relaxed);
            given += 10_000;
        }
        given
    }
}

#[test]
fn own_objects_take_the_room_of_guests_first() {
    let (cache, elsewhere) = cache();
    let (room, holder) = (cache.guest_room(), Arc::new(Holder(AtomicU64::new(0), Mutex::default())));
    let weak: Weak<Holder> = Arc::downgrade(&holder);
    let _registration = room.register(weak);
    while let Some(charge) = room.charge(10_000, false) {
        holder.1.lock().push(charge);
        holder.0.fetch_add(10_000, Relaxed);
    }
    let (limit, free, own) = room.usage();
    assert!(limit == 1 << 20 && free < 10_000 && own == 0);
    (0..20).for_each(|number| keep(&cache, &key(number), &fresh(), 20_000));
    assert!(elsewhere.evicted.lock().is_empty(), "no own object had to go");
    assert!((0..20).all(|number| room.is_in_ram(key(number).hash())));
    assert!(cache.ledger().used() <= 1 << 20, "the limit holds");
    holder.1.lock().clear();
    holder.0.store(0, Relaxed);
    let _others = room.charge(room.usage().1, false).expect("it is free");
    assert!(room.charge(1 << 18, false).is_none(), "nothing is free");
    assert!(room.charge(1 << 18, true).is_some(), "own objects make room");
    assert!(!elsewhere.evicted.lock().is_empty());
    cache.pools().for_each(|pool| pool.close());
}
