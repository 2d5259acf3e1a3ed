//! Invalidation: unsafe methods (RFC 9111, section 4.4), cache groups (RFC 9875), and purges by the
//! operator.

use super::CacheEngine;
use super::cache::Cache;
use super::hybrid_cache::{CachedObject, Removed};
use super::metadata::ObjectMetadata;
use super::purge_table::PurgeScope;
use super::request::RequestContext;
use super::settings::ExchangeSettings;
use super::target::{Target, part_key};
use crate::admin::{PurgeOutcome, PurgeRequest};
use crate::clock;
use http::StatusCode;
use shoal_core::{FieldLines, ObjectKey};
use shoal_semantics::{groups, invalidation};
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;

impl CacheEngine {
    /// Carries out the operator's purge under the settings in force.
    pub async fn purge(&self, request: PurgeRequest) -> PurgeOutcome {
        self.cache.purge(&self.live(), request).await
    }
}

impl Cache {
    /// Invalidates the target URI after an unsafe request.
    ///
    /// "A cache MUST invalidate the target URI when it receives a non-error status code in response
    /// to an unsafe request method" (4.4). A cache may do the same for Location and
    /// Content-Location of the same origin.
    pub(super) async fn invalidate_after(
        self: &Arc<Self>,
        ask: &RequestContext,
        status: StatusCode,
        response: &FieldLines,
    ) {
        if !invalidation::applies(&ask.method, status) {
            return;
        }
        let response = &response.to_map();
        let Ok(target) = ask.target.url.parse() else { return };
        let origin = ask.target.origin();
        let invalidated = groups::invalidated_groups(&ask.method, response);
        if !invalidated.is_empty() {
            self.purge_table.purge_groups(origin, &invalidated, clock::now());
        }
        let uris = invalidation::targets(&ask.method, &target, status, response);
        let keys = uris
            .iter()
            .filter_map(|uri| Target::of_uri(uri).ok())
            .flat_map(|target| ask.live.keys_of(&target));
        self.invalidate_apart(keys.collect()).await;
    }

    /// Runs [`Self::invalidate`] for each key, to its end even if the requesting client leaves
    /// meanwhile.
    pub(super) async fn invalidate_apart(self: &Arc<Self>, keys: Vec<ObjectKey>) {
        let exchange = Arc::clone(self);
        let done = tokio::spawn(async move {
            for key in keys {
                exchange.invalidate(&key).await;
            }
        });
        // This fails only when the runtime ends.
        let _ = done.await;
    }

    /// Makes every response stored under a URL unreachable, and keeps current fetches of it from
    /// being stored.
    pub(super) async fn invalidate(&self, primary: &ObjectKey) -> Removed {
        self.invalidations.mark(primary);
        self.flights.forget(primary);
        let mut removed = Removed { was_there: false, lasts: true };
        if let Some(CachedObject { record: ObjectMetadata::Parts(note), .. }) =
            self.find(primary, primary).await
        {
            for part in &note.parts {
                removed.lasts &= self
                    .objects
                    .remove(&part_key(primary, note.generation, part.start, part.end))
                    .await
                    .lasts;
            }
        }
        let removed = removed.and(self.objects.remove(primary).await);
        // A lookup that began after the first mark may have read the disk before the removal and
        // moved the object to RAM. After this mark such a lookup would not move it. An earlier move
        // is undone here.
        self.invalidations.mark(primary);
        removed.and(self.objects.remove(primary).await)
    }

    /// Purges the responses under these primary keys.
    async fn purge_keys(&self, keys: &[ObjectKey]) -> PurgeOutcome {
        let mut removed = Removed { was_there: false, lasts: true };
        for key in keys {
            removed = removed.and(self.invalidate(key).await);
        }
        match removed.lasts {
            true => PurgeOutcome::Purged { responses: Some(u64::from(removed.was_there)) },
            false => PurgeOutcome::Failed(NOT_FOR_GOOD.into()),
        }
    }

    /// Carries out the operator's purge. A request that cannot name a stored response is refused:
    /// success without effect would leave the intended responses in the cache.
    async fn purge(&self, live: &ExchangeSettings, request: PurgeRequest) -> PurgeOutcome {
        match &request {
            PurgeRequest::Url(url) => match Target::parse(url) {
                Ok(target) => self.purge_keys(&live.keys_of(&target)).await,
                Err(_) => PurgeOutcome::Invalid(format!("{url} is not an absolute http or https URL")),
            },
            PurgeRequest::Tag(tag) if groups::is_tag(tag) => self.purge_all(PurgeScope::Tag(tag)).await,
            PurgeRequest::Tag(tag) => PurgeOutcome::Invalid(format!(
                "{tag:?} is no tag: one tag of visible ASCII characters, without commas and blanks"
            )),
            // Normalized, like the slots of stored responses.
            PurgeRequest::Group { origin, group } => match Target::parse(origin) {
                Ok(target)
                    if target.path() == "/" && !target.host().contains('*') && groups::is_group(group) =>
                {
                    self.purge_table.purge_group(target.origin(), group, clock::now());
                    self.purge_written().await
                }
                Ok(_) if !groups::is_group(group) => PurgeOutcome::Invalid(format!("{group:?} is no group")),
                _ => {
                    PurgeOutcome::Invalid(format!("{origin:?} is no origin, such as http://example.org:8080"))
                }
            },
            PurgeRequest::Host(host) => match host_named(host) {
                Some(target) => self.purge_all(PurgeScope::Host(target.host())).await,
                None => PurgeOutcome::Invalid(format!(
                    "{host:?} is no host, such as example.org; it has no port, and there are no wildcards"
                )),
            },
            PurgeRequest::All => self.purge_all(PurgeScope::All).await,
        }
    }

    /// Purges every response with this name.
    async fn purge_all(&self, name: PurgeScope<'_>) -> PurgeOutcome {
        self.purge_table.purge(name);
        self.purge_written().await
    }

    /// Returns the outcome of a purge, once it is written to disk.
    async fn purge_written(&self) -> PurgeOutcome {
        match self.purges_written().await {
            Ok(()) => PurgeOutcome::Purged { responses: None },
            Err(error) => PurgeOutcome::Failed(format!(
                "purged until the next restart only: the purge could not be written down: {error}"
            )),
        }
    }

    /// Waits until all purges are written to disk, at most `WRITE_PATIENCE`.
    pub async fn purges_written(&self) -> Result<(), Arc<str>> {
        let written = tokio::time::timeout(WRITE_PATIENCE, self.purge_table.wait_written()).await;
        written.unwrap_or_else(|_| Err("the disk does not answer".into()))
    }
}

/// Returns the root of a host that an operator named; an IPv6 address may stand without brackets.
fn host_named(host: &str) -> Option<Target> {
    let bracketed = host.parse::<Ipv6Addr>().map(|address| format!("[{address}]"));
    let host = bracketed.as_deref().unwrap_or(host);
    let target = Target::parse(&format!("http://{host}/")).ok()?;
    (target.host().eq_ignore_ascii_case(host) && !host.contains('*')).then_some(target)
}

const NOT_FOR_GOOD: &str = "purged, but a disk has failed, does not answer or is out of service: what is on it may be served \
    again after the next start, unless the disk is in service before";

/// Longest wait for a disk that writes a purge.
const WRITE_PATIENCE: Duration = Duration::from_secs(3);
