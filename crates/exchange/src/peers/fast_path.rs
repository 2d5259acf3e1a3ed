//! Fast path of the home: an ask for a fresh response in RAM, answered in place.
//!
//! The decisions equal those of [`CacheEngine::answer_ask`], and the answers equal its answers.
//! There is no task, no field map and no allocation. Every doubt takes the ordinary path: purges
//! that may be missing, rules that may have a say, ranges, conditions, and a busy node.

use crate::CacheEngine;
use crate::clock;
use crate::cluster::ClusterHandle;
use crate::fast_path::{HitKeeper, write_url};
use crate::hybrid_cache::MemoryEntry;
use crate::message::target::FORWARD;
use crate::message::{AccessRecord, Client, FastPathOutcome, HitFields, RamHit, ReplyForm, SendProgress};
use crate::metadata::ObjectMetadata as Stored;
use crate::settings::ExchangeSettings;
use shoal_cluster::{ANSWER_FIELD, AnswerResult, BorrowedAsk, ObjectAnswer, PEER_FIELD, TE_MARK};
use shoal_cooperation::{AskKind, HOPS_MAX};
use shoal_core::{Key, Timestamp};
use shoal_semantics::directives::RequestDirectives;
use shoal_semantics::reuse::{self, Reuse};
use shoal_settings::Mode;
use shoal_wire::FastPathRequest;
use shoal_wire::response::is_bodiless;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

impl CacheEngine {
    /// Answers the ask `plain` of another node through `send` if its response is in RAM and fresh.
    pub(crate) fn try_ask_fast_path(
        &self,
        plain: &FastPathRequest<'_>,
        client: &Client,
        received: Instant,
        send: impl FnOnce(&RamHit<'_>) -> SendProgress,
    ) -> FastPathOutcome {
        debug_assert!(client.is_peer(), "clients have another path");
        let Some(cluster) = &self.cluster else { return FastPathOutcome::NotTaken };
        let Some((ask, takes_mark)) = read(plain) else { return FastPathOutcome::NotTaken };
        let is_member = client.certificate.is_some() || cluster.members().has_address(client.address.ip());
        if !is_member || !cluster.has_purges_of(ask.purges) {
            return FastPathOutcome::NotTaken;
        }
        let sequence = self.cache.purge_table.sequence();
        let in_force = self.in_force.load();
        let (live, now) = (&in_force.live, clock::time_at(received));
        URL.with_borrow_mut(|url| {
            let Some((resident, key)) = self.find_asked(live, plain, &ask, url, now) else {
                return FastPathOutcome::NotTaken;
            };
            let Stored::Response(head) = &resident.record else { return FastPathOutcome::NotTaken };
            let Some(_in_flight) = cluster.begin_ask_at_once(client.address) else {
                return FastPathOutcome::NotTaken;
            };
            let mark = if takes_mark { cluster.digest_mark() } else { 0 };
            let answer = described(cluster, &ask, (&resident, key), (sequence.number(), mark));
            let age_seconds = head.policy.age_seconds(now);
            let ttl_seconds = head.policy.time_to_live(now).unsigned_abs();
            let stored = (&*head.stored, &resident.body);
            let keeper = HitKeeper { objects: &self.cache.objects, resident: &resident };
            OWN.with_borrow_mut(|own| {
                own.take_over(&live.hit_fields);
                push_answer(&mut own.proxy_status, &answer);
                let times = (age_seconds, ttl_seconds);
                let hit = RamHit::new(stored, ReplyForm::Whole, times, (own, &keeper));
                self.metrics.cluster_answers_served.increment();
                self.metrics.cluster_answers_at_once.increment();
                if let SendProgress::Whole { .. } = send(&hit) {
                    self.metrics.cluster_served_bytes.add(hit.content.len() as u64);
                    return FastPathOutcome::Sent;
                }
                let status = hit.status().as_u16();
                let record = AccessRecord { status, is_for_peer: true, ..AccessRecord::default() };
                FastPathOutcome::Sending(Some(Box::new(record)))
            })
        })
    }

    /// Returns the fresh response in RAM that the ask may have, and the hash of its primary key
    /// without this process's secret.
    fn find_asked(
        &self,
        live: &ExchangeSettings,
        plain: &FastPathRequest<'_>,
        ask: &BorrowedAsk<'_>,
        url: &mut Vec<u8>,
        now: Timestamp,
    ) -> Option<(Arc<MemoryEntry>, Key)> {
        if ask.is_mirror {
            return None;
        }
        let host = write_url(url, plain, false);
        let port = plain.authority.port.unwrap_or(80);
        self.find_by_key(live, (url, host, port, plain.path_text()), ask.site, now)
    }

    /// Returns the fresh response in RAM for a URL in its normal form, if another node may have it.
    pub(super) fn find_asked_url(
        &self,
        live: &ExchangeSettings,
        url: &[u8],
        site: Option<(&str, &str)>,
        now: Timestamp,
    ) -> Option<AskedUrl> {
        let text = std::str::from_utf8(url).ok()?;
        let (start, usual_port) = match text.strip_prefix("http://") {
            Some(_) => ("http://".len(), 80),
            None => text.strip_prefix("https://").map(|_| ("https://".len(), 443))?,
        };
        let path = start + text[start..].find('/')?;
        let authority = &text[start..path];
        let (host, port) = match authority.rsplit_once(':') {
            None => (authority, usual_port),
            Some((host, port)) => (host, port.parse().ok()?),
        };
        let host = start..start + host.len();
        URL.with_borrow_mut(|key| {
            key.clear();
            key.extend_from_slice(url);
            let (resident, key) = self.find_by_key(live, (key, host, port, &text[path..]), site, now)?;
            Some(AskedUrl { resident, key })
        })
    }

    /// Looks up a URL, of which the host's place, the port and the path are known.
    fn find_by_key(
        &self,
        live: &ExchangeSettings,
        (url, host, port, path): (&mut Vec<u8>, Range<usize>, u16, &str),
        site: Option<(&str, &str)>,
        now: Timestamp,
    ) -> Option<(Arc<MemoryEntry>, Key)> {
        let mode = if site.is_some() { Mode::Reverse } else { Mode::Forward };
        match site {
            // A node of sites alone is no way to other hosts.
            None => {
                live.forward.request(std::str::from_utf8(&url[host.clone()]).ok()?, port).ok()?;
                url.extend_from_slice(FORWARD);
            }
            Some(name) => {
                let site = live.routes.find(&url[host.clone()], path)?;
                let (first_host, prefix) = site.name();
                if (first_host, prefix) != name {
                    return None;
                }
            }
        }
        let key = Key::of(url);
        let resident = self.cache.objects.memory_entry_by_key(key, url)?;
        if !live.rule_set.is_empty() {
            let may_change = || live.may_change(mode, &url[host], path, false);
            if resident.judgement.of(live.rules_number, may_change) {
                return None;
            }
        }
        // A response with variants is left to the ordinary path, as is one without a body.
        let Stored::Response(head) = &resident.record else { return None };
        let is_usable = live.allowed_address(head)
            && !resident.body.is_empty()
            && !is_bodiless(head.stored.status())
            // This path does not check for credentials, which a negative response would require.
            && !head.policy.is_negative()
            && head.names.via_site == (mode == Mode::Reverse)
            && !self.cache.purge_table.is_purged(&head.names.slots, &head.names.groups, head.requested)
            && reuse::decide(&head.policy, &RequestDirectives::default(), now) == Reuse::Fresh;
        is_usable.then(|| {
            self.prefetcher.note_hit(key);
            (Arc::clone(&resident), Key::unkeyed(url))
        })
    }
}

/// Response in RAM that another node asks for by its URL.
pub(super) struct AskedUrl {
    /// The response.
    pub resident: Arc<MemoryEntry>,
    /// Hash of the full key without this process's secret.
    pub key: Key,
}

/// Reads the ask of a request for a whole response; `true` if its node reads the mark of a digest.
fn read<'b>(plain: &FastPathRequest<'b>) -> Option<(BorrowedAsk<'b>, bool)> {
    let (mut found, mut lines, mut takes_mark) = (None, 0, false);
    plain.each_field(|name, value| {
        if name.len() == PEER_FIELD.len() && name.eq_ignore_ascii_case(PEER_FIELD.as_bytes()) {
            (found, lines) = (Some(value), lines + 1);
        }
        takes_mark |= value == TE_MARK.as_bytes() && name.eq_ignore_ascii_case(b"te");
    });
    let is_whole = plain.absolute && !plain.is_head && plain.range.is_none() && plain.conditions.is_empty();
    let ask = BorrowedAsk::parse(found.filter(|_| is_whole && lines == 1)?).ok()?;
    (1..=HOPS_MAX).contains(&ask.hops).then_some((ask, takes_mark))
}

/// Describes the answer, and counts the ask for the object.
fn described(
    cluster: &ClusterHandle,
    ask: &BorrowedAsk<'_>,
    (resident, key): (&MemoryEntry, Key),
    (draw, mark): (u64, u64),
) -> ObjectAnswer {
    let lease = match ask.kind {
        AskKind::Home => cluster.heated(key, draw),
        AskKind::Holder => None,
    };
    debug_assert!(!resident.body.is_empty(), "an empty body has no sum in its head");
    ObjectAnswer {
        result: AnswerResult::Served,
        key: key.low(),
        is_shared: true,
        lease_ms: lease.map_or(0, |lease| u32::try_from(lease.as_millis()).unwrap_or(u32::MAX)),
        load: cluster.load().in_flight(),
        length: Some(resident.body.len() as u64),
        sum: Some(resident.sum()),
        view: cluster.members().view.fingerprint(),
        digest: mark,
    }
}

/// Appends the line that describes the answer.
fn push_answer(out: &mut Vec<u8>, answer: &ObjectAnswer) {
    out.extend_from_slice(ANSWER_FIELD.as_bytes());
    out.extend_from_slice(b": ");
    answer.push(out);
    out.extend_from_slice(b"\r\n");
}

thread_local! {
    /// Buffer for the effective URI, kept to avoid an allocation.
    static URL: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };

    /// This node's fields of an answer, kept likewise.
    static OWN: RefCell<HitFields> = const { RefCell::new(HitFields::EMPTY) };
}
