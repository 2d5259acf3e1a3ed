//! The rules of forward mode, and the rules about purging.

use super::address::{canonical, private_class};
use super::clients::contains;
use super::pattern::{HostPattern, HostPatterns, PatternError};
use super::peers::PeerAddresses;
use super::users::{Users, UsersError};
use http::{HeaderValue, StatusCode};
use ipnet::IpNet;
use shoal_semantics::status_fields::ProxyError;
use shoal_settings::{Forward, Ports};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Users and destinations that forward mode serves. Each listener decides about its clients. The
/// rules are built once per reading of the settings.
#[derive(Debug)]
pub struct ForwardRules {
    connect_ports: Vec<u16>,
    request_ports: Vec<Ports>,
    deny: HostPatterns,
    allow_private: HostPatterns,
    own: Vec<SocketAddr>,
    /// Listeners for peers of the cluster's nodes, in a cluster.
    peers: OnceLock<Arc<PeerAddresses>>,
    users: Option<Users>,
    challenge: HeaderValue,
    id: u64,
}

/// Reason for refusing a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessRefusal {
    /// The client's network is not served.
    Client(IpAddr),
    /// Credentials are missing or wrong: 407 with [`ForwardRules::challenge`].
    Credentials,
    /// CONNECT to a port outside `connect_ports`.
    Port(u16),
    /// Another request to a port outside `request_ports`.
    RequestPort(u16),
    /// The destination is on the deny list.
    Denied(String),
    /// The destination resolves to an address that is not public.
    Private(IpAddr, &'static str),
    /// The destination is this proxy.
    Own(SocketAddr),
    /// Reverse mode has no site for this host and path.
    Site,
    /// The connection's certificate is not valid for this host.
    Misdirected,
    /// Reverse mode opens no tunnels.
    Tunnels,
    /// The client's network may not purge.
    Purge(IpAddr),
    /// Credentials for this node in reverse mode are missing or wrong: 401.
    Unauthorized,
    /// No certificate, or one that is not listed.
    Certificate,
    /// More requests than the client's rate; with the seconds to wait.
    Rate(u64),
    /// Too many wrong passwords; with the seconds to wait.
    Guessing(u64),
}

/// An invalid rule.
#[derive(Debug)]
#[non_exhaustive]
pub enum AccessError {
    /// Invalid entry in a list of destinations.
    Pattern(&'static str, PatternError),
    /// Invalid users file, with its setting.
    Users(&'static str, UsersError),
    /// A realm that is not a valid field value.
    Realm(String),
}

impl ForwardRules {
    /// Reads the rules, and the users file if one is set. `own` are the addresses on which this
    /// process listens, including the admin interface.
    ///
    /// # Errors
    /// If an entry or the users file is invalid.
    pub fn new(forward: &Forward, own: &[SocketAddr]) -> Result<Self, AccessError> {
        let users = match &forward.users_file {
            Some(path) => {
                Some(Users::read(path).map_err(|error| AccessError::Users("forward.users_file", error))?)
            }
            None => None,
        };
        Ok(Self {
            connect_ports: forward.connect_ports.clone(),
            request_ports: forward.request_ports.clone(),
            deny: patterns("forward.deny_destinations", &forward.deny_destinations)?,
            allow_private: patterns(
                "forward.allow_private_destinations",
                &forward.allow_private_destinations,
            )?,
            own: own.to_vec(),
            peers: OnceLock::new(),
            users,
            challenge: challenge(&forward.realm)?,
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
        })
    }

    /// Refuses the listeners for peers as destinations, however the other rules decide. A member
    /// there believes this node's address, so that a client would speak in this node's name.
    pub fn guard_peers(&self, peers: &Arc<PeerAddresses>) {
        self.peers.get_or_init(|| Arc::clone(peers));
    }

    /// Returns a number that is unique to these rules in this process. Connections opened under
    /// other rules are not reused.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the users that may use the proxy; `None` if no user is asked for.
    pub fn users(&self) -> Option<&Users> {
        self.users.as_ref()
    }

    /// Returns the user that `Proxy-Authorization` proves, or `None` if the rules require no user.
    ///
    /// # Errors
    /// [`AccessRefusal::Credentials`].
    pub fn authenticate(&self, authorization: Option<&HeaderValue>) -> Result<Option<String>, AccessRefusal> {
        let Some(users) = &self.users else { return Ok(None) };
        let user = authorization.and_then(|value| users.authenticate(value.as_bytes()));
        user.map(Some).ok_or(AccessRefusal::Credentials)
    }

    /// Returns the Proxy-Authenticate value of a 407.
    pub fn challenge(&self) -> &HeaderValue {
        &self.challenge
    }

    /// Checks that CONNECT may reach this port.
    ///
    /// # Errors
    /// [`AccessRefusal::Port`].
    fn connect_port(&self, port: u16) -> Result<(), AccessRefusal> {
        if self.connect_ports.contains(&port) { Ok(()) } else { Err(AccessRefusal::Port(port)) }
    }

    /// Checks name and port of a CONNECT to `host`, in lower case.
    ///
    /// # Errors
    /// [`AccessRefusal::Port`] or [`AccessRefusal::Denied`].
    pub fn tunnel(&self, host: &str, port: u16) -> Result<(), AccessRefusal> {
        self.connect_port(port).and_then(|()| self.destination(host))
    }

    /// Checks name and port of any other request to `host`, in lower case. The check also covers
    /// answers from the cache.
    ///
    /// # Errors
    /// [`AccessRefusal::Denied`] or [`AccessRefusal::RequestPort`].
    pub fn request(&self, host: &str, port: u16) -> Result<(), AccessRefusal> {
        self.destination(host).and_then(|()| self.request_port(port))
    }

    /// Checks that requests other than CONNECT may reach this port. The check also covers answers
    /// from the cache.
    ///
    /// # Errors
    /// [`AccessRefusal::RequestPort`].
    fn request_port(&self, port: u16) -> Result<(), AccessRefusal> {
        match self.request_ports.iter().any(|ports| ports.contains(port)) {
            true => Ok(()),
            false => Err(AccessRefusal::RequestPort(port)),
        }
    }

    /// Checks the destination's name: `host` in lower case. The check also covers answers from the
    /// cache. [`Self::address`] checks the addresses of the destination.
    ///
    /// # Errors
    /// [`AccessRefusal::Denied`].
    pub fn destination(&self, host: &str) -> Result<(), AccessRefusal> {
        let host = bare(host);
        if self.deny.match_name(host) { Err(AccessRefusal::Denied(host.into())) } else { Ok(()) }
    }

    /// Checks that the proxy may connect to this address, to which `host` resolved.
    ///
    /// # Errors
    /// [`AccessRefusal::Denied`], [`AccessRefusal::Own`] or [`AccessRefusal::Private`].
    pub fn address(&self, host: &str, address: SocketAddr) -> Result<(), AccessRefusal> {
        let ip = canonical(address.ip());
        let listed = |list: &HostPatterns| list.match_address(ip) || list.match_address(address.ip());
        if listed(&self.deny) {
            return Err(AccessRefusal::Denied(ip.to_string()));
        }
        let is_peer = || self.peers.get().is_some_and(|peers| peers.listens(address));
        if self.is_own(ip, address.port()) || is_peer() {
            return Err(AccessRefusal::Own(address));
        }
        match private_class(address.ip()) {
            Some(class) if !listed(&self.allow_private) && !self.allow_private.match_name(host) => {
                Err(AccessRefusal::Private(address.ip(), class))
            }
            _ => Ok(()),
        }
    }

    /// Returns `true` if [`Self::address`] decides alike under both sets of rules. The addresses of
    /// this process are not compared.
    pub fn judges_addresses_as(&self, other: &Self) -> bool {
        self.deny.match_addresses_of(&other.deny) && self.allow_private == other.allow_private
    }

    /// Checks that a connection that was just opened does not lead back to this process. The
    /// destination alone does not reveal a listener on all addresses. A connection with the same
    /// address at both ends leads to this machine. The kernel may also connect to another address
    /// than the one requested.
    ///
    /// # Errors
    /// [`AccessRefusal::Own`].
    pub fn connected(&self, local: SocketAddr, peer: SocketAddr) -> Result<(), AccessRefusal> {
        let far = peer.ip().to_canonical();
        let this_machine = local.ip().to_canonical() == far;
        let listening = self.own.iter().filter(|own| own.port() == peer.port()).any(|own| {
            own.ip().to_canonical() == far || this_machine && own.ip().to_canonical().is_unspecified()
        });
        if listening { Err(AccessRefusal::Own(peer)) } else { Ok(()) }
    }

    fn is_own(&self, ip: IpAddr, port: u16) -> bool {
        self.own.iter().filter(|own| own.port() == port).any(|own| {
            let own = own.ip().to_canonical();
            // The kernel connects a request for the unspecified address to loopback.
            let loopback = ip.is_loopback() || ip.is_unspecified();
            own == ip || own.is_unspecified() && loopback || own.is_loopback() && ip.is_unspecified()
        })
    }
}

/// Networks that may send PURGE to the ordinary listeners.
#[derive(Clone, Debug)]
pub struct PurgeRules(Vec<IpNet>);

impl PurgeRules {
    /// Allows these networks.
    pub fn new(purge_from: &[IpNet]) -> Self {
        Self(purge_from.to_vec())
    }

    /// Checks that this client may purge.
    ///
    /// # Errors
    /// [`AccessRefusal::Purge`].
    pub fn client(&self, address: IpAddr) -> Result<(), AccessRefusal> {
        if contains(&self.0, address) { Ok(()) } else { Err(AccessRefusal::Purge(address.to_canonical())) }
    }
}

impl AccessRefusal {
    /// Returns the status of the answer to the client.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Credentials => StatusCode::PROXY_AUTHENTICATION_REQUIRED,
            Self::Own(_) => StatusCode::LOOP_DETECTED,
            Self::Site => StatusCode::NOT_FOUND,
            Self::Misdirected => StatusCode::MISDIRECTED_REQUEST,
            Self::Tunnels => StatusCode::METHOD_NOT_ALLOWED,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Rate(_) | Self::Guessing(_) => StatusCode::TOO_MANY_REQUESTS,
            _ => StatusCode::FORBIDDEN,
        }
    }

    /// Returns the setting that would allow the request.
    pub fn setting(&self) -> Option<&'static str> {
        match self {
            Self::Client(_) => Some("allow_clients"),
            Self::Credentials => Some("forward.users_file"),
            Self::Port(_) => Some("forward.connect_ports"),
            Self::RequestPort(_) => Some("forward.request_ports"),
            Self::Denied(_) => Some("forward.deny_destinations"),
            Self::Private(..) => Some("forward.allow_private_destinations"),
            Self::Purge(_) => Some("admin.purge_from"),
            Self::Unauthorized | Self::Guessing(_) => Some("users_file"),
            Self::Certificate => Some("allow_certificates"),
            Self::Rate(_) => Some("client_rate"),
            Self::Own(_) | Self::Site | Self::Misdirected | Self::Tunnels => None,
        }
    }

    /// Returns the error type of `Proxy-Status` (RFC 9209, 2.3).
    pub fn proxy_status(&self) -> ProxyError {
        match self {
            Self::Private(..) => ProxyError::DestinationIpProhibited,
            Self::Own(_) => ProxyError::ProxyLoopDetected,
            _ => ProxyError::HttpRequestDenied,
        }
    }
}

impl fmt::Display for AccessRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(address) => write!(f, "clients at {address} are not served"),
            Self::Credentials => f.write_str("credentials are missing or wrong"),
            Self::Port(port) => write!(f, "CONNECT to port {port} is not allowed"),
            Self::RequestPort(port) => write!(f, "requests to port {port} are not allowed"),
            Self::Denied(host) => write!(f, "destination {host} is not allowed"),
            Self::Private(address, class) => write!(f, "destination address {address} is {class}"),
            Self::Own(address) => write!(f, "destination {address} is this proxy"),
            Self::Site => f.write_str("no site is served under this host and path"),
            Self::Misdirected => f.write_str("the connection's certificate is not for this host"),
            Self::Tunnels => f.write_str("reverse mode makes no tunnels"),
            Self::Purge(address) => write!(f, "clients at {address} may not purge"),
            Self::Unauthorized => f.write_str("a user and a password are missing or wrong"),
            Self::Certificate => f.write_str("the client has no certificate that is served"),
            Self::Rate(_) => f.write_str("the client asks more often than its rate"),
            Self::Guessing(_) => f.write_str("the client has sent too many wrong passwords"),
        }
    }
}

impl std::error::Error for AccessRefusal {}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pattern(setting, source) => write!(f, "{setting}: {source}"),
            Self::Users(setting, source) => write!(f, "{setting}: {source}"),
            Self::Realm(realm) => write!(f, "realm {realm:?} cannot stand in a field"),
        }
    }
}

impl std::error::Error for AccessError {}

fn patterns(setting: &'static str, entries: &[String]) -> Result<HostPatterns, AccessError> {
    let parse = |entry: &String| HostPattern::parse(entry).map_err(|e| AccessError::Pattern(setting, e));
    entries.iter().map(parse).collect()
}

/// Builds `Basic realm="…", charset="UTF-8"` (RFC 7617, 2 and 2.1).
///
/// # Errors
/// [`AccessError::Realm`].
pub fn challenge(realm: &str) -> Result<HeaderValue, AccessError> {
    let quoted = realm.replace('\\', "\\\\").replace('"', "\\\"");
    let value = format!("Basic realm=\"{quoted}\", charset=\"UTF-8\"");
    HeaderValue::from_str(&value).map_err(|_| AccessError::Realm(realm.into()))
}

/// Returns a host without brackets and final dots. Resolvers may treat names with and without any
/// number of final dots as equal.
fn bare(host: &str) -> &str {
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.trim_end_matches('.')
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

#[cfg(test)]
mod tests;
