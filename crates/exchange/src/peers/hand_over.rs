//! Hand-over at a drain: the node offers its objects in RAM to the new homes, the hottest first.
//!
//! ```text
//!  drained node: objects/offer (URLs) ─► new home: asks the drained node, as its previous home
//! ```
//!
//! An offer names objects and carries none. The new home takes them one after the other, by the ask
//! that a client's request would cause, so that the same checks apply. It takes an offer only of a
//! node that was the home before. A node that offers too much is refused.

use crate::CacheEngine;
use crate::clock;
use crate::cluster::ClusterHandle;
use crate::hybrid_cache::ContentNote;
use crate::lookup::Lookup;
use crate::message::ReplyBody;
use crate::message::target::{FORWARD, Target};
use http::Method;
use http_body_util::BodyExt;
use shoal_cluster::{BorrowedHitAsks, CallError, HitAsk, HitAsks};
use shoal_cooperation::{MemberState, NodeId};
use shoal_core::Key;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Hand-over of a node, as the sender or the receiver of offers.
pub struct HandOver(pub Arc<CacheEngine>);

impl HandOver {
    /// Offers the objects in RAM to their new homes, once the others can know of the drain. Ends
    /// early if this node becomes a home again.
    pub async fn offer_all(self) {
        self.offer_after(KNOWN_AFTER).await;
    }

    /// Offers likewise before the node stops. The others have had less time to learn of the drain.
    pub async fn offer_before_stop(self) {
        self.offer_after(KNOWN_SOON_AFTER).await;
    }

    /// Offers objects after some time: to each new home in its turn, so that all get the hottest.
    async fn offer_after(self, known_after: Duration) {
        let Some(cluster) = self.0.cluster.clone() else { return };
        let is_draining = || {
            let own = cluster.members().view.member(cluster.own()).map(|member| member.state);
            own == Some(MemberState::Draining)
        };
        tokio::time::sleep(known_after).await;
        let mut homes = self.objects_by_new_home(&cluster);
        while !homes.is_empty() && is_draining() {
            let mut left = HashMap::with_capacity(homes.len());
            for (home, mut keys) in homes {
                let later = keys.split_off(keys.len().min(OFFERED_AT_ONCE));
                if self.offer_to(&cluster, home, &keys).await && !later.is_empty() {
                    left.insert(home, later);
                }
            }
            homes = left;
            tokio::time::sleep(OFFER_PAUSE).await;
        }
    }

    /// Offers some objects to a node. Returns `false` if it takes none: a node of an earlier
    /// version, or one that has enough to do.
    async fn offer_to(&self, cluster: &ClusterHandle, home: NodeId, keys: &[Vec<u8>]) -> bool {
        let Some(peer) = cluster.members().peer(home).cloned() else { return false };
        let offered = cluster.call_peer(&peer, "objects/offer", self.offer(cluster, keys).into());
        let is_taken = matches!(tokio::time::timeout(cluster.peer_timeout(), offered).await, Ok(Ok(_)));
        if is_taken {
            self.0.metrics.cluster_offered.add(keys.len() as u64);
        }
        is_taken
    }

    /// Returns the full keys of fresh responses in RAM by their new home, the hottest first.
    fn objects_by_new_home(&self, cluster: &ClusterHandle) -> HashMap<NodeId, Vec<Vec<u8>>> {
        let (notes, _) = self.0.cache.objects.look_at_memory(OFFERED_MAX, ContentNote::of);
        let now = u32::try_from(clock::now().seconds()).unwrap_or(u32::MAX);
        let rates: HashMap<Key, f32> = cluster.hottest().into_iter().collect();
        let fresh = notes.into_iter().filter(|note| note.fresh_until > now);
        let mut keys: Vec<(f32, Vec<u8>)> = fresh
            .map(|note| {
                let full = note.key.full().to_vec();
                (rates.get(&Key::unkeyed(&full)).copied().unwrap_or(0.0), full)
            })
            .collect();
        keys.sort_by(|one, next| next.0.total_cmp(&one.0));
        let members = cluster.members();
        let mut homes: HashMap<NodeId, Vec<Vec<u8>>> = HashMap::new();
        for (_, full) in keys {
            if let Some(home) = members.view.homes(&full).first().filter(|home| *home != cluster.own()) {
                homes.entry(home).or_default().push(full);
            }
        }
        homes
    }

    /// Builds the message that offers these keys.
    fn offer(&self, cluster: &ClusterHandle, keys: &[Vec<u8>]) -> Vec<u8> {
        let live = self.0.live();
        debug_assert!(keys.len() <= OFFERED_AT_ONCE, "a message has room for them");
        let mut offer = HitAsks::new(cluster.members().view.fingerprint(), cluster.purges());
        for full in keys {
            let url = full.strip_suffix(FORWARD).unwrap_or(full);
            let target = std::str::from_utf8(url).ok().and_then(|url| Target::parse(url).ok());
            let site = target.as_ref().filter(|_| url.len() == full.len());
            let site = site.and_then(|target| live.routes.find(target.host().as_bytes(), target.path()));
            let site = site.map(|site| site.name());
            offer.push(HitAsk { url, site, if_none_match: None, if_modified_since: None });
        }
        offer.finish()
    }

    /// Takes the offer of another node. Its objects are fetched in the background.
    pub fn take_offer(&self, message: &[u8]) -> Result<Vec<u8>, CallError> {
        let offer = BorrowedHitAsks::parse(message).ok_or(CallError::Malformed("a malformed offer"))?;
        let urls: Vec<(String, bool)> = offer
            .iter()
            .filter_map(|ask| Some((std::str::from_utf8(ask.url).ok()?.to_owned(), ask.site.is_some())))
            .collect();
        let count = urls.len();
        debug_assert!(count <= shoal_cluster::HITS_MAX, "a message is bounded");
        let before = self.0.offers.fetch_add(count, Relaxed);
        if before + count > OFFERS_WAITING_MAX {
            self.0.offers.fetch_sub(count, Relaxed);
            return Err(CallError::Refused("too many offers wait".into()));
        }
        let receiver = Self(Arc::clone(&self.0));
        tokio::spawn(async move {
            for (url, is_of_site) in urls {
                receiver.take_offered(&url, is_of_site).await;
                receiver.0.offers.fetch_sub(1, Relaxed);
            }
        });
        Ok(Vec::new())
    }

    /// Fetches an offered object from its previous home, unless it is here.
    async fn take_offered(&self, url: &str, is_of_site: bool) {
        let (Some(cluster), Ok(target)) = (&self.0.cluster, Target::parse(url)) else { return };
        let Ok(context) = self.0.supposed(target, Method::GET, cluster.address()) else { return };
        if context.site.is_some() != is_of_site {
            return;
        }
        let context = Arc::new(context.for_peer());
        let full = context.primary.full();
        let members = cluster.members();
        let is_home = members.view.homes(full).first() == Some(cluster.own());
        let before = cluster.previous_home(full).and_then(|node| members.view.member(node));
        // Without a previous home, or with one that has stopped, the origin would be asked.
        if !is_home || before.is_none_or(|member| member.state != MemberState::Draining) {
            return;
        }
        if !matches!(self.0.cache.lookup(&context).await, Lookup::Absent { .. }) {
            return;
        }
        let reply = self.0.serve(&context).await;
        if let ReplyBody::Stream { mut frames, .. } = reply.body {
            while let Some(Ok(_)) = frames.frame().await {}
        }
    }
}

/// Time after which the others know of the drain. Offers that come earlier are passed over.
const KNOWN_AFTER: Duration = Duration::from_secs(3);

/// The same for a node that stops. News of a drain reach most members of a small cluster within it.
const KNOWN_SOON_AFTER: Duration = Duration::from_millis(600);

/// Most objects that are offered.
const OFFERED_MAX: usize = 16_384;

/// Objects of one message, and the pause between two.
const OFFERED_AT_ONCE: usize = 32;
const OFFER_PAUSE: Duration = Duration::from_millis(20);

/// Most offered objects that wait at the new home.
const OFFERS_WAITING_MAX: usize = 4096;
