//! Early hints: an origin's 103 (RFC 8297) is remembered, and sent again while a later request
//! waits.
//!
//! RFC 8297, section 2: "A server that sends a 103 (Early Hints) response … might include header
//! fields that are likely to be included in the final response". Only `Link` is kept. It counts
//! once the final answer turns out to be one for all clients: until then it may be one client's
//! own. A hit in RAM gets no 103, since its answer comes as soon.

use super::Prefetcher;
use super::hint::HintFields;
use super::observe::{give, hints_of_links, shared_fields};
use crate::CacheEngine;
use crate::message::InterimSink;
use crate::request::RequestContext;
use crate::target::Target;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version, header};
use parking_lot::Mutex;
use shoal_cooperation::prefetch::HintSource;
use shoal_settings::EarlyHints;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Early hints by the hash of the URL's key.
#[derive(Default)]
pub(super) struct RememberedHints(Mutex<HintTable>);

#[derive(Default)]
struct HintTable {
    entries: HashMap<u64, HintEntry>,
    order: VecDeque<u64>,
}

#[derive(Default)]
struct HintEntry {
    links: Vec<HeaderValue>,
    /// The final answer is one for all clients.
    is_shared: bool,
}

impl RememberedHints {
    /// Keeps the links of a 103.
    fn note(&self, key: u64, links: Vec<HeaderValue>) {
        self.0.lock().entry(key).links = links;
    }

    /// Notes that the final answer is one for all clients.
    pub fn confirm(&self, key: u64) {
        self.0.lock().entry(key).is_shared = true;
    }

    /// Forgets the hints of an answer that is one client's.
    pub fn forget(&self, key: u64) {
        if let Some(entry) = self.0.lock().entries.get_mut(&key) {
            *entry = HintEntry::default();
        }
    }

    /// Returns the links for a client.
    fn of(&self, key: u64) -> Option<Vec<HeaderValue>> {
        let table = self.0.lock();
        let entry = table.entries.get(&key).filter(|entry| entry.is_shared && !entry.links.is_empty())?;
        Some(entry.links.clone())
    }
}

impl HintTable {
    fn entry(&mut self, key: u64) -> &mut HintEntry {
        if !self.entries.contains_key(&key) {
            self.order.push_back(key);
            if self.order.len() > ENTRIES_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.entries.remove(&oldest);
            }
        }
        debug_assert!(self.order.len() <= ENTRIES_MAX, "the table has a limit");
        self.entries.entry(key).or_default()
    }
}

/// Sends the remembered hints of a URL to a client that waits.
pub(super) fn send_again(remembered: &RememberedHints, ask: &RequestContext) {
    let takes_it = match ask.live.prefetch.early_hints {
        EarlyHints::Off => false,
        EarlyHints::Http2 => ask.version == Version::HTTP_2,
        EarlyHints::All => ask.version >= Version::HTTP_11,
    };
    let Some(sink) = ask.interim.as_ref().filter(|_| takes_it && ask.method == Method::GET) else { return };
    let Some(links) = remembered.of(ask.primary.hash().low()) else { return };
    let fields: HeaderMap = links.into_iter().map(|link| (header::LINK, link)).collect();
    // A client that takes no more gets none.
    let _ = sink.try_send((StatusCode::EARLY_HINTS, fields));
}

/// Returns the sink for the interim answers to a request. The client's own gets them all; early
/// hints are noted on the way, where the settings want them.
pub(crate) fn tee(engine: &Arc<CacheEngine>, ask: &mut RequestContext) {
    let settings = &ask.live.prefetch;
    let is_of_interest = settings.early_hints != EarlyHints::Off || settings.links;
    if !is_of_interest
        || ask.method != Method::GET
        || ask.brings_credentials()
        || ask.client.address.port() == 0
    {
        return;
    }
    debug_assert!(ask.background.is_none(), "a prefetch has no client");
    let (sink, interims) = mpsc::channel(INTERIM_MAX);
    let own = ask.interim.replace(sink.clone());
    let teed = TeedHints {
        engine: Arc::clone(engine),
        own,
        key: ask.primary.hash().low(),
        target: ask.target.clone(),
        fields: shared_fields(ask),
        has_given: false,
    };
    tokio::spawn(teed.run(interims));
}

/// Interim answers on their way from an origin to a client.
struct TeedHints {
    engine: Arc<CacheEngine>,
    own: Option<InterimSink>,
    key: u64,
    target: Target,
    fields: HintFields,
    has_given: bool,
}

impl TeedHints {
    async fn run(mut self, mut interims: mpsc::Receiver<(StatusCode, HeaderMap)>) {
        while let Some((status, fields)) = interims.recv().await {
            if status == StatusCode::EARLY_HINTS {
                self.note(&fields);
            }
            self.own.iter().for_each(|own| drop(own.try_send((status, fields.clone()))));
        }
    }

    fn note(&mut self, fields: &HeaderMap) {
        let fits = |value: &&HeaderValue| value.len() <= LINK_MAX;
        let links: Vec<HeaderValue> =
            fields.get_all(header::LINK).iter().filter(fits).take(LINKS_MAX).cloned().collect();
        let live = self.engine.live();
        if live.prefetch.links && !std::mem::replace(&mut self.has_given, true) {
            let values: Vec<&[u8]> = links.iter().map(HeaderValue::as_bytes).collect();
            let of = (&self.target, self.fields.clone());
            give(&self.engine, hints_of_links(&live, of, &values, HintSource::EarlyHints));
        }
        if live.prefetch.early_hints != EarlyHints::Off {
            self.engine.prefetcher.early.note(self.key, links);
        }
    }
}

impl Prefetcher {
    /// Notes if the answer to a request is one for all clients.
    pub(crate) fn note_sharing(&self, ask: &RequestContext, is_shared: bool) {
        if ask.live.prefetch.early_hints == EarlyHints::Off {
            return;
        }
        let key = ask.primary.hash().low();
        match is_shared && !ask.brings_credentials() {
            true => self.early.confirm(key),
            false if !is_shared => self.early.forget(key),
            false => {}
        }
    }
}

/// Most URLs with early hints.
const ENTRIES_MAX: usize = 4096;
/// Most links of a URL, and the longest of them in bytes.
const LINKS_MAX: usize = 8;
const LINK_MAX: usize = 1024;
/// Interim answers that may wait for their client.
const INTERIM_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_count_once_their_answer_is_shared() {
        let (table, link) = (RememberedHints::default(), HeaderValue::from_static("</a>; rel=preload"));
        table.note(1, vec![link.clone()]);
        assert_eq!(table.of(1), None);
        table.confirm(1);
        assert_eq!(table.of(1), Some(vec![link]));
        table.forget(1);
        assert_eq!(table.of(1), None);
        table.confirm(2);
        assert_eq!(table.of(2), None, "there are none");
    }

    #[test]
    fn oldest_urls_are_forgotten() {
        let table = RememberedHints::default();
        (0..ENTRIES_MAX as u64 + 10).for_each(|key| table.confirm(key));
        let table = table.0.lock();
        assert_eq!((table.entries.len(), table.order.len()), (ENTRIES_MAX, ENTRIES_MAX));
        assert!(!table.entries.contains_key(&9) && table.entries.contains_key(&10));
    }
}
