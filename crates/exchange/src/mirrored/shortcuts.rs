//! Shortcuts: a request that was answered from RAM is answered on the fast path from then on.
//!
//! ```text
//!   URL and Accept of a client ─► key of the stored response ─► in RAM, fresh, same response?
//!                                 └► key of the form derived from it, if clients get another one
//! ```
//!
//! A shortcut saves the registry's code and the rewriting, never a decision about freshness, purges
//! or access. A change of the settings, or of a document that promises the file, ends it.

use super::{MirrorRequest, field_value};
use crate::CacheEngine;
use crate::access::ListenerRules;
use crate::admission::{AdmissionView, Grant};
use crate::cache::Cache;
use crate::fast_path::FreshHit;
use crate::judgement::RulesNumber;
use crate::lookup::variant_keys;
use crate::message::{CacheResult, Client, Reply, ReplyHead};
use crate::metadata::{ObjectMetadata, ResponseMetadata};
use crate::request::RequestContext;
use crate::settings::ExchangeSettings;
use parking_lot::RwLock;
use shoal_core::{Key, ObjectKey, Timestamp};
use shoal_mirrors::{Class, Fetch, Form};
use shoal_settings::{MirrorKind, Mode};
use shoal_wire::FastPathRequest;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Shortcuts of all mirrors.
#[derive(Default)]
pub(crate) struct Shortcuts(RwLock<HashMap<Key, Arc<Shortcut>>>);

/// Way from a client's URL and Accept to an answer in RAM.
pub(crate) struct Shortcut {
    /// URL and Accept.
    asked: Box<[u8]>,
    /// Number of the settings under which it was found.
    rules: RulesNumber,
    /// Answer.
    to: Destination,
    /// Documents that promise the file.
    documents: Box<[Key]>,
}

/// Answer to which a shortcut leads.
pub(super) struct Destination {
    /// Place of the stored response.
    pub stored: StoredPlace,
    /// Number of the stored response, and key of the form derived from it.
    pub derived: Option<(u64, ObjectKey)>,
    /// Time from which another form may be due.
    pub until: Timestamp,
}

/// Place in RAM of a stored response.
#[derive(Clone)]
pub(super) struct StoredPlace {
    /// Key of the response.
    pub key: ObjectKey,
    /// Key of the note that leads to it, and the note's generation, if there are variants.
    note: Option<(ObjectKey, u64)>,
}

impl StoredPlace {
    /// Returns `true` if the note still leads to the response.
    fn is_reachable(&self, cache: &Cache) -> bool {
        let Some((key, generation)) = &self.note else { return true };
        let note = cache.objects.memory_entry(key);
        note.is_some_and(
            |note| matches!(&note.record, ObjectMetadata::Vary(note) if note.generation == *generation),
        )
    }
}

impl Shortcuts {
    fn find(&self, asked: &[u8]) -> Option<Arc<Shortcut>> {
        self.0.read().get(&Key::of(asked)).filter(|found| *found.asked == *asked).map(Arc::clone)
    }

    fn learn(&self, shortcut: Shortcut) {
        let key = Key::of(&shortcut.asked);
        let mut known = self.0.write();
        if known.len() >= SHORTCUTS_MAX {
            known.clear();
        }
        known.insert(key, Arc::new(shortcut));
        debug_assert!(known.len() <= SHORTCUTS_MAX, "the table is bounded");
    }

    /// Forgets the files that a document promises: the document has changed.
    pub fn forget_promised(&self, document: Key) {
        self.0.write().retain(|_, shortcut| !shortcut.documents.contains(&document));
    }
}

/// A request on the fast path that may have a shortcut.
pub(crate) struct ShortcutSearch<'a, 'l> {
    /// Cache and settings.
    pub engine: &'a CacheEngine,
    /// Settings in force, and those of the listener.
    pub live: (&'l ExchangeSettings, &'a ListenerRules),
    /// Request.
    pub plain: &'a FastPathRequest<'a>,
    /// Client.
    pub client: &'a Client,
}

impl<'l> ShortcutSearch<'_, 'l> {
    /// Returns the fresh answer in RAM to a request at a mirror, if this client may have it. `url`
    /// is the effective URI, with its host at `host`.
    pub fn find(&self, url: &mut Vec<u8>, host: Range<usize>, now: Timestamp) -> Option<FreshHit<'l>> {
        let (live, listener) = self.live;
        let url_bytes = url.len();
        self.push_accept(url);
        let shortcut = self.engine.cache.promised.shortcuts.find(url);
        url.truncate(url_bytes);
        let shortcut = shortcut.filter(|it| it.rules == live.rules_number && now < it.to.until)?;
        let (host, path) = (&url[host], self.plain.path_text());
        if live.rule_set.changes_requests() && live.may_change(Mode::Reverse, host, path, true) {
            return None;
        }
        let port = self.plain.authority.port.unwrap_or(80);
        let admitted = live.admit_by(
            listener,
            self.client,
            None,
            AdmissionView::Url { host, port, path: self.plain.path },
        );
        let Ok(Grant { site: Some(site), .. }) = &admitted else { return None };
        live.mirrors.of_site(site.site)?;
        let meter = &site.meter;
        let cache = &self.engine.cache;
        let Destination { stored: place, derived, .. } = &shortcut.to;
        let stored = cache.objects.memory_entry(&place.key).filter(|_| place.is_reachable(cache))?;
        let ObjectMetadata::Response(head) = &stored.record else { return None };
        if !cache.is_usable((live, Mode::Reverse), head, now) {
            return None;
        }
        let Some((response, derived)) = derived else {
            return Some(FreshHit {
                resident: stored,
                source: None,
                may_be_coded: false,
                meter,
                key: place.key.hash(),
            });
        };
        // Of a derived form no part is sent, as on the ordinary path.
        let is_same = head.identity.response() == *response && self.plain.range.is_none();
        let resident = cache.objects.memory_entry(derived).filter(|_| is_same)?;
        let source = Some(Arc::clone(head));
        Some(FreshHit { resident, source, may_be_coded: false, meter, key: derived.hash() })
    }

    /// Appends the value of Accept, as [`field_value`] joins it.
    fn push_accept(&self, url: &mut Vec<u8>) {
        let mut separator: &[u8] = ACCEPT;
        self.plain.each_field(|name, value| {
            if name.len() == b"accept".len() && name.eq_ignore_ascii_case(b"accept") {
                url.extend_from_slice(separator);
                url.extend_from_slice(value);
                separator = b", ";
            }
        });
    }
}

impl MirrorRequest {
    /// Returns `true` if such requests may have shortcuts: nothing about their answers depends on
    /// the client, on the time, or on other documents.
    pub(super) fn may_have_shortcut(&self, fetch: &Fetch) -> bool {
        let (mirror, kind) = (&self.base.mirror, self.base.mirror.settings.kind);
        let is_of_set = match &fetch.place {
            shoal_mirrors::Place::Below(path) => {
                mirror.registry.is_index(path) || mirror.registry.is_of_index(path)
            }
            shoal_mirrors::Place::Elsewhere(_) => false,
        };
        // An archive's lists depend on the release that the client has read.
        let is_of_release = kind == MirrorKind::Deb && !is_package(fetch);
        !self.is_own
            && self.admitted.client.intercepted.is_none()
            && !mirror.asks_for_rights()
            && !is_of_set
            && !is_of_release
            && kind != MirrorKind::BuildCache
    }

    /// Learns the shortcut to a reply that came from RAM as it is stored.
    pub(super) fn learn_stored(&self, cache: &Cache, fetch: &Fetch, ask: &RequestContext, reply: &Reply) {
        let is_hit = reply.record.outcome == CacheResult::MemoryHit;
        if !is_hit || self.base.age_limit.is_some() || !self.may_have_shortcut(fetch) {
            return;
        }
        let Some((stored, head)) = in_memory(cache, ask) else { return };
        if is_head_of(reply, &head) && cache.promised.is_confirmed(ask) {
            self.learn(cache, ask, Destination { stored, derived: None, until: NEVER });
            // A document that came meanwhile has looked for the shortcut in vain.
            if !cache.promised.is_confirmed(ask) {
                let documents = ask.mirror.iter().flat_map(|asked| asked.document_keys());
                documents.for_each(|document| cache.promised.shortcuts.forget_promised(document));
            }
        }
    }

    /// Learns the shortcut to this answer.
    pub(super) fn learn(&self, cache: &Cache, ask: &RequestContext, to: Destination) {
        let admitted = &self.admitted;
        let url = admitted.ruling.asked_url.as_ref().unwrap_or(&admitted.target.url);
        let mut asked = url.as_bytes().to_vec();
        if let Some(accept) = field_value(&admitted.head.fields, "accept") {
            asked.extend_from_slice(ACCEPT);
            asked.extend_from_slice(accept.as_bytes());
        }
        if asked.len() > ASKED_BYTES_MAX {
            return;
        }
        let documents = ask.mirror.iter().flat_map(|asked| asked.document_keys()).collect();
        let rules = admitted.live.rules_number;
        cache.promised.shortcuts.learn(Shortcut { asked: asked.into(), rules, to, documents });
    }
}

/// Returns `true` for a package of an archive.
fn is_package(fetch: &Fetch) -> bool {
    matches!(&fetch.class, Class::File(shoal_mirrors::route::PromiseSource::Nothing))
}

/// Returns the only response in RAM that the request selects, with its place.
pub(super) fn in_memory(cache: &Cache, ask: &RequestContext) -> Option<(StoredPlace, Arc<ResponseMetadata>)> {
    match cache.objects.record_in_memory(&ask.primary)? {
        ObjectMetadata::Response(head) => Some((StoredPlace { key: ask.primary.clone(), note: None }, head)),
        ObjectMetadata::Vary(note) => {
            let mut keys = variant_keys(ask, &note);
            let key = keys.pop().filter(|_| keys.is_empty())?;
            match cache.objects.record_in_memory(&key)? {
                ObjectMetadata::Response(head) => {
                    let note = Some((ask.primary.clone(), note.generation));
                    Some((StoredPlace { key, note }, head))
                }
                _ => None,
            }
        }
        ObjectMetadata::Parts(_) => None,
    }
}

/// Returns `true` if the reply has this stored head.
pub(super) fn is_head_of(reply: &Reply, head: &ResponseMetadata) -> bool {
    matches!(&reply.head, ReplyHead::Stored { stored, .. } if Arc::ptr_eq(stored, &head.stored))
}

/// Returns the key of a form derived from the stored response with this key and head.
pub(super) fn derived_key(stored: &ObjectKey, head: &ResponseMetadata, tag: &[u8], form: Form) -> ObjectKey {
    let response = head.identity.response().to_le_bytes();
    ObjectKey::new([stored.full(), DERIVED, tag, format!("{form:?}").as_bytes(), &response].concat())
}

/// Most shortcuts of a node, about 400 bytes each; the next one makes it forget all.
const SHORTCUTS_MAX: usize = 16_384;
/// Longest URL and Accept of a shortcut.
const ASKED_BYTES_MAX: usize = 1024;
/// Time at which no form is due.
pub(super) const NEVER: Timestamp = Timestamp::from_seconds(u32::MAX as u64);
/// Stands between URL and Accept.
const ACCEPT: &[u8] = b"\0accept\0";
/// Stands in the keys of derived forms, which are in RAM alone.
const DERIVED: &[u8] = b"\0derived\0";
