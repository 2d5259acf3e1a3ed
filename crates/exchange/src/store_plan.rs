//! Decides from a response's head whether to store it, and under which key.

use super::body_writer::BodyStorage;
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
use crate::upstream::{PeerTerms, connection_auth};
use http::{HeaderMap, HeaderName, StatusCode, header};
use shoal_core::{FieldLines, Key, ObjectKey, Timestamp};
use shoal_semantics::date;
use shoal_semantics::range::{self, ContentRange};
use shoal_semantics::status_fields::Reason;
use shoal_semantics::storage::{
    self, CachePolicy, ForwardedExchange, Judgement, StorageDecision, StoreRefusal,
};
use shoal_semantics::vary::{self, Vary};
use shoal_semantics::{CacheRules, fields, groups, validation};
use std::borrow::Cow;
use std::sync::Arc;

/// Plan for storing a response.
pub struct StorePlan {
    /// Key of the body.
    key: ObjectKey,
    policy: CachePolicy,
    /// Settings of the judgement, where operators' rules change them.
    rules: Option<Box<CacheRules>>,
    selecting: Option<SelectingFields>,
    /// Future vary note under the primary key.
    vary_note: Option<VaryMarker>,
    part: Option<PartStorePlan>,
    /// Places in which the body is kept.
    pub body: BodyStorage,
}

impl StorePlan {
    /// Returns the plan for a response of another node. The new home keeps it as if the
    /// origin had sent it. Another node keeps it until its lease ends, if it has one.
    pub(super) fn under(self, terms: PeerTerms, now: Timestamp) -> Self {
        if terms.moves {
            return self;
        }
        let is_copy = !terms.lease.is_zero() && self.part.is_none();
        let body = if is_copy { BodyStorage::Copied } else { BodyStorage::Relayed };
        let policy = if is_copy { self.policy.leased(terms.lease, now) } else { self.policy };
        Self { body, policy, ..self }
    }

    /// Returns the settings by which the response was judged.
    fn rules<'a>(&'a self, ask: &'a RequestContext) -> &'a CacheRules {
        self.rules.as_deref().unwrap_or_else(|| ask.live.rules(ask))
    }
}

/// Reason for not storing a response.
#[derive(Clone, Copy)]
pub struct StoreDenial {
    /// Reason, for Cache-Status.
    pub why: Reason,
    /// `true` if the reason lies in this request only. A response to another request may be stored.
    pub is_of_request: bool,
}

impl StoreDenial {
    fn of_request(why: Reason) -> Self {
        Self { why, is_of_request: true }
    }
}

/// Plan for storing a part of a representation.
struct PartStorePlan {
    /// Key of the parts note.
    note_key: ObjectKey,
    range: PartRange,
    complete_length: u64,
    generation: u64,
}

impl Cache {
    /// Decides by `response` alone whether it may be stored.
    pub(super) fn storage_policy(
        &self,
        ask: &RequestContext,
        response: ReceivedHead<'_>,
    ) -> Result<CachePolicy, StoreDenial> {
        let rules = ask.live.rules_for(ask, response.status, response.fields);
        self.policy_by(ask, response, &rules)
    }

    /// Returns the reason for not sharing a response that another node answered for one client.
    pub(super) fn denial_of_peer(&self, ask: &RequestContext, response: ReceivedHead<'_>) -> StoreDenial {
        self.storage_policy(ask, response).err().unwrap_or(StoreDenial::of_request(Reason::Private))
    }

    fn policy_by(
        &self,
        ask: &RequestContext,
        response: ReceivedHead<'_>,
        rules: &CacheRules,
    ) -> Result<CachePolicy, StoreDenial> {
        let policy = judge_by(ask, response, rules).and_then(|judged| policy_of(&judged, response))?;
        let too_large = StoreDenial { why: Reason::TooLarge, is_of_request: false };
        if self.objects.accepts_length(response.length) { Ok(policy) } else { Err(too_large) }
    }

    /// Plans whether and where to store `response`.
    pub(super) async fn plan_store(
        &self,
        fetch: &Fetch,
        response: ReceivedHead<'_>,
    ) -> Result<StorePlan, StoreDenial> {
        let ask = &fetch.ask;
        // The rules are matched here; the plan carries the outcome to the later steps.
        let (policy, rules) = {
            let rules = ask.live.rules_for(ask, response.status, response.fields);
            let policy = self.policy_by(ask, response, &rules)?;
            let changed = match rules {
                Cow::Owned(rules) => Some(Box::new(rules)),
                Cow::Borrowed(_) => None,
            };
            (policy, changed)
        };
        if response.status == StatusCode::PARTIAL_CONTENT {
            let plan = self.plan_store_part(ask, response, policy).await?;
            return Ok(StorePlan { rules, ..plan });
        }
        let (key, selecting, mut vary_note) = self.storage_key(ask, response.fields).await;
        if let Some(note) = &mut vary_note {
            note.is_pinned |= policy.is_pinned();
        }
        // All that want it now share the fetch, although nothing of it stays.
        let body = match self.objects.has_room_for(response.length) {
            true => BodyStorage::Stored,
            false => BodyStorage::Relayed,
        };
        Ok(StorePlan { key, policy, rules, selecting, vary_note, part: None, body })
    }

    /// Returns the key of a response with these fields: the primary one, or its variant's.
    async fn storage_key(
        &self,
        ask: &RequestContext,
        response: &FieldLines,
    ) -> (ObjectKey, Option<SelectingFields>, Option<VaryMarker>) {
        // `Vary: *` was refused before
        let Vary::Fields(names) = vary::nominated(response) else { return (ask.primary.clone(), None, None) };
        let note = match self.find(&ask.primary, &ask.primary).await {
            Some(CachedObject { record: ObjectMetadata::Vary(note), .. }) => with_list(&note, &names),
            _ => VaryMarker { generation: generation(), lists: vec![names.clone()], is_pinned: false },
        };
        let values = ask.selecting(&names);
        let key = variant_key(&ask.primary, note.generation, &values);
        (key, Some(SelectingFields { names, values }), Some(note))
    }

    /// Plans to store a 206 as a part. It must be one range of a representation of known length
    /// with a strong validator.
    async fn plan_store_part(
        &self,
        ask: &RequestContext,
        response: ReceivedHead<'_>,
        policy: CachePolicy,
    ) -> Result<StorePlan, StoreDenial> {
        let content_range =
            ContentRange::of(response.fields).ok_or(StoreDenial::of_request(Reason::ContentRange))?;
        let (Some(range), Some(complete_length)) = (content_range.range(), content_range.complete_length())
        else {
            return Err(StoreDenial::of_request(Reason::ContentRange));
        };
        let (note_key, selecting, vary_note) = self.storage_key(ask, response.fields).await;
        let generation = match self.find_for(ask, &note_key).await {
            Some(CachedObject { record: ObjectMetadata::Parts(note), .. })
                if same_whole(&note, response, complete_length) =>
            {
                note.generation
            }
            // a stored whole response serves better than any part
            Some(CachedObject { record: ObjectMetadata::Response(head), .. })
                if head.stored.status() == StatusCode::OK && head.policy.is_fresh(response.response_time) =>
            {
                return Err(StoreDenial::of_request(Reason::WholeStored));
            }
            _ => generation(),
        };
        // the missing or surplus byte cannot be located
        if response.length.is_some_and(|length| length != range.len()) {
            return Err(StoreDenial::of_request(Reason::ContentRange));
        }
        let range = PartRange { start: range.start, end: range.end };
        let key = part_key(&note_key, generation, range.start, range.end);
        let part = Some(PartStorePlan { note_key, range, complete_length, generation });
        Ok(StorePlan { key, policy, rules: None, selecting, vary_note, part, body: BodyStorage::Stored })
    }

    /// Writes the notes that lead to the stored response.
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
            // RFC 9110, section 15.3.7: a 206 to an If-Range may omit fields of the representation
            // that earlier ones had.
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

/// Judges a response by its head, with the grounds.
///
/// # Errors
/// Denies a response that belongs to one connection.
pub(super) fn judge_response(
    ask: &RequestContext,
    response: ReceivedHead<'_>,
) -> Result<Judgement, StoreDenial> {
    judge_by(ask, response, &ask.live.rules_for(ask, response.status, response.fields))
}

fn judge_by(
    ask: &RequestContext,
    response: ReceivedHead<'_>,
    rules: &CacheRules,
) -> Result<Judgement, StoreDenial> {
    if connection_auth::authenticates(&ask.fields) || connection_auth::is_of_connection(response.fields) {
        return Err(StoreDenial::of_request(Reason::ConnectionAuth));
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
    Ok(storage::judge(&exchanged, rules))
}

/// Returns the policy of a response that may be stored.
fn policy_of(judged: &Judgement, response: ReceivedHead<'_>) -> Result<CachePolicy, StoreDenial> {
    match judged.decision {
        StorageDecision::Store(policy) => Ok(policy.received(response.response_time)),
        StorageDecision::Refuse(refusal) => {
            // Requests with Authorization are remembered separately.
            let is_of_request = matches!(refusal, StoreRefusal::RequestNoStore | StoreRefusal::ContentRange);
            Err(StoreDenial { why: refusal.reason(), is_of_request })
        }
    }
}

/// Returns the response for its readers.
pub(super) fn arrived(keeping: &StorePlan, fetch: &Fetch, response: ReceivedHead<'_>) -> ArrivingResponse {
    let ask = &fetch.ask;
    let fields = response.fields.to_map();
    let names = names(ask, &fields);
    let (stored, own) = split_fields(ask, response, &fields, keeping.rules(ask));
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
        // a part has the length of its Content-Range, with any framing
        length: response.length.or(keeping.part.as_ref().map(|part| part.range.end - part.range.start)),
        selecting: keeping.selecting.clone(),
        validity: fetch.validity.clone(),
        upstream: response.peer,
        is_stored: keeping.body != BodyStorage::Relayed,
    }
}

/// Splits a response's fields into the stored ones and those for the requesting client alone.
///
/// The stored fields get this node's Via, and a Date (RFC 9110, section 6.6.1: "A recipient with a
/// clock that receives a response message without a Date header field MUST record the time it was
/// received and append a corresponding Date header field to the message's header section if it is
/// cached").
fn split_fields(
    ask: &RequestContext,
    response: ReceivedHead<'_>,
    fields: &HeaderMap,
    rules: &CacheRules,
) -> (HeaderMap, HeaderMap) {
    let live = &ask.live;
    let (mut stored, mut own) = storage::split_fields(fields, rules);
    for fields in [&mut stored, &mut own] {
        fields.remove(header::CONTENT_LENGTH);
    }
    fields::append_via(&mut stored, response.version, &live.hop);
    if !stored.contains_key(header::DATE) {
        stored.insert(header::DATE, date::format(clock::date_at(response.response_time)));
    }
    (stored, own)
}

/// Returns the trailers for all readers, without fields for the requesting client alone.
pub(super) fn shared_trailers(
    ask: &RequestContext,
    keeping: &StorePlan,
    head: &ResponseMetadata,
    mut trailers: HeaderMap,
) -> HeaderMap {
    let apart = storage::unstored_fields(&head.stored.fields(), keeping.rules(ask));
    storage::take_apart(&mut trailers, &apart);
    trailers
}

/// Returns the names under which a response can be purged.
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

/// Returns a number that no other note has, from any process. A note written after an invalidation
/// must not lead to the responses of the earlier note.
pub(super) fn generation() -> u64 {
    Identity::unique().response()
}

/// Returns the note with `names` as its latest list.
fn with_list(note: &VaryMarker, names: &[HeaderName]) -> VaryMarker {
    let mut lists: Vec<Vec<HeaderName>> = vec![names.to_vec()];
    lists.extend(note.lists.iter().filter(|list| *list != names).take(LISTS_MAX - 1).cloned());
    VaryMarker { lists, ..*note }
}

/// Returns `true` if both are parts of one representation. Such parts combine: same strong
/// validator, same length (RFC 9110, 15.3.7.3).
fn same_whole(note: &PartsMarker, response: ReceivedHead<'_>, complete_length: u64) -> bool {
    note.complete_length == complete_length
        && range::same_representation(&note.head.stored.fields(), response.fields)
}

fn without_content_range(mut fields: HeaderMap) -> HeaderMap {
    fields.remove(header::CONTENT_RANGE);
    fields
}

/// Maximum lists of nominated fields remembered for one URL.
const LISTS_MAX: usize = 4;

/// Maximum parts remembered of one representation.
const PARTS_MAX: usize = 256;

const _: () = assert!(LISTS_MAX <= u8::MAX as usize && PARTS_MAX <= u16::MAX as usize);
