//! Invalidation: unsafe methods (RFC 9111, section 4.4), cache groups (RFC 9875), and purges by the
//! operator.

use super::CacheEngine;
use super::cache::Cache;
use super::destination;
use super::hybrid_cache::{CachedObject, RemovalResult};
use super::metadata::ObjectMetadata;
use super::purge_table::PurgeScope;
use super::request::RequestContext;
use super::settings::ExchangeSettings;
use super::target::{FORWARD, Target, part_key};
use crate::clock;
use crate::cluster::purges::{Confirmation, PurgeTarget};
use crate::purge::{PurgeOutcome, PurgeRequest};
use http::StatusCode;
use shoal_cooperation::NodeId;
use shoal_cooperation::invalidation::{Modes, Purge, PurgeId, Scope};
use shoal_core::{FieldLines, ObjectKey};
use shoal_semantics::{groups, invalidation};
use std::future::Future;
use std::net::Ipv6Addr;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

impl CacheEngine {
    /// Carries out the operator's purge under the settings in force, on all nodes of the cluster. A
    /// request that cannot name a stored response is refused: success without effect would leave
    /// the intended responses in the cache.
    pub async fn purge(&self, request: PurgeRequest) -> PurgeOutcome {
        if let (PurgeRequest::Url(url), Some(neighbours)) = (&request, &self.fetcher.neighbours) {
            neighbours.tell_purged(url);
        }
        self.purge_in_cluster(request).await
    }

    /// Carries out a purge on all nodes of the cluster, without a word to neighbours.
    pub(super) async fn purge_in_cluster(&self, request: PurgeRequest) -> PurgeOutcome {
        let scope = match scope_of(request) {
            Ok(scope) => scope,
            Err(why) => return PurgeOutcome::Invalid(why),
        };
        let Some(purges) = self.cluster.as_ref().and_then(|cluster| cluster.invalidation()) else {
            return self.cache.apply(&self.live(), &scope).await;
        };
        if !is_short(&scope) {
            return PurgeOutcome::Invalid(TOO_LONG.into());
        }
        let (outcome, confirmation) = purges.purge(scope, CONFIRM_PATIENCE).await;
        match outcome {
            PurgeOutcome::Purged { responses } => {
                let Confirmation { confirmed, missing } = confirmation;
                PurgeOutcome::Spread { responses, confirmed, missing }
            }
            other => other,
        }
    }

    /// Invalidates the target URI after an unsafe request, on all nodes of the cluster. A client
    /// waits for the other nodes only briefly.
    pub(super) async fn invalidate_after(
        self: &Arc<Self>,
        ask: &RequestContext,
        status: StatusCode,
        response: &FieldLines,
    ) {
        let scopes = scopes_after(ask, status, response);
        let purges = self.cluster.as_ref().and_then(|cluster| cluster.invalidation());
        let tasks: Vec<_> = scopes
            .into_iter()
            .map(|scope| {
                let (exchange, live) = (Arc::clone(self), Arc::clone(&ask.live));
                let purges = purges.filter(|_| is_short(&scope)).map(Arc::clone);
                // A task of its own: to its end even if the requesting client leaves meanwhile.
                tokio::spawn(async move {
                    match purges {
                        Some(purges) => drop(purges.purge(scope, UNSAFE_PATIENCE).await),
                        None => drop(exchange.cache.apply_unwritten(&live, &scope).await),
                    }
                })
            })
            .collect();
        for task in tasks {
            // This fails only when the runtime ends.
            let _ = task.await;
        }
    }
}

/// The cache of this node, for purges of the cluster.
pub struct EngineTarget(pub Weak<CacheEngine>);

impl PurgeTarget for EngineTarget {
    fn apply<'a>(&'a self, scope: &'a Scope) -> Pin<Box<dyn Future<Output = PurgeOutcome> + Send + 'a>> {
        Box::pin(async move {
            let Some(exchange) = self.0.upgrade() else {
                return PurgeOutcome::Failed("the node ends".into());
            };
            exchange.cache.apply(&exchange.live(), scope).await
        })
    }

    fn require_validation(&self) -> u64 {
        self.0.upgrade().map_or(0, |exchange| exchange.cache.purge_table.require_validation())
    }

    fn validate_before(&self, number: u64) {
        if let Some(exchange) = self.0.upgrade() {
            exchange.cache.purge_table.validate_before(number);
        }
    }

    fn validate_earlier_processes(&self, is_demanded: bool) {
        if let Some(exchange) = self.0.upgrade() {
            exchange.cache.purge_table.validate_earlier_processes(is_demanded);
        }
    }
}

/// Returns the responses that an unsafe request invalidates.
///
/// "A cache MUST invalidate the target URI when it receives a non-error status code in response to
/// an unsafe request method" (4.4). A cache may do the same for Location and Content-Location of
/// the same origin, and for the URI that COPY or MOVE writes to.
fn scopes_after(ask: &RequestContext, status: StatusCode, response: &FieldLines) -> Vec<Scope> {
    if !invalidation::applies(&ask.method, status) {
        return Vec::new();
    }
    let response = &response.to_map();
    let Ok(target) = ask.target.url.parse() else { return Vec::new() };
    let group =
        |group: String| Scope::Group { origin: ask.target.origin().to_owned(), group, is_operators: false };
    let groups = groups::invalidated_groups(&ask.method, response).into_iter().map(group);
    let mut uris = invalidation::targets(&ask.method, &target, status, response);
    uris.extend(destination::of(ask));
    let urls = uris
        .iter()
        .filter_map(|uri| Target::of_uri(uri).ok())
        .map(|target| Scope::Url { url: target.url.to_string(), modes: Modes::Both });
    groups.chain(urls).collect()
}

/// Returns the scope of an operator's purge.
///
/// # Errors
/// If it cannot name a stored response, with the reason.
fn scope_of(request: PurgeRequest) -> Result<Scope, String> {
    match request {
        PurgeRequest::Url(url) => match Target::parse(&url) {
            Ok(target) => Ok(Scope::Url { url: target.url.to_string(), modes: Modes::Both }),
            Err(_) => Err(format!("{url} is not an absolute http or https URL")),
        },
        PurgeRequest::Tag(tag) if groups::is_tag(&tag) => Ok(Scope::Tag(tag)),
        PurgeRequest::Tag(tag) => {
            Err(format!("{tag:?} is no tag: one tag of visible ASCII characters, without commas and blanks"))
        }
        // Normalized, like the slots of stored responses.
        PurgeRequest::Group { origin, group } => match Target::parse(&origin) {
            Ok(target)
                if target.path() == "/" && !target.host().contains('*') && groups::is_group(&group) =>
            {
                Ok(Scope::Group { origin: target.origin().to_owned(), group, is_operators: true })
            }
            Ok(_) if !groups::is_group(&group) => Err(format!("{group:?} is no group")),
            _ => Err(format!("{origin:?} is no origin, such as http://example.org:8080")),
        },
        PurgeRequest::Host(host) => match host_named(&host) {
            Some(target) => Ok(Scope::Host(target.host().to_owned())),
            None => Err(format!(
                "{host:?} is no host, such as example.org; it has no port, and there are no wildcards"
            )),
        },
        PurgeRequest::All => Ok(Scope::All),
    }
}

/// Returns `true` if the scope fits into a message between nodes.
pub(super) fn is_short(scope: &Scope) -> bool {
    let id = PurgeId { origin: NodeId(0), life: 0, number: 2 };
    Purge { id, scope: scope.clone() }.is_sound()
}

impl Cache {
    /// Runs [`Self::invalidate`] for each key, to its end even if the caller leaves meanwhile.
    #[cfg(test)]
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
    pub(super) async fn invalidate(&self, primary: &ObjectKey) -> RemovalResult {
        self.invalidations.mark(primary);
        self.flights.forget(primary);
        let mut removed = RemovalResult { was_there: false, lasts: true };
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
    async fn purge_keys(&self, keys: impl Iterator<Item = &ObjectKey>) -> PurgeOutcome {
        let mut removed = RemovalResult { was_there: false, lasts: true };
        for key in keys {
            removed = removed.and(self.invalidate(key).await);
        }
        match removed.lasts {
            true => PurgeOutcome::Purged { responses: Some(u64::from(removed.was_there)) },
            false => PurgeOutcome::Failed(NOT_FOR_GOOD.into()),
        }
    }

    /// Removes the responses of this scope, and waits until that is written to disk.
    async fn apply(&self, live: &ExchangeSettings, scope: &Scope) -> PurgeOutcome {
        match self.apply_unwritten(live, scope).await {
            PurgeOutcome::Purged { responses: None } => self.purge_written().await,
            outcome => outcome,
        }
    }

    /// Removes the responses of this scope. Purges by name are written to disk soon.
    async fn apply_unwritten(&self, live: &ExchangeSettings, scope: &Scope) -> PurgeOutcome {
        self.changes.tell(scope);
        self.apply_here(live, scope).await
    }

    /// Removes the responses of this scope in this process only.
    pub(super) async fn apply_here(&self, live: &ExchangeSettings, scope: &Scope) -> PurgeOutcome {
        let table = &self.purge_table;
        match scope {
            Scope::Start { .. } => return PurgeOutcome::Purged { responses: Some(0) },
            Scope::Url { url, modes } => {
                // This node has no response under a name that is no URL to it.
                let Ok(target) = Target::parse(url) else {
                    return PurgeOutcome::Purged { responses: Some(0) };
                };
                let keys = live.keys_of(&target);
                let is_of_mode = |key: &&ObjectKey| match modes {
                    Modes::Both => true,
                    Modes::Forward => key.full().ends_with(FORWARD),
                    Modes::Reverse => !key.full().ends_with(FORWARD),
                };
                return self.purge_keys(keys.iter().filter(is_of_mode)).await;
            }
            Scope::Tag(tag) => table.purge(PurgeScope::Tag(tag)),
            Scope::Group { origin, group, is_operators: true } => {
                table.purge_group(origin, group, clock::now());
            }
            Scope::Group { origin, group, is_operators: false } => {
                table.purge_groups(origin, std::slice::from_ref(group), clock::now());
            }
            Scope::Host(host) => table.purge(PurgeScope::Host(host)),
            Scope::All => table.purge(PurgeScope::All),
        }
        PurgeOutcome::Purged { responses: None }
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

/// Longest wait for the other nodes of the cluster: of an operator, and of a client after an unsafe
/// request.
const CONFIRM_PATIENCE: Duration = Duration::from_secs(3);
const UNSAFE_PATIENCE: Duration = Duration::from_millis(250);

const TOO_LONG: &str = "the name is too long to be sent to the other nodes, or has control characters";

#[cfg(test)]
mod tests;
