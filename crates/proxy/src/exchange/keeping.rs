//! May it be kept, and under which key: from a response's head to its place in the store.

use super::Exchange;
use super::ask::Ask;
use super::epochs::{Name, group_key, origin_key};
use super::fetch::{Arrived, Fetch, Received, Selecting};
use super::growing::Growing;
use super::identity::Identity;
use super::invalidations::Validity;
use super::record::{Head, Names, PartRange, PartsNote, Provenance, Record, VaryNote};
use super::shelf::Found;
use super::target::part_key;
use super::variant::variant_key;
use crate::clock;
use crate::upstream::connection_auth;
use http::{HeaderMap, HeaderName, StatusCode, header};
use shoal_core::{FieldLines, Key, ObjectKey};
use shoal_semantics::date;
use shoal_semantics::range::{self, ContentRange};
use shoal_semantics::storage::{self, Exchanged, Policy, Refusal, Storage};
use shoal_semantics::vary::{self, Vary};
use shoal_semantics::{fields, groups, validation};
use std::sync::Arc;

/// Where a response is going to be kept.
pub struct Keeping {
    /// The key of its body.
    key: ObjectKey,
    policy: Policy,
    selecting: Option<Selecting>,
    /// The vary note under the primary key, as it will be.
    vary_note: Option<VaryNote>,
    part: Option<PartKeeping>,
}

/// Why a response is not kept.
#[derive(Clone, Copy)]
pub struct Refused {
    /// In a word, for Cache-Status.
    pub why: &'static str,
    /// Whether it is for what this request says or asks for, and a response to another may be kept.
    pub is_of_request: bool,
}

impl Refused {
    fn of_request(why: &'static str) -> Self {
        Self { why, is_of_request: true }
    }
}

/// A part of a representation that is going to be kept.
struct PartKeeping {
    /// The key of the parts note.
    note_key: ObjectKey,
    range: PartRange,
    complete_length: u64,
    generation: u64,
}

impl Exchange {
    /// Whether `response` may be kept, as far as it tells by itself; otherwise why not.
    pub(super) fn assess(&self, fetch: &Fetch, response: Received<'_>) -> Result<Policy, Refused> {
        let ask = &fetch.ask;
        if connection_auth::authenticates(&ask.fields) || connection_auth::is_of_connection(response.fields) {
            return Err(Refused::of_request("connection-auth"));
        }
        let exchanged = Exchanged {
            method: &http::Method::GET,
            query: ask.path.query(),
            request: &ask.fields,
            status: response.status,
            response: response.fields,
            request_time: clock::date_at(response.request_time),
            response_time: clock::date_at(response.response_time),
        };
        let policy = match storage::assess(&exchanged, ask.live.rules(ask)) {
            Storage::Store(policy) => policy.received(response.response_time),
            Storage::Refuse(refusal) => {
                // Authorized requests are remembered apart.
                let is_of_request = matches!(refusal, Refusal::RequestNoStore | Refusal::ContentRange);
                return Err(Refused { why: refusal.as_str(), is_of_request });
            }
        };
        let too_large = Refused { why: "too-large", is_of_request: false };
        if self.shelf.takes(response.length) { Ok(policy) } else { Err(too_large) }
    }

    /// Whether and where `response` is kept; otherwise why not.
    pub(super) async fn judge(&self, fetch: &Fetch, response: Received<'_>) -> Result<Keeping, Refused> {
        let ask = &fetch.ask;
        let policy = self.assess(fetch, response)?;
        if response.status == StatusCode::PARTIAL_CONTENT {
            return self.judge_part(ask, response, policy).await;
        }
        let (key, selecting, vary_note) = self.place(ask, response.fields).await;
        Ok(Keeping { key, policy, selecting, vary_note, part: None })
    }

    /// The key of a response with these fields: the primary one, or its variant's.
    async fn place(
        &self,
        ask: &Ask,
        response: &FieldLines,
    ) -> (ObjectKey, Option<Selecting>, Option<VaryNote>) {
        // `Vary: *` was refused before
        let Vary::Fields(names) = vary::nominated(response) else { return (ask.primary.clone(), None, None) };
        let note = match self.find(&ask.primary, &ask.primary).await {
            Some(Found { record: Record::Vary(note), .. }) => with_list(&note, &names),
            _ => VaryNote { generation: self.generation(), lists: vec![names.clone()] },
        };
        let values = ask.selecting(&names);
        let key = variant_key(&ask.primary, note.generation, &values);
        (key, Some(Selecting { names, values }), Some(note))
    }

    /// A 206 is kept as a part when it is one range of a representation of known length with a strong validator.
    async fn judge_part(
        &self,
        ask: &Ask,
        response: Received<'_>,
        policy: Policy,
    ) -> Result<Keeping, Refused> {
        let content_range = ContentRange::of(response.fields).ok_or(Refused::of_request("content-range"))?;
        let (Some(range), Some(complete_length)) = (content_range.range(), content_range.complete_length())
        else {
            return Err(Refused::of_request("content-range"));
        };
        let (note_key, selecting, vary_note) = self.place(ask, response.fields).await;
        let generation = match self.find_for(ask, &note_key).await {
            Some(Found { record: Record::Parts(note), .. })
                if same_whole(&note, response, complete_length) =>
            {
                note.generation
            }
            // a whole response that is stored serves better than any part
            Some(Found { record: Record::Response(head), .. })
                if head.stored.status() == StatusCode::OK && head.policy.is_fresh(response.response_time) =>
            {
                return Err(Refused::of_request("whole-stored"));
            }
            _ => self.generation(),
        };
        // which byte is missing, or too many, nobody knows
        if response.length.is_some_and(|length| length != range.len()) {
            return Err(Refused::of_request("content-range"));
        }
        let range = PartRange { start: range.start, end: range.end };
        let key = part_key(&note_key, generation, range.start, range.end);
        let part = Some(PartKeeping { note_key, range, complete_length, generation });
        Ok(Keeping { key, policy, selecting, vary_note, part })
    }

    /// The response as its readers get it.
    pub(super) fn arrived(&self, keeping: &Keeping, fetch: &Fetch, response: Received<'_>) -> Arrived {
        let ask = &fetch.ask;
        let fields = response.fields.to_map();
        let names = self.names(ask, &fields);
        let (stored, own) = self.split_fields(ask, response, &fields);
        let head = Head::new(
            response.status,
            stored,
            keeping.policy,
            Provenance { requested: ask.sequence, names, identity: Identity::unique() },
        );
        let head = Arc::new(head);
        Arrived {
            key: keeping.key.clone(),
            own_head: head.with(&own),
            head,
            body: Growing::new(),
            // a part is as long as its Content-Range says, however it is framed
            length: response.length.or(keeping.part.as_ref().map(|part| part.range.end - part.range.start)),
            selecting: keeping.selecting.clone(),
            validity: fetch.validity.clone(),
            upstream: response.peer,
        }
    }

    /// The fields of a response as they are stored: with our Via, and with a Date (RFC 9110, section 6.6.1: "A
    /// recipient with a clock that receives a response message without a Date header field MUST record the time it was
    /// received and append a corresponding Date header field to the message's header section if it is cached"). Apart from
    /// them, those for the one client who asked.
    fn split_fields(&self, ask: &Ask, response: Received<'_>, fields: &HeaderMap) -> (HeaderMap, HeaderMap) {
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

    /// The trailers as all readers get them: without fields that are for the client alone who asked.
    pub(super) fn shared_trailers(&self, ask: &Ask, head: &Head, mut trailers: HeaderMap) -> HeaderMap {
        let apart = storage::unstored_fields(&head.stored.fields(), ask.live.rules(ask));
        storage::take_apart(&mut trailers, &apart);
        trailers
    }

    /// Writes the notes that lead to what is being kept.
    pub(super) async fn write_notes(
        &self,
        ask: &Ask,
        keeping: &Keeping,
        head: &Arc<Head>,
        validity: &Validity,
    ) {
        if let Some(note) = &keeping.vary_note {
            self.write_vary_note(&ask.primary, note, validity).await;
        }
        if let Some(part) = &keeping.part {
            self.write_parts_note(ask, part, head, validity).await;
        }
    }

    async fn write_vary_note(&self, primary: &ObjectKey, note: &VaryNote, validity: &Validity) {
        let found = self.find(primary, primary).await;
        if matches!(&found, Some(Found { record: Record::Vary(stored), .. }) if **stored == *note) {
            return;
        }
        self.shelf.keep_note(primary, Record::Vary(Arc::new(note.clone())), validity).await;
    }

    async fn write_parts_note(&self, ask: &Ask, part: &PartKeeping, head: &Arc<Head>, validity: &Validity) {
        let newer = without_content_range(head.stored.fields());
        let (mut parts, fields) = match self.find(&part.note_key, &ask.primary).await {
            // RFC 9110, section 15.3.7: a 206 to an If-Range need not say of the representation what earlier ones said.
            Some(Found { record: Record::Parts(note), .. }) if note.generation == part.generation => {
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
        let whole = Head::new(StatusCode::OK, fields, head.policy, origin);
        let note = PartsNote {
            head: Arc::new(whole),
            complete_length: part.complete_length,
            generation: part.generation,
            parts,
        };
        self.shelf.keep_note(&part.note_key, Record::Parts(Arc::new(note)), validity).await;
    }

    /// The names under which a response can be purged.
    pub(super) fn names(&self, ask: &Ask, response: &HeaderMap) -> Names {
        let origin = ask.target.origin();
        let live = &ask.live;
        let mut slots = vec![Name::All.slot(), Name::Host(ask.target.host()).slot()];
        slots.extend(groups::tags(response, &live.tag_fields).iter().map(|tag| Name::Tag(tag).slot()));
        let mut own_groups: Vec<Key> =
            groups::cache_groups(response).iter().map(|group| group_key(origin, group)).collect();
        if !own_groups.is_empty() {
            // All groups of an origin may be purged together.
            own_groups.push(origin_key(origin));
        }
        Names { slots: slots.into(), groups: own_groups.into(), via_site: ask.site.is_some() }
    }

    /// A number that no other note bears, in whichever process: a note that comes after an invalidation must not lead to what the one
    /// before it led to.
    pub(super) fn generation(&self) -> u64 {
        Identity::unique().response()
    }
}

/// The note with `names` as its latest list.
fn with_list(note: &VaryNote, names: &[HeaderName]) -> VaryNote {
    let mut lists: Vec<Vec<HeaderName>> = vec![names.to_vec()];
    lists.extend(note.lists.iter().filter(|list| *list != names).take(LISTS_MAX - 1).cloned());
    VaryNote { generation: note.generation, lists }
}

/// Parts combine when they are of one representation: same strong validator, same length (RFC 9110, 15.3.7.3).
fn same_whole(note: &PartsNote, response: Received<'_>, complete_length: u64) -> bool {
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
