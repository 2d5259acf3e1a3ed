//! The home's side of `objects/hits`: several asks of one node, answered from RAM in one message.
//!
//! The decisions are those of an ask that comes alone ([`super::fast_path`]). An ask that needs a
//! wait or a second thought is answered "not at once": one for the disk, the origin or a variant,
//! where rules may have a say, or with purges that this node may lack. A hot object is not answered
//! either: the entry's own ask then brings it a lease.

use super::fast_path::AskedUrl;
use super::hand_over::HandOver;
use crate::CacheEngine;
use crate::clock;
use crate::cluster::AskRefusal;
use crate::hybrid_cache::MemoryEntry;
use crate::metadata::{ObjectMetadata as Stored, ResponseMetadata};
use crate::settings::ExchangeSettings;
use bytes::Bytes;
use http::StatusCode;
use shoal_cluster::{BorrowedHitAsks, CallError, CallFuture, Caller, HitAnswers, HitAsk, PeerService};
use shoal_core::Timestamp;
use shoal_semantics::validation::{self, Condition};
use shoal_wire::{Conditions, push_decimal};
use std::net::SocketAddr;
use std::sync::Weak;
use std::time::Instant;

/// Service that answers the calls with names that begin with `objects/`.
pub struct HitService(pub Weak<CacheEngine>);

impl PeerService for HitService {
    fn answer(&self, from: Caller, name: &str, body: Bytes) -> CallFuture<'_> {
        let answered = match (name, self.0.upgrade()) {
            (_, None) => Err(CallError::Refused("the node is stopping".into())),
            ("objects/hits", Some(engine)) => {
                let answered =
                    HitHome(&engine).answer_hits(&body, Vec::new(), (from.address, Instant::now()));
                answered.map_err(|_| CallError::Malformed(MALFORMED))
            }
            ("objects/offer", Some(engine)) => HandOver(engine).take_offer(&body),
            _ => Err(CallError::Unknown),
        };
        Box::pin(std::future::ready(answered.map(Bytes::from)))
    }
}

/// Home that answers messages.
pub(super) struct HitHome<'a>(pub &'a CacheEngine);

impl HitHome<'_> {
    /// Answers the asks of a message, behind these bytes. Returns them alone, as an error, if the
    /// message cannot be read.
    pub fn answer_hits(
        &self,
        message: &[u8],
        before: Vec<u8>,
        (from, received): (SocketAddr, Instant),
    ) -> Result<Vec<u8>, Vec<u8>> {
        let parsed = BorrowedHitAsks::parse(message).zip(self.0.cluster.as_deref());
        let Some((asks, cluster)) = parsed else { return Err(before) };
        let sequence = self.0.cache.purge_table.sequence();
        let in_force = self.0.in_force.load();
        let (live, now) = (&in_force.live, clock::time_at(received));
        let load = cluster.load().in_flight();
        let mut answers = HitAnswers::behind(before, load, cluster.members().view.fingerprint());
        let admitted = cluster.has_purges_of(asks.purges).then(|| cluster.begin_message(from));
        if let Some(Err(AskRefusal::OverShare)) = admitted {
            self.0.metrics.cluster_over_share.increment();
        }
        self.0.metrics.cluster_hit_messages.increment();
        for ask in asks.iter() {
            let is_over = !matches!(admitted, Some(Ok(_))) || answers.len() > ANSWER_BYTES_MAX;
            let found = if is_over { None } else { self.find_for_message(live, &ask, now) };
            let hot = |found: &AskedUrl| cluster.heated(found.key, sequence.number()).is_some();
            match found.filter(|found| !hot(found)) {
                Some(found) => self.push_hit(live, &ask, (&found, now), &mut answers),
                None => answers.push_none(),
            }
        }
        Ok(answers.finish())
    }

    /// Returns the response for an ask of a message, if it may be answered at once.
    fn find_for_message(
        &self,
        live: &ExchangeSettings,
        ask: &HitAsk<'_>,
        now: Timestamp,
    ) -> Option<AskedUrl> {
        let found = self.0.find_asked_url(live, ask.url, ask.site, now)?;
        let is_usual = |head: &ResponseMetadata| {
            head.stored.status() == StatusCode::OK
                && head.stored.is_dated()
                && !head.stored.has_content_range()
        };
        let Stored::Response(head) = &found.resident.record else { return None };
        (is_usual(head) && found.resident.body.len() <= BODY_BYTES_MAX).then_some(found)
    }

    /// Adds a response to the answers.
    fn push_hit(
        &self,
        live: &ExchangeSettings,
        ask: &HitAsk<'_>,
        (found, now): (&AskedUrl, Timestamp),
        answers: &mut HitAnswers,
    ) {
        let resident: &MemoryEntry = &found.resident;
        debug_assert!(resident.body.len() <= BODY_BYTES_MAX, "large bodies are not found");
        let Stored::Response(head) = &resident.record else { return answers.push_none() };
        let conditions =
            Conditions { if_none_match: ask.if_none_match, if_modified_since: ask.if_modified_since };
        let (stored, policy) = (&*head.stored, &head.policy);
        let verdict = match conditions.is_empty() {
            true => Condition::Proceed,
            false => {
                let today = clock::date_at(now);
                validation::evaluate(&conditions, stored.status(), stored, policy, today)
            }
        };
        let (lines, body) = match verdict {
            Condition::Proceed => (stored.as_bytes(), Some(&resident.body[..])),
            Condition::NotModified => (stored.bytes_with_304(), None),
            Condition::Forward => return answers.push_none(),
        };
        let (age, ttl) = (policy.age_seconds(now), policy.time_to_live(now).unsigned_abs());
        let own = &live.hit_fields;
        let write = |out: &mut Vec<u8>| {
            out.extend_from_slice(lines);
            out.extend_from_slice(b"age: ");
            push_decimal(out, age);
            out.extend_from_slice(&own.cache_status);
            push_decimal(out, ttl);
            out.extend_from_slice(&own.proxy_status);
        };
        answers.push((found.key.low(), resident.sum()), write, body);
        self.0.metrics.cluster_answers_served.increment();
        self.0.metrics.cluster_answers_at_once.increment();
        self.0.metrics.cluster_served_bytes.add(body.map_or(0, <[u8]>::len) as u64);
    }
}

/// Largest body, in bytes, of an answer. A larger one would delay the others.
const BODY_BYTES_MAX: usize = 64 << 10;

/// Bytes of answers after which no further one is added: the limit of a call, less the largest.
const ANSWER_BYTES_MAX: usize = shoal_cluster::CALL_BYTES_MAX - BODY_BYTES_MAX - (128 << 10);

const MALFORMED: &str = "malformed asks for hits";
