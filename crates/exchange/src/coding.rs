//! Compression of text for clients: the choice among a response's forms, and their making.
//!
//! ```text
//!   hit ─► may it be coded? ─► does the client take a coding? ─┬─ it exists ─► coded form
//!                                                              └─ it lacks ──► as stored; counted
//!   counted often enough ─► a task of its own: found on disk, or made by the thread ─► stored
//! ```
//!
//! The form as stored is right for every client, so a failure here costs bytes alone. A client that
//! has one form keeps it: If-None-Match may name any of them. A range is one of the stored form,
//! unless If-Range names the tag of a coded one.

mod encode;
mod rules;
mod thread;

pub(super) use rules::CompressRules;

use super::cache::Cache;
use super::fast_path::FreshHit;
use super::lookup::StoredResponse;
use super::metadata::{ObjectMetadata, Provenance, ResponseMetadata};
use super::request::RequestContext;
use super::settings::ExchangeSettings;
use crate::clock;
use crate::hybrid_cache::{CachedBody, CachedObject, MemoryEntry};
use crate::message::HitFields;
use crate::metrics::Metrics;
use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, ETAG, IF_RANGE, RANGE};
use http::{HeaderMap, HeaderName, HeaderValue};
use shoal_cache::coded::coded_key;
use shoal_cache::io_pool::JobKind;
use shoal_core::{Fields, ObjectKey, Timestamp};
use shoal_semantics::validation::{self, Condition};
use shoal_semantics::{AcceptedCodings, Coding, EntityTag};
use shoal_wire::FastPathRequest;
use std::cell::RefCell;
use std::sync::Arc;
use thread::{CodingThread, Unmade};
use tokio::sync::Semaphore;
use xxhash_rust::xxh3::xxh3_64;

/// Chooses among the forms of responses, and has coded forms made.
pub(super) struct Coder {
    cache: Arc<Cache>,
    metrics: Arc<Metrics>,
    thread: CodingThread,
    /// Forms being made.
    places: Arc<Semaphore>,
}

impl Coder {
    pub(super) fn new(cache: &Arc<Cache>, metrics: &Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self {
            cache: Arc::clone(cache),
            metrics: Arc::clone(metrics),
            thread: CodingThread::default(),
            places: Arc::new(Semaphore::new(thread::JOBS_MAX)),
        })
    }

    /// Returns the form of a hit in RAM that the request gets, and the fields that go with it.
    /// Returns `None` if the form is not in RAM.
    #[inline]
    pub(super) fn choose<'l>(
        self: &Arc<Self>,
        live: &'l ExchangeSettings,
        plain: &FastPathRequest<'_>,
        found: FreshHit<'l>,
        now: Timestamp,
    ) -> Option<(FreshHit<'l>, &'l HitFields)> {
        let Some(rules) = live.compress.as_ref().filter(|_| found.may_be_coded) else {
            return Some((found, &live.hit_fields));
        };
        self.choose_by(rules, live, plain, found, now)
    }

    fn choose_by<'l>(
        self: &Arc<Self>,
        rules: &CompressRules,
        live: &'l ExchangeSettings,
        plain: &FastPathRequest<'_>,
        found: FreshHit<'l>,
        now: Timestamp,
    ) -> Option<(FreshHit<'l>, &'l HitFields)> {
        let FreshHit { resident, .. } = &found;
        debug_assert!(found.source.is_none(), "derived forms have no coded ones");
        let ObjectMetadata::Response(head) = &resident.record else {
            return Some((found, &live.hit_fields));
        };
        let may_be_coded = || rules.are_for(head, resident.body.len() as u64);
        let Some(existing) = resident.coded.of(live.rules_number, may_be_coded) else {
            return Some((found, &live.hit_fields));
        };
        let own = &live.varying_hit_fields;
        let field = plain.accept_encoding.filter(|_| plain.range.is_none());
        let has_it = || !plain.conditions.is_empty() && has_stored_form(&plain.conditions, head, now);
        let Some(field) = field.filter(|_| !has_it()) else { return Some((found, own)) };
        let accepted = accepted(field);
        let Some(wanted) = accepted.best(rules.order()) else { return Some((found, own)) };
        let coding = match existing.has(wanted) {
            true => Some(wanted),
            false => {
                self.count_wanted(rules, wanted, resident);
                accepted.best(rules.order().filter(|coding| existing.has(*coding)))
            }
        };
        let Some(coding) = coding else { return Some((found, own)) };
        let coded = self.cache.objects.memory_entry(resident.coded.key(resident.key(), coding));
        let resident = coded.filter(|coded| is_form_of(&coded.record, head))?;
        Some((FreshHit { resident, ..found }, &live.coded_hit_fields[coding as usize]))
    }

    /// Returns the form of a stored response that the request gets.
    pub(super) async fn form_for(
        self: &Arc<Self>,
        ask: &RequestContext,
        key: &ObjectKey,
        stored: StoredResponse,
    ) -> StoredResponse {
        let is_for_client = ask.site.is_some() && ask.mirror.is_none() && !ask.is_for_peer;
        let Some(rules) = ask.live.compress.as_ref().filter(|_| is_for_client) else { return stored };
        let is_head = |entry: &Arc<MemoryEntry>| {
            entry.record.head().is_some_and(|head| Arc::ptr_eq(head, &stored.head))
        };
        let Some(entry) = self.cache.objects.entry_in_memory(key).filter(is_head) else { return stored };
        let may_be_coded = || rules.are_for(&stored.head, entry.body.len() as u64);
        let Some(existing) = entry.coded.of(ask.live.rules_number, may_be_coded) else { return stored };
        let stored = StoredResponse { choice: Some(FormChoice::Stored), ..stored };
        let resumes = ask.fields.has(&RANGE);
        if (resumes && if_range_tag(ask).is_none())
            || has_stored_form(&ask.fields, &stored.head, clock::now())
        {
            return stored;
        }
        let accepted = AcceptedCodings::of(ask.fields.values(&ACCEPT_ENCODING));
        if let Some(wanted) = accepted.best(rules.order()).filter(|wanted| !existing.has(*wanted)) {
            self.count_wanted(rules, wanted, &entry);
        }
        let Some(coding) = accepted.best(rules.order().filter(|coding| existing.has(*coding))) else {
            return stored;
        };
        let coded = self.cache.find(&coded_key(key, coding), &ask.primary).await;
        match coded {
            Some(CachedObject { record, body, in_memory }) if is_form_of(&record, &stored.head) => {
                let ObjectMetadata::Response(head) = record else { return stored };
                let is_resumed = || if_range_tag(ask).zip(EntityTag::of(&*head.stored));
                if resumes && !is_resumed().is_some_and(|(asked, held)| asked.matches_strongly(held)) {
                    return stored;
                }
                let choice = Some(FormChoice::Coded(coding));
                StoredResponse { head, body, in_memory: in_memory && stored.in_memory, choice }
            }
            _ => {
                entry.coded.lacks(coding);
                stored
            }
        }
    }

    /// Counts a request for a coding that does not exist. The request that is enough has it made.
    fn count_wanted(self: &Arc<Self>, rules: &CompressRules, wanted: Coding, resident: &Arc<MemoryEntry>) {
        if resident.coded.wants(rules.after_hits) {
            self.make_later(resident, wanted);
        }
    }

    /// Makes the coded form in a task of its own, if there is a place.
    fn make_later(self: &Arc<Self>, resident: &Arc<MemoryEntry>, coding: Coding) {
        let place = Arc::clone(&self.places).try_acquire_owned();
        let (Ok(place), Ok(runtime)) = (place, tokio::runtime::Handle::try_current()) else {
            self.metrics.compress_refused.increment();
            return resident.coded.end(None);
        };
        let (coder, resident) = (Arc::clone(self), Arc::clone(resident));
        runtime.spawn(async move {
            let made = coder.make(&resident, coding).await;
            match made {
                Ok(is_stored) => resident.coded.end(is_stored.then_some(coding)),
                Err(Unmade::NotSmaller) => {
                    coder.metrics.compress_declined.increment();
                    resident.coded.refuse();
                }
                Err(Unmade::Refused) => {
                    coder.metrics.compress_refused.increment();
                    resident.coded.end(None);
                }
            }
            drop(place);
        });
    }

    /// Makes the coded form, or finds it on disk. Returns `true` if it is stored.
    async fn make(&self, resident: &Arc<MemoryEntry>, coding: Coding) -> Result<bool, Unmade> {
        let ObjectMetadata::Response(head) = &resident.record else { return Ok(false) };
        let objects = &self.cache.objects;
        let primary = primary_key(resident.key());
        let validity = self.cache.invalidations.snapshot(&primary);
        let key = coded_key(resident.key(), coding);
        let body = match self.cache.find(&key, &primary).await {
            Some(found) if is_form_of(&found.record, head) => return Ok(true),
            // The response has been validated since: its head is another, its body is not.
            Some(CachedObject {
                record: ObjectMetadata::Response(old),
                body: CachedBody::Memory(body),
                ..
            }) if old.is_of_same_response(head) => body,
            _ => {
                let CachedBody::Memory(stored) = objects.hold(resident) else { return Err(Unmade::Refused) };
                let length = stored.len() as u64;
                let coded = self.thread.encode(coding, stored).await?;
                self.metrics.compress_made.increment();
                self.metrics.compress_in.add(length);
                self.metrics.compress_out.add(coded.len() as u64);
                Bytes::from(coded)
            }
        };
        debug_assert!(body.len() < resident.body.len(), "a form that is no smaller is not kept");
        if self.cache.is_purged(head) {
            return Ok(false);
        }
        let record = ObjectMetadata::Response(Arc::new(coded_head(head, coding, &body)));
        objects.insert_disk(JobKind::ChangeSoon, &key, &record, body.clone(), &validity).await;
        let kept = objects.insert_memory(&key, &record, body.into(), &validity);
        Ok(kept.is_some() || objects.on_disk(&key))
    }
}

/// Form of a body that a client gets, where others may get another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormChoice {
    /// The form as stored.
    Stored,
    /// A coded form.
    Coded(Coding),
}

impl FormChoice {
    /// Returns the coding of the form, if this node coded it.
    pub fn coding(self) -> Option<Coding> {
        match self {
            Self::Stored => None,
            Self::Coded(coding) => Some(coding),
        }
    }
}

/// Returns the head of a coded form. Its tag is strong even if the origin's is not: the bytes
/// decide.
fn coded_head(head: &ResponseMetadata, coding: Coding, body: &[u8]) -> ResponseMetadata {
    debug_assert!(!head.stored.has(&CONTENT_ENCODING), "a body is coded once");
    debug_assert!(!body.is_empty(), "no coding codes to nothing");
    let mut fields: HeaderMap = head.stored.fields();
    for name in OF_STORED_BYTES {
        fields.remove(name);
    }
    fields.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
    let tag = format!("\"{}-{:016x}\"", coding.name(), xxh3_64(body));
    fields.insert(ETAG, HeaderValue::try_from(tag).expect("letters, digits and a hyphen"));
    let origin = Provenance { requested: head.requested, names: head.names.clone(), identity: head.identity };
    ResponseMetadata::new(head.stored.status(), fields, head.policy, origin)
}

/// Returns `true` if the record is that of a coded form of the response with this head.
pub(super) fn is_form_of(record: &ObjectMetadata, head: &ResponseMetadata) -> bool {
    matches!(record, ObjectMetadata::Response(coded) if coded.identity == head.identity)
}

/// Returns `true` if the conditions say that the client has the form as stored.
fn has_stored_form(conditions: &impl Fields, head: &ResponseMetadata, now: Timestamp) -> bool {
    let ResponseMetadata { stored, policy, .. } = head;
    validation::evaluate(conditions, stored.status(), &**stored, policy, clock::date_at(now))
        == Condition::NotModified
}

/// Returns the tag in If-Range; a date does not tell the forms apart.
fn if_range_tag(ask: &RequestContext) -> Option<EntityTag<'_>> {
    let mut lines = ask.fields.values(&IF_RANGE);
    let line = lines.next().filter(|_| lines.next().is_none())?;
    EntityTag::parse(line).filter(|tag| tag.is_strong())
}

/// Returns the key of the URL, with which a site's variants begin.
fn primary_key(key: &ObjectKey) -> ObjectKey {
    let url = key.full().split(|byte| *byte == 0).next().unwrap_or_default();
    ObjectKey::new(url.to_vec())
}

/// Reads Accept-Encoding. Most requests of a thread have the value of the one before.
fn accepted(field: &[u8]) -> AcceptedCodings {
    LAST.with_borrow_mut(|(value, accepted)| {
        if value != field {
            *accepted = AcceptedCodings::of([field]);
            value.clear();
            value.shrink_to(VALUE_BYTES_KEPT);
            value.extend_from_slice(field);
        }
        *accepted
    })
}

/// Fields about the bytes of the stored form, which are not true of a coded one.
const OF_STORED_BYTES: [HeaderName; 4] = [
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
];

/// Most bytes kept for the last value.
const VALUE_BYTES_KEPT: usize = 1 << 10;

thread_local! {
    /// Last value of Accept-Encoding, and its meaning.
    static LAST: RefCell<(Vec<u8>, AcceptedCodings)> = RefCell::default();
}
