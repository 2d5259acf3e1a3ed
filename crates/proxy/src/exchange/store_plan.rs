//! May it be kept, and under which key: from a response's head to its place in the store.

use super::cache::Cache;
use super::fetch::{ArrivingResponse, Fetch, ReceivedHead, SelectingFields};
use super::hybrid_cache::CachedObject;
use super::identity::Identity;
use super::invalidations::ValiditySnapshot;
use super::metadata::{
    ObjectMetadata, PartRange, PartsMarker, Provenance, ResponseMetadata, ResponseScope, VaryMarker,
};
use super::purge_table::{PurgeScope, group_key, origin_key};
use super::request::RequestContext;
use super::shared_body::SharedBody;
use super::target::part_key;
use super::variant::variant_key;
use crate::clock;
use crate::upstream::connection_auth;
use http::{HeaderMap, HeaderName, StatusCode, header};
use shoal_core::{FieldLines, Key, ObjectKey};
use shoal_semantics::date;
use shoal_semantics::range::{self, ContentRange};
use shoal_semantics::storage::{self, CachePolicy, ForwardedExchange, StorageDecision, StoreRefusal};
use shoal_semantics::vary::{self, Vary};
use shoal_semantics::{fields, groups, validation};
use std::sync::Arc;

/// Where a response is going to be kept.
pub struct StorePlan {
    /// The key of its body.
    key: ObjectKey,
    policy: CachePolicy,
    selecting: Option<SelectingFields>,
    /// The vary note under the primary key, as it will be.
    vary_note: Option<VaryMarker>,
    part: Option<PartStorePlan>,
}

/// Why a response is not kept.
#[derive(Clone, Copy)]
pub struct StoreDenial {
    /// In a word, for Cache-Status.
    pub why: &'static str,
    /// Whether it is for what this request says or asks for, and a response to another may be kept.
    pub is_of_request: bool,
}

impl StoreDenial {
    fn of_request(why: &'static str) -> Self {
        Self { why, is_of_request: true }
    }
}

/// A part of a representation that is going to be kept.
struct PartStorePlan {
    /// The key of the parts note.
    note_key: ObjectKey,
    range: PartRange,
    complete_length: u64,
    generation: u64,
}

impl Cache {
    /// Whether `response` may be kept, as far as it tells by itself; otherwise why not.
    pub(super) fn storage_policy(
        &self,
        fetch: &Fetch,
        response: ReceivedHead<'_>,
    ) -> Result<CachePolicy, StoreDenial> {
        let ask = &fetch.ask;
        if connection_auth::authenticates(&ask.fields) || connection_auth::is_of_connection(response.fields) {
            return Err(StoreDenial::of_request("connection-auth"));
        }
        let exchanged = ForwardedExchange {
            method: &http::Method::GET,
            query: ask.path.query(),
            request: &ask.fields,
            status: response.status,
            response: response.fields,
            request_time: clock::date_at(response.request_time),
            response_time: clock::date_at(response.response_time),
        };
        let policy = match storage::may_store(&exchanged, ask.live.rules(ask)) {
            StorageDecision::Store(policy) => policy.received(response.response_time),
            StorageDecision::Refuse(refusal) => {
                // Authorized requests are remembered apart.
                let is_of_request =
                    matches!(refusal, StoreRefusal::RequestNoStore | StoreRefusal::ContentRange);
                return Err(StoreDenial { why: refusal.as_str(), is_of_request });
            }
        };
        let too_large = StoreDenial { why: "too-large", is_of_request: false };
        if self.objects.accepts_length(response.length) { Ok(policy) } else { Err(too_large) }
    }

    /// Whether and where `response` is kept; otherwise why not.
    pub(super) async fn plan_store(
        &self,
        fetch: &Fetch,
        response: ReceivedHead<'_>,
    ) -> Result<StorePlan, StoreDenial> {
        let ask = &fetch.ask;
        let policy = self.storage_policy(fetch, response)?;
        if response.status == StatusCode::PARTIAL_CONTENT {
            return self.plan_store_part(ask, response, policy).await;
        }
        let (key, selecting, vary_note) = self.storage_key(ask, response.fields).await;
        Ok(StorePlan { key, policy, selecting, vary_note, part: None })
    }

    /// The key of a response with these fields: the primary one, or its variant's.
    async fn storage_key(
        &self,
        ask: &RequestContext,
        response: &FieldLines,
    ) -> (ObjectKey, Option<SelectingFields>, Option<VaryMarker>) {
        // `Vary: *` was refused before
        let Vary::Fields(names) = vary::nominated(response) else { return (ask.primary.clone(), None, None) };
        let note = match self.find(&ask.primary, &ask.primary).await {
            Some(CachedObject { record: ObjectMetadata::Vary(note), .. }) => with_list(&note, &names),
            _ => VaryMarker { generation: generation(), lists: vec![names.clone()] },
        };
        let values = ask.selecting(&names);
        let key = variant_key(&ask.primary, note.generation, &values);
        (key, Some(SelectingFields { names, values }), Some(note))
    }

    /// A 206 is kept as a part when it is one range of a representation of known length with a
    /// strong validator.
    async fn plan_store_part(
        &self,
        ask: &RequestContext,
        response: ReceivedHead<'_>,
        policy: CachePolicy,
    ) -> Result<StorePlan, StoreDenial> {
        let content_range =
            ContentRange::of(response.fields).ok_or(StoreDenial::of_request("content-range"))?;
        let (Some(range), Some(complete_length)) = (content_range.range(), content_range.complete_length())
        else {
            return Err(StoreDenial::of_request("content-range"));
        };
        let (note_key, selecting, vary_note) = self.storage_key(ask, response.fields).await;
        let generation = match self.find_for(ask, &note_key).await {
            Some(CachedObject { record: ObjectMetadata::Parts(note), .. })
                if same_whole(&note, response, complete_length) =>
            {
                note.generation
            }
            // a whole response that is stored serves better than any part
            Some(CachedObject { record: ObjectMetadata::Response(head), .. })
                if head.stored.status() == StatusCode::OK && head.policy.is_fresh(response.response_time) =>
            {
                return Err(StoreDenial::of_request("whole-stored"));
            }
            _ => generation(),
        };
        // which byte is missing, or too many, nobody knows
        if response.length.is_some_and(|length| length != range.len()) {
            return Err(StoreDenial::of_request("content-range"));
        }
        let range = PartRange { start: range.start, end: range.end };
        let key = part_key(&note_key, generation, range.start, range.end);
        let part = Some(PartStorePlan { note_key, range, complete_length, generation });
        Ok(StorePlan { key, policy, selecting, vary_note, part })
    }

    /// Writes the notes that lead to what is being kept.
    pub(super) async fn write_notes(
        &self,
        ask: &RequestContext,
        keeping: &StorePlan,
        head: &Arc<ResponseMetadata>,
        validity: &ValiditySnapshot,
    ) {
        if let Some(note) = &keeping.vary_note {
            self.write_vary_note(&ask.primary, note, validity).await;
        }
        if let Some(part) = &keeping.part {
            self.write_parts_note(ask, part, head, validity).await;
        }
    }

    async fn write_vary_note(&self, primary: &ObjectKey, note: &VaryMarker, validity: &ValiditySnapshot) {
        let found = self.find(primary, primary).await;
        if matches!(&found, Some(CachedObject { record: ObjectMetadata::Vary(stored), .. }) if **stored == *note)
        {
            return;
        }
        self.objects.insert_marker(primary, ObjectMetadata::Vary(Arc::new(note.clone())), validity).await;
    }

    async fn write_parts_note(
        &self,
        ask: &RequestContext,
        part: &PartStorePlan,
        head: &Arc<ResponseMetadata>,
        validity: &ValiditySnapshot,
    ) {
        let newer = without_content_range(head.stored.fields());
        let (mut parts, fields) = match self.find(&part.note_key, &ask.primary).await {
            // RFC 9110, section 15.3.7: a 206 to an If-Range need not say of the representation
            // what earlier ones said.
            Some(CachedObject { record: ObjectMetadata::Parts(note), .. })
                if note.generation == part.generation =>
            {
                let mut fields = note.head.stored.fields();
                validation::freshen(&mut fields, &newer);
                (note.parts.clone(), fields)
            }
            _ => (Vec::new(), newer),
        };
        if parts.len() >= PARTS_MAX {
            parts.remove(0);
        }
        parts.retain(|known| *known != part.range);
        parts.push(part.range);
        let origin =
            Provenance { requested: head.requested, names: head.names.clone(), identity: Identity::unique() };
        let whole = ResponseMetadata::new(StatusCode::OK, fields, head.policy, origin);
        let note = PartsMarker {
            head: Arc::new(whole),
            complete_length: part.complete_length,
            generation: part.generation,
            parts,
        };
        self.objects.insert_marker(&part.note_key, ObjectMetadata::Parts(Arc::new(note)), validity).await;
    }
}

/// The response as its readers get it.
pub(super) fn arrived(keeping: &StorePlan, fetch: &Fetch, response: ReceivedHead<'_>) -> ArrivingResponse {
    let ask = &fetch.ask;
    let fields = response.fields.to_map();
    let names = names(ask, &fields);
    let (stored, own) = split_fields(ask, response, &fields);
    let head = ResponseMetadata::new(
        response.status,
        stored,
        keeping.policy,
        Provenance { requested: ask.sequence, names, identity: Identity::unique() },
    );
    let head = Arc::new(head);
    ArrivingResponse {
        key: keeping.key.clone(),
        own_head: head.with(&own),
        head,
        body: SharedBody::new(),
        // a part is as long as its Content-Range says, however it is framed
        length: response.length.or(keeping.part.as_ref().map(|part| part.range.end - part.range.start)),
        selecting: keeping.selecting.clone(),
        validity: fetch.validity.clone(),
        upstream: response.peer,
    }
}

/// The fields of a response as they are stored: with our Via, and with a Date (RFC 9110,
/// section 6.6.1: "A recipient with a clock that receives a response message without a Date
/// header field MUST record the time it was received and append a corresponding Date header
/// field to the message's header section if it is cached"). Apart from them, those for the one
/// client who asked.
pub(super) fn split_fields(
    ask: &RequestContext,
    response: ReceivedHead<'_>,
    fields: &HeaderMap,
) -> (HeaderMap, HeaderMap) {
    let live = &ask.live;
    let (mut stored, mut own) = storage::split_fields(fields, live.rules(ask));
    for fields in [&mut stored, &mut own] {
        fields.remove(header::CONTENT_LENGTH);
    }
    fields::append_via(&mut stored, response.version, &live.hop);
    if !stored.contains_key(header::DATE) {
        stored.insert(header::DATE, date::format(clock::date_at(response.response_time)));
    }
    (stored, own)
}

/// The trailers as all readers get them: without fields that are for the client alone who
/// asked.
pub(super) fn shared_trailers(
    ask: &RequestContext,
    head: &ResponseMetadata,
    mut trailers: HeaderMap,
) -> HeaderMap {
    let apart = storage::unstored_fields(&head.stored.fields(), ask.live.rules(ask));
    storage::take_apart(&mut trailers, &apart);
    trailers
}

/// The names under which a response can be purged.
pub(super) fn names(ask: &RequestContext, response: &HeaderMap) -> ResponseScope {
    let origin = ask.target.origin();
    let live = &ask.live;
    let mut slots = vec![PurgeScope::All.slot(), PurgeScope::Host(ask.target.host()).slot()];
    slots.extend(groups::tags(response, &live.tag_fields).iter().map(|tag| PurgeScope::Tag(tag).slot()));
    let mut own_groups: Vec<Key> =
        groups::cache_groups(response).iter().map(|group| group_key(origin, group)).collect();
    if !own_groups.is_empty() {
        // All groups of an origin may be purged together.
        own_groups.push(origin_key(origin));
    }
    ResponseScope { slots: slots.into(), groups: own_groups.into(), via_site: ask.site.is_some() }
}

/// A number that no other note bears, in whichever process: a note that comes after an
/// invalidation must not lead to what the one before it led to.
pub(super) fn generation() -> u64 {
    Identity::unique().response()
}

/// The note with `names` as its latest list.
fn with_list(note: &VaryMarker, names: &[HeaderName]) -> VaryMarker {
    let mut lists: Vec<Vec<HeaderName>> = vec![names.to_vec()];
    lists.extend(note.lists.iter().filter(|list| *list != names).take(LISTS_MAX - 1).cloned());
    VaryMarker { generation: note.generation, lists }
}

/// Parts combine when they are of one representation: same strong validator, same length (RFC 9110,
/// 15.3.7.3).
fn same_whole(note: &PartsMarker, response: ReceivedHead<'_>, complete_length: u64) -> bool {
    note.complete_length == complete_length
        && range::same_representation(&note.head.stored.fields(), response.fields)
}

fn without_content_range(mut fields: HeaderMap) -> HeaderMap {
    fields.remove(header::CONTENT_RANGE);
    fields
}

/// Lists of nominated fields remembered for one URL.
const LISTS_MAX: usize = 4;

/// Parts remembered of one representation.
const PARTS_MAX: usize = 256;

const _: () = assert!(LISTS_MAX <= u8::MAX as usize && PARTS_MAX <= u16::MAX as usize);
