//! Access to origins: pooled HTTP/1.1 and HTTP/2 connections, plain and TLS.
//!
//! ```text
//! fetch ─► attempt ─► channel ─┬─► pool: a kept connection, or a permit ─► dial ─► tls ─► http1, 2
//!             ▲                └─► send ─► framing: is the head valid? ─► response_body
//!             └── once more when a kept connection was dead, or at a site's next upstream
//! ```
//!
//! Connections belong to the runtime of the thread that opened them. All threads share the limits.

#![forbid(unsafe_code)]

mod attempt;
mod background;
mod channel;
mod check;
pub mod connection_auth;
mod credentials;
mod dial;
mod driver;
mod error;
mod exchanged;
mod framing;
mod group;
mod head;
mod http1;
mod http2;
mod links;
mod names;
mod pinning;
mod pool;
mod request_body;
mod resolve;
mod response_body;
mod socket;
mod tls;
pub mod tunnel;
mod tunnelled;

pub use attempt::PreparedCall;
pub use background::Background;
pub use credentials::Credentials;
pub use error::{Cause, UpstreamError};
pub use exchanged::{Caller, Destination, Origin, PeerTerms, Scheme, UpstreamRequest, UpstreamResponse};
pub use group::{GroupMember, UpstreamGroup, UpstreamUrlError, is_below_any};
pub use links::PeerTarget;
pub use pinning::PinVerifier;
pub use resolve::{Lookup, Resolve, SystemResolver};

use shoal_access as access;
use shoal_access::settings_file;
use shoal_clock as clock;
use shoal_message as message;
use shoal_telemetry::{by_site, metrics};
use shoal_transport as transport;

use crate::access::{AccessRefusal, ForwardRules};
use crate::message::{Client, TunnelIo};
use crate::metrics::Metrics;
use links::PeerLinks;
use names::Names;
use pool::{Gate, Pool, ThreadUse};
use shoal_settings::{Settings, Upstream};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};
use tls::{AuthorityScope, TrustStore};
use tokio::time::Instant;
use tunnelled::TunnelStream;

/// Handle for sending requests to origins. Clones share one pool and may be used from any thread's
/// runtime.
#[derive(Clone)]
pub struct Upstreams {
    inner: Arc<Inner>,
}

struct Inner {
    settings: Upstream,
    names: Arc<Names>,
    trust: TrustStore,
    pool: Arc<Pool>,
    /// Permits for CONNECT tunnels.
    tunnels: Arc<Gate>,
    metrics: Arc<Metrics>,
    /// Links to the other nodes of the cluster, if these are the destinations.
    links: Option<PeerLinks>,
}

/// Reason why these settings cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum SetupError {
    /// `upstream.ca_file` cannot be read, or holds no certificate.
    CaFile(PathBuf, io::Error),
    /// `ca_file` of a mirror cannot be read, or holds no certificate.
    MirrorCaFile(PathBuf, io::Error),
    /// `acme.ca_file` cannot be read, or holds no certificate.
    AcmeCaFile(PathBuf, io::Error),
    /// `upstream.pinned_certificates` cannot be read, or holds no certificate.
    PinnedCertificates(PathBuf, io::Error),
}

impl Upstreams {
    /// Applies the settings. Opens no connection yet.
    ///
    /// # Errors
    /// Returns an error if `upstream.ca_file` or `upstream.pinned_certificates` cannot be used.
    pub fn new(settings: &Settings, metrics: Arc<Metrics>) -> Result<Self, SetupError> {
        Self::with_resolver(settings, metrics, Arc::new(SystemResolver))
    }

    /// Applies the settings like [`Self::new`], with another resolver.
    ///
    /// # Errors
    /// Returns an error if `upstream.ca_file` or `upstream.pinned_certificates` cannot be used.
    pub fn with_resolver(
        settings: &Settings,
        metrics: Arc<Metrics>,
        resolver: Arc<dyn Resolve>,
    ) -> Result<Self, SetupError> {
        let scopes =
            settings.mirror.iter().filter_map(|mirror| AuthorityScope::of_mirror(mirror).transpose());
        Self::with_scopes(settings, metrics, resolver, scopes.collect::<Result<Vec<_>, _>>()?)
    }

    /// Applies the settings for requests to the authority of `[acme]` alone. Its connections are
    /// apart from those to origins, so that a reload can change the trust in it.
    ///
    /// # Errors
    /// Returns an error if `acme.ca_file`, `upstream.ca_file` or `upstream.pinned_certificates`
    /// cannot be used.
    pub fn for_orders(settings: &Settings, metrics: Arc<Metrics>) -> Result<Self, SetupError> {
        let scopes = AuthorityScope::of_acme(&settings.acme)?.into_iter().collect();
        Self::with_scopes(settings, metrics, Arc::new(SystemResolver), scopes)
    }

    fn with_scopes(
        settings: &Settings,
        metrics: Arc<Metrics>,
        resolver: Arc<dyn Resolve>,
        scopes: Vec<AuthorityScope>,
    ) -> Result<Self, SetupError> {
        let settings = settings.upstream.clone();
        let trust = TrustStore::new(&settings, scopes)?;
        let pool = Pool::new(&settings, ThreadUse::Shared, Arc::clone(&metrics));
        let names = Names::new(resolver, settings.connect_timeout, Arc::clone(&metrics));
        let tunnels = Gate::new(settings.tunnels, 0);
        let links = None;
        Ok(Self { inner: Arc::new(Inner { settings, names, trust, pool, tunnels, metrics, links }) })
    }

    /// Sends a request and waits for the head of its response. Must run within a tokio runtime.
    /// Dropping the future cancels the request.
    ///
    /// # Errors
    /// Returns an error if no usable response head arrived; see [`Cause`].
    pub async fn fetch(&self, request: UpstreamRequest) -> Result<UpstreamResponse, UpstreamError> {
        self.errand(request).run().await
    }

    /// Prepares a request. [`PreparedCall::run`] sends it without moving the request.
    pub fn errand(&self, request: UpstreamRequest) -> PreparedCall<'_> {
        self.inner.errand(request)
    }

    /// Returns `upstream.connections_per_origin`.
    pub fn connections_per_origin(&self) -> usize {
        self.inner.settings.connections_per_origin
    }

    /// Returns `true` if an authenticated connection is kept for this client's connection.
    pub fn has_pinned(&self, client: &Arc<Client>) -> bool {
        self.inner.pool.has_pinned(client)
    }

    /// Connects to an origin for `caller` without sending any bytes: the start of a tunnel. Returns
    /// the address reached.
    ///
    /// # Errors
    /// Returns an error if the rules forbid all addresses, if no address accepts, or if `caller`
    /// has used its share of `upstream.tunnels`.
    pub async fn dial(
        &self,
        origin: &Origin,
        rules: &Arc<ForwardRules>,
        caller: &Caller,
    ) -> Result<(Box<dyn TunnelIo>, SocketAddr), UpstreamError> {
        let inner = &*self.inner;
        let deadline = Instant::now() + inner.settings.connect_timeout;
        let permit = inner.tunnels.try_acquire(caller.party());
        let outcome = match (rules.destination(&origin.host), &permit) {
            (Ok(()), Some(_)) => dial::dial(&inner.names, origin, (Some(rules), caller), deadline).await,
            (Ok(()), None) => {
                let why = "too many tunnels: upstream.tunnels, or this client's share";
                Err(UpstreamError::new(Cause::ConnectionLimit, origin.authority(), why))
            }
            (Err(refusal), _) => Err(UpstreamError::refused(refusal, origin)),
        };
        let stream = outcome.inspect_err(|error| error.cause.counter(&inner.metrics).increment())?;
        let gone =
            |error: io::Error| UpstreamError::new(Cause::Terminated, origin.authority(), error.to_string());
        let peer = stream.peer_addr().map_err(gone)?;
        Ok((Box::new(TunnelStream::new(stream, permit)), peer))
    }

    /// Judges the addresses of a host and port that a client names, without a connection. Returns
    /// the refusal, if the rules allow no address.
    ///
    /// # Errors
    /// If the name has no address, in a line.
    pub async fn judge_addresses(
        &self,
        (host, port): (&str, u16),
        rules: &ForwardRules,
    ) -> Result<Option<AccessRefusal>, String> {
        let deadline = Instant::now() + self.inner.settings.connect_timeout;
        dial::judge(&self.inner.names, &Origin::new(Scheme::Http, host, port), rules, deadline).await
    }

    /// Starts the active checks of a group on this runtime, if configured. The checks end when the
    /// group is dropped.
    pub fn watch(&self, group: &Arc<UpstreamGroup>) {
        let Some(check) = group.check() else { return };
        for index in 0..group.members().len() {
            // Spread the checks of many sites over the interval.
            let spread = group.random() % 1000;
            let delay = check.interval.mul_f64(spread as f64 / 1000.0);
            let checks = check::watch(Arc::clone(&self.inner), Arc::downgrade(group), index, delay);
            tokio::spawn(checks);
        }
    }
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CaFile(path, source) => write!(f, "upstream.ca_file {}: {source}", path.display()),
            Self::MirrorCaFile(path, source) => {
                write!(f, "mirror.ca_file {}: {source}", path.display())
            }
            Self::AcmeCaFile(path, source) => write!(f, "acme.ca_file {}: {source}", path.display()),
            Self::PinnedCertificates(path, source) => {
                write!(f, "upstream.pinned_certificates {}: {source}", path.display())
            }
        }
    }
}

impl std::error::Error for SetupError {}

/// Time for which a body is held back for a `100 Continue` that does not arrive. RFC 9110, 10.1.1:
/// "a client ... SHOULD NOT wait for an indefinite period before sending the content".
pub const CONTINUE_WAIT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
