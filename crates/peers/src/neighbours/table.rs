//! One neighbour with its state: connections, standing, digest, addresses.

use super::standing::TrustRecord;
use crate::upstream::{Credentials, UpstreamGroup};
use arc_swap::{ArcSwap, ArcSwapOption};
use http::HeaderValue;
use parking_lot::Mutex;
use shoal_neighbours::digest::{CacheDigest, DigestKey};
use shoal_neighbours::htcp::HtcpKey;
use shoal_settings::{Neighbour, Settings, Site};
use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// One neighbour.
pub struct NeighbourEntry {
    /// Settings of the neighbour.
    pub settings: Neighbour,
    /// Connections to it.
    pub group: Arc<UpstreamGroup>,
    /// Value of Proxy-Authorization for it.
    pub credentials: Option<HeaderValue>,
    standing: Mutex<TrustRecord>,
    digest: ArcSwapOption<HeldDigest>,
    /// Addresses of its host, as last resolved.
    addresses: ArcSwap<Vec<IpAddr>>,
}

/// Digest of a neighbour.
pub(super) struct HeldDigest {
    pub digest: CacheDigest,
    /// Time since the start after which the digest says nothing.
    pub useful_until: Duration,
}

/// Reason why the neighbours of the settings cannot be used, in a line.
#[derive(Debug)]
pub struct SetupMistake(pub String);

impl NeighbourEntry {
    /// Returns `true` if the neighbour is not set aside.
    pub fn may_be_used(&self, now: Duration) -> bool {
        self.standing.lock().may_be_used(now)
    }

    /// Returns `true` if the neighbour has this address.
    pub fn is_at(&self, address: IpAddr) -> bool {
        self.addresses.load().contains(&address.to_canonical())
    }

    /// Returns the address to which questions go.
    pub(super) fn address(&self) -> Option<IpAddr> {
        self.addresses.load().first().copied()
    }

    pub(super) fn set_addresses(&self, addresses: Vec<IpAddr>) {
        self.addresses.store(Arc::new(addresses));
    }

    /// Returns `true` if the neighbour is asked by ICP or HTCP.
    pub fn answers_questions(&self) -> bool {
        self.settings.icp_port.is_some() || self.settings.htcp_port.is_some()
    }

    /// Returns the word of the neighbour's digest on a key; `None` without a digest.
    pub fn digest_has(&self, key: &DigestKey, now: Duration) -> Option<bool> {
        let held = self.digest.load();
        let held = held.as_ref().filter(|held| now < held.useful_until)?;
        Some(held.digest.contains(key))
    }

    pub(super) fn set_digest(&self, digest: HeldDigest) {
        self.digest.store(Some(Arc::new(digest)));
    }

    /// Notes a useful response.
    pub fn note_served(&self) {
        self.standing.lock().served();
    }

    /// Notes that the neighbour could not be reached or did not answer.
    pub fn note_failed(&self, now: Duration) {
        if self.standing.lock().failed(now, self.settings.connect_fail_limit) {
            tracing::warn!(
                neighbour = self.settings.name(),
                "the neighbour fails and is left alone for a time"
            );
        }
    }

    /// Notes that the neighbour lacked a URL that it said it holds.
    pub fn note_false_hit(&self, now: Duration) {
        if self.standing.lock().lied(now) {
            tracing::warn!(
                neighbour = self.settings.name(),
                "the neighbour lacks what it says it holds, and is left alone for a time"
            );
        }
    }
}

/// Makes the entries of all neighbours.
pub(super) fn entries(settings: &Settings) -> Result<Vec<Arc<NeighbourEntry>>, SetupMistake> {
    let entry = |(index, neighbour): (usize, &Neighbour)| {
        let failed = |why: String| SetupMistake(format!("neighbour[{index}]: {why}"));
        let url = format!("http://{}:{}", neighbour.host, neighbour.http_port);
        let site = Site {
            hosts: vec![format!("neighbour {}", neighbour.name())],
            path_prefix: String::new(),
            concurrency: neighbour.max_conn,
            queue: 0,
            ..Site::to(&url)
        };
        let group = UpstreamGroup::new(&site, index as u64).map_err(|error| failed(format!("{error:?}")))?;
        let credentials = neighbour.credentials.as_deref().map(Credentials::read).transpose();
        debug_assert!(neighbour.http_port > 0, "settings have a least port");
        let literal = neighbour.host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        Ok(Arc::new(NeighbourEntry {
            settings: neighbour.clone(),
            group: Arc::new(group.with_connect_timeout(neighbour.connect_timeout)),
            credentials: credentials.map_err(failed)?.map(|read| read.value),
            standing: Mutex::default(),
            digest: ArcSwapOption::empty(),
            addresses: ArcSwap::from_pointee(literal.into_iter().collect()),
        }))
    };
    settings.neighbour.iter().enumerate().map(entry).collect()
}

/// Reads the key for HTCP.
pub(super) fn read_key(path: &Path) -> Result<HtcpKey, SetupMistake> {
    let failed = |why: String| SetupMistake(format!("neighbours.htcp_key_file {}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    HtcpKey::parse(&text).map_err(|error| failed(error.to_string()))
}

impl fmt::Display for SetupMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SetupMistake {}
