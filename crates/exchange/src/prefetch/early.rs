//! Early hints: an origin's 103 (RFC 8297) is remembered, and sent again while a later request
//! waits.
//!
//! RFC 8297, section 2: "A server that sends a 103 (Early Hints) response … might include header
//! fields that are likely to be included in the final response". Only `Link` is kept. Links
//! stay with their own request until its final answer turns out to be one for all clients: until
//! then they may be one client's own. A hit in RAM of a URL with hints takes the ordinary path, and
//! gets its 103 before the answer.

use super::Prefetcher;
use super::hint::HintFields;
use super::observe::{give, hints_of_links, shared_fields};
use crate::CacheEngine;
use crate::message::InterimSink;
use crate::request::RequestContext;
use crate::target::Target;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version, header};
use parking_lot::{Mutex, RwLock};
use shoal_cooperation::prefetch::HintSource;
use shoal_settings::EarlyHints;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Early hints by the hash of the URL's key. Each hit in RAM reads them, and few requests write.
#[derive(Default)]
pub(super) struct RememberedHints(RwLock<HintTable>);

#[derive(Default)]
struct HintTable {
    entries: HashMap<u64, Vec<HeaderValue>>,
    order: VecDeque<u64>,
}

/// Links that the origin sent ahead of the answer to one request.
#[derive(Default)]
pub(crate) struct RequestHints {
    links: Mutex<RequestLinks>,
    /// Client's own sink. Its interim answers come before an answer that is ready at once.
    own: Option<InterimSink>,
}

#[derive(Default)]
struct RequestLinks {
    links: Vec<HeaderValue>,
    /// The final answer is known.
    is_settled: bool,
    /// Interim answers that came before a final answer for all clients, and have not been noted.
    late: usize,
}

impl RequestHints {
    /// Notes the links of the next interim answer. Returns them, if the final answer has overtaken
    /// it and is one for all clients.
    fn note(&self, links: Vec<HeaderValue>) -> Option<Vec<HeaderValue>> {
        let mut own = self.links.lock();
        if own.is_settled {
            let is_late = own.late > 0;
            own.late = own.late.saturating_sub(1);
            return Some(links).filter(|_| is_late);
        }
        if !links.is_empty() {
            own.links = links;
        }
        None
    }

    /// Takes the links, since the final answer is known. `late` interim answers came before it and
    /// may be noted yet.
    fn settle(&self, late: usize) -> Vec<HeaderValue> {
        let mut own = self.links.lock();
        debug_assert!(late <= INTERIM_MAX, "the channel has a limit");
        (own.is_settled, own.late) = (true, late);
        std::mem::take(&mut own.links)
    }
}

impl RememberedHints {
    /// Keeps the links of a request with an answer for all clients. Without links, earlier ones
    /// stay.
    fn keep(&self, key: u64, links: Vec<HeaderValue>) {
        debug_assert!(links.len() <= LINKS_MAX, "a URL has a limit");
        if !links.is_empty() {
            *self.0.write().entry(key) = links;
        }
    }

    /// Forgets the links of a URL with an answer for one client.
    fn forget(&self, key: u64) {
        if let Some(links) = self.0.write().entries.get_mut(&key) {
            links.clear();
        }
    }

    /// Returns `true` if there are links for clients.
    pub(super) fn has(&self, key: u64) -> bool {
        self.0.read().entries.get(&key).is_some_and(|links| !links.is_empty())
    }

    /// Returns the links for a client.
    fn of(&self, key: u64) -> Option<Vec<HeaderValue>> {
        self.0.read().entries.get(&key).filter(|links| !links.is_empty()).cloned()
    }
}

impl HintTable {
    fn entry(&mut self, key: u64) -> &mut Vec<HeaderValue> {
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

/// Returns `true` if clients of this version of HTTP get early hints.
pub(super) fn takes(setting: EarlyHints, version: Version) -> bool {
    match setting {
        EarlyHints::Off => false,
        EarlyHints::Http2 => version >= Version::HTTP_2,
        EarlyHints::All => version >= Version::HTTP_11,
    }
}

/// Sends the remembered hints of a URL to a client that waits.
pub(super) fn send_again(remembered: &RememberedHints, ask: &RequestContext) {
    let takes_it = takes(ask.live.prefetch.early_hints, ask.version);
    let own = ask.early.as_ref().and_then(|hints| hints.own.as_ref()).or(ask.interim.as_ref());
    let Some(sink) = own.filter(|_| takes_it && ask.method == Method::GET) else { return };
    let Some(links) = remembered.of(ask.primary.hash().low()) else { return };
    let fields: HeaderMap = links.into_iter().map(|link| (header::LINK, link)).collect();
    // A client that takes no more gets none.
    let _ = sink.try_send((StatusCode::EARLY_HINTS, fields));
}

/// Puts a sink before the client's own. The client's own gets all interim answers; early hints are
/// noted on the way, where the settings want them and the answer may be one for all clients.
pub(crate) fn tee(engine: &Arc<CacheEngine>, ask: &mut RequestContext) {
    let settings = &ask.live.prefetch;
    let is_of_interest = settings.early_hints != EarlyHints::Off || settings.links;
    if !is_of_interest || ask.method != Method::GET || is_personal(ask) || ask.client.address.port() == 0 {
        return;
    }
    debug_assert!(ask.background.is_none(), "a prefetch has no client");
    let (sink, interims) = mpsc::channel(INTERIM_MAX);
    let own = ask.interim.replace(sink);
    let hints = Arc::new(RequestHints { links: Mutex::default(), own: own.clone() });
    ask.early = Some(Arc::clone(&hints));
    let teed = TeedHints {
        engine: Arc::clone(engine),
        own,
        hints,
        key: ask.primary.hash().low(),
        target: ask.target.clone(),
        reader: ask.client.address.ip(),
        fields: shared_fields(ask),
        has_given: false,
    };
    tokio::spawn(teed.run(interims));
}

/// Returns `true` if the answer to a request may be one client's own, or never comes to the cache.
fn is_personal(ask: &RequestContext) -> bool {
    ask.brings_credentials() || ask.speaks_of_user() || ask.ruling.passes || ask.client.certificate.is_some()
}

/// Interim answers on their way from an origin to a client.
struct TeedHints {
    engine: Arc<CacheEngine>,
    own: Option<InterimSink>,
    hints: Arc<RequestHints>,
    key: u64,
    target: Target,
    reader: IpAddr,
    fields: HintFields,
    has_given: bool,
}

impl TeedHints {
    async fn run(mut self, mut interims: mpsc::Receiver<(StatusCode, HeaderMap)>) {
        while let Some((status, fields)) = interims.recv().await {
            let links = match status {
                StatusCode::EARLY_HINTS => self.links(&fields),
                _ => Vec::new(),
            };
            if let Some(links) = self.hints.note(links) {
                self.engine.prefetcher.early.keep(self.key, links);
            }
            self.own.iter().for_each(|own| drop(own.try_send((status, fields.clone()))));
        }
    }

    /// Returns the links of a 103. Those of the first are hints for prefetching too.
    fn links(&mut self, fields: &HeaderMap) -> Vec<HeaderValue> {
        let fits = |value: &&HeaderValue| value.len() <= LINK_MAX;
        let links: Vec<HeaderValue> =
            fields.get_all(header::LINK).iter().filter(fits).take(LINKS_MAX).cloned().collect();
        let live = self.engine.live();
        if live.prefetch.links && !std::mem::replace(&mut self.has_given, true) {
            let values: Vec<&[u8]> = links.iter().map(HeaderValue::as_bytes).collect();
            let of = (&self.target, self.reader, self.fields.clone());
            give(&self.engine, hints_of_links(&live, of, &values, HintSource::EarlyHints));
        }
        if live.prefetch.early_hints == EarlyHints::Off { Vec::new() } else { links }
    }
}

impl Prefetcher {
    /// Notes if the answer to a request is one for all clients, and if it came from the origin for
    /// this request: links that came ahead of another answer are dropped.
    pub(super) fn note_sharing(&self, ask: &RequestContext, is_shared: bool, is_fetched: bool) {
        if ask.live.prefetch.early_hints == EarlyHints::Off {
            return;
        }
        let waiting = ask.interim.as_ref().map_or(0, |sink| sink.max_capacity() - sink.capacity());
        let is_kept = is_shared && is_fetched;
        let late = if is_kept { waiting } else { 0 };
        let links = ask.early.as_ref().map_or_else(Vec::new, |hints| hints.settle(late));
        let key = ask.primary.hash().low();
        if is_kept {
            self.early.keep(key, links);
        } else if !is_shared {
            self.early.forget(key);
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

    fn link(name: &'static str) -> Vec<HeaderValue> {
        vec![HeaderValue::from_static(name)]
    }

    #[test]
    fn links_stay_with_their_request_until_settled() {
        let (table, ann, bob) =
            (RememberedHints::default(), RequestHints::default(), RequestHints::default());
        assert_eq!((ann.note(link("</ann>")), bob.note(link("</all>"))), (None, None));
        assert_eq!(ann.note(Vec::new()), None, "an interim answer without links");
        assert_eq!(table.of(1), None);
        table.keep(1, bob.settle(0));
        assert_eq!(table.of(1), Some(link("</all>")), "those of the request that was settled");
        table.keep(1, RequestHints::default().settle(0));
        assert_eq!(table.of(1), Some(link("</all>")), "a hit has none, and leaves them");
        table.forget(1);
        assert_eq!(table.of(1), None);
        assert_eq!(ann.settle(0), link("</ann>"));
        assert_eq!((ann.note(link("</ann>")), ann.settle(0)), (None, Vec::new()), "it is over");
    }

    #[test]
    fn links_overtaken_by_their_answer_count() {
        let hints = RequestHints::default();
        assert!(hints.settle(2).is_empty());
        assert_eq!(hints.note(Vec::new()), Some(Vec::new()));
        assert_eq!(hints.note(link("</a>")), Some(link("</a>")));
        assert_eq!(hints.note(link("</b>")), None, "of a later answer to the same request");
    }

    /// Personal requests go past the cache, or have an answer of their own.
    #[tokio::test]
    async fn personal_requests_keep_no_links() {
        let mut settings = shoal_settings::Settings::default();
        settings.log.access = "none".into();
        settings.listen = vec![shoal_settings::Listen::forward(([127, 0, 0, 1], 0).into())];
        settings.prefetch.early_hints = EarlyHints::All;
        let engine = crate::tests::exchange(&settings);
        let asked = |request| match engine.admit(request) {
            crate::admit::AdmitOutcome::Asked(ask, ..) => Arc::into_inner(ask).expect("nobody else has it"),
            _ => panic!("it is allowed"),
        };
        let mut plain = asked(crate::tests::request());
        assert!(plain.early.is_some() && !is_personal(&plain));
        plain.ruling = crate::ruling::RuleOutcome::default().at_place("".into(), None, true);
        assert!(is_personal(&plain), "a rule lets it pass");
        let mut proven = crate::tests::request();
        Arc::get_mut(&mut proven.client).expect("its own").certificate = Some(Arc::default());
        assert!(asked(proven).early.is_none(), "a client certificate");
        let mut session = crate::tests::request();
        let cookie = [(&b"host"[..], &b"a.test"[..]), (b"cookie", b"a=b")];
        session.head.fields = cookie.into_iter().collect();
        assert!(asked(session).early.is_none(), "a cookie");
    }

    #[test]
    fn oldest_urls_are_forgotten() {
        let table = RememberedHints::default();
        (0..ENTRIES_MAX as u64 + 10).for_each(|key| table.keep(key, link("</a>")));
        let table = table.0.read();
        assert_eq!((table.entries.len(), table.order.len()), (ENTRIES_MAX, ENTRIES_MAX));
        assert!(!table.entries.contains_key(&9) && table.entries.contains_key(&10));
    }
}
