//! How origins are reached: pooled HTTP/1.1 and HTTP/2 connections, plain and TLS.

mod error;
mod exchanged;
mod group;
mod resolve;

pub use error::{Cause, UpstreamError};
pub use exchanged::{Destination, Origin, Scheme, UpstreamRequest, UpstreamResponse};
pub use group::{Group, Member, UpstreamUrlError};
pub use resolve::{Resolve, SystemResolver};

use crate::access::ForwardRules;
use crate::message::TunnelIo;
use crate::metrics::Metrics;
use shoal_settings::Settings;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

/// The way to all origins. Clones share one pool and may be used from any thread's runtime.
#[derive(Clone)]
pub struct Upstreams {
    inner: Arc<Inner>,
}

struct Inner {
    resolver: Arc<dyn Resolve>,
    metrics: Arc<Metrics>,
}

/// Why origins cannot be reached with these settings.
#[derive(Debug)]
#[non_exhaustive]
pub enum SetupError {
    /// `upstream.ca_file` cannot be read, or holds no certificate.
    CaFile(PathBuf, io::Error),
}

impl Upstreams {
    /// Takes the settings; opens nothing yet.
    ///
    /// # Errors
    /// When `upstream.ca_file` cannot be used.
    pub fn new(settings: &Settings, metrics: Arc<Metrics>) -> Result<Self, SetupError> {
        Self::with_resolver(settings, metrics, Arc::new(SystemResolver::default()))
    }

    /// As [`Self::new`], with another way to look names up.
    ///
    /// # Errors
    /// When `upstream.ca_file` cannot be used.
    pub fn with_resolver(
        _settings: &Settings,
        metrics: Arc<Metrics>,
        resolver: Arc<dyn Resolve>,
    ) -> Result<Self, SetupError> {
        Ok(Self { inner: Arc::new(Inner { resolver, metrics }) })
    }

    /// Sends a request and waits for the head of its response. Must run within a tokio runtime. Dropping the
    /// future gives the request up.
    ///
    /// # Errors
    /// When no usable response head came; see [`Cause`].
    pub async fn fetch(&self, request: UpstreamRequest) -> Result<UpstreamResponse, UpstreamError> {
        let _ = (&self.inner.resolver, &self.inner.metrics);
        Err(UpstreamError::new(Cause::Unreachable, request.target.as_str(), "not connected yet"))
    }

    /// Connects to an origin and speaks nothing: the start of a tunnel. Returns the address reached.
    ///
    /// # Errors
    /// When the rules forbid all its addresses, or none can be connected to.
    pub async fn dial(
        &self,
        origin: &Origin,
        rules: &Arc<ForwardRules>,
    ) -> Result<(Box<dyn TunnelIo>, SocketAddr), UpstreamError> {
        rules.destination(&origin.host).map_err(|refusal| UpstreamError::refused(refusal, origin))?;
        Err(UpstreamError::new(Cause::Unreachable, origin.authority(), "not connected yet"))
    }

    /// Starts the active checks of a group on this runtime, if it has any; they end when the group is dropped.
    pub fn watch(&self, group: &Arc<Group>) {
        let _ = group.check();
    }
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CaFile(path, source) => write!(f, "upstream.ca_file {}: {source}", path.display()),
        }
    }
}

impl std::error::Error for SetupError {}

/// How long a body is held back for a `100 Continue` that does not come. RFC 9110, 10.1.1: "a client ... SHOULD
/// NOT wait for an indefinite period before sending the content".
pub const CONTINUE_WAIT: Duration = Duration::from_secs(1);
