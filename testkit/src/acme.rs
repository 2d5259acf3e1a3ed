//! A certificate authority that speaks ACME (RFC 8555), for tests: it checks signatures and nonces,
//! really looks for the proofs, and can be told to behave badly.
//!
//! ```text
//!   node ──POST, signed──► authority (an `Origin` over TLS)
//!     ▲                        │ http-01: GET at the plain listener
//!     └────────────────────────┘ tls-alpn-01: a handshake with the other one
//! ```

mod jose;
mod proof;
mod requests;

use crate::certificates::Authority;
use crate::origin::{Answer, Origin, Received};
use jose::Jose;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// A running authority. Its requests are counted by [`AcmeAuthority::origin`].
pub struct AcmeAuthority {
    origin: Origin,
    /// Signs the certificate of the authority's own server, and all that it issues.
    signer: Arc<Authority>,
    desk: Arc<Mutex<Desk>>,
}

/// A way to behave badly.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// 500 for each order.
    ServerError,
    /// 429 for each order, with this wish to wait.
    RateLimited(&'static str),
    /// `badNonce` for so many requests.
    BadNonce(usize),
    /// Orders stay pending for ever; each answer asks to come back in an hour.
    NeverReady,
    /// The certificate has this name alone.
    WrongName(&'static str),
    /// The certificate is for another key.
    WrongKey,
    /// Bodies without an end.
    Endless,
    /// Each order is sent round in a circle.
    Circle,
    /// The directory names another host.
    ForeignHost(String),
    /// Answers that are no JSON.
    Garbage,
    /// The authorizations are for a name that nobody ordered.
    OtherName(&'static str),
}

/// State of the authority.
#[derive(Default)]
struct Desk {
    url: String,
    nonces: HashSet<String>,
    next_nonce: usize,
    /// Public keys of accounts, by number from 1.
    accounts: Vec<Vec<u8>>,
    orders: Vec<Order>,
    fault: Option<Fault>,
    lifetime: Option<Duration>,
    /// Where the names are served: without TLS, and with.
    served_at: HashMap<&'static str, SocketAddr>,
    /// Key that a new account must be bound to.
    binding: Option<(String, Vec<u8>)>,
    /// Window that is suggested for renewals, in seconds since 1970.
    window: Option<(u64, u64)>,
    problems: Vec<String>,
    /// Addresses of the account that told some last.
    contact: Value,
}

struct Order {
    names: Vec<String>,
    proven: Vec<bool>,
    failed: Option<String>,
    chain: Option<String>,
    replaces: Option<String>,
}

impl Default for AcmeAuthority {
    fn default() -> Self {
        Self::start()
    }
}

impl AcmeAuthority {
    /// Starts an authority on loopback.
    pub fn start() -> Self {
        let signer = Arc::new(Authority::new());
        let origin = Origin::start_tls(&signer.issue(&["127.0.0.1"]));
        let desk = Arc::new(Mutex::new(Desk { url: origin.url(), ..Desk::default() }));
        let (at_desk, signs) = (Arc::clone(&desk), Arc::clone(&signer));
        origin.on_request("/*", move |request| requests::answer(&at_desk, &signs, request));
        Self { origin, signer, desk }
    }

    /// The URL of its directory.
    pub fn directory(&self) -> String {
        format!("{}/directory", self.origin.url())
    }

    /// Its server, with the counts of requests.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The signer of its certificates.
    pub fn signer(&self) -> &Authority {
        &self.signer
    }

    /// Looks for proofs at these listeners.
    pub fn looks_at(&self, plain: SocketAddr, secured: SocketAddr) {
        self.desk().served_at = HashMap::from([("http-01", plain), ("tls-alpn-01", secured)]);
    }

    /// Issues certificates for so long; ninety days otherwise.
    pub fn lifetime(&self, lifetime: Duration) {
        self.desk().lifetime = Some(lifetime);
    }

    /// Behaves badly from now on, or well again.
    pub fn fault(&self, fault: Option<Fault>) {
        self.desk().fault = fault;
    }

    /// Takes accounts that are bound to this key alone.
    pub fn bound_to(&self, id: &str, key: &[u8]) {
        self.desk().binding = Some((id.into(), key.to_vec()));
    }

    /// Suggests this window for renewals, in seconds since 1970.
    pub fn suggests(&self, window: (u64, u64)) {
        self.desk().window = Some(window);
    }

    /// Forgets all accounts.
    pub fn forget_accounts(&self) {
        self.desk().accounts.iter_mut().for_each(Vec::clear);
    }

    /// How many orders were made.
    pub fn orders(&self) -> usize {
        self.desk().orders.len()
    }

    /// How many certificates were issued.
    pub fn issued(&self) -> usize {
        self.desk().orders.iter().filter(|order| order.chain.is_some()).count()
    }

    /// How many orders told which certificate they replace.
    pub fn replacements(&self) -> usize {
        self.desk().orders.iter().filter(|order| order.replaces.is_some()).count()
    }

    /// How many accounts were made.
    pub fn accounts(&self) -> usize {
        self.desk().accounts.len()
    }

    /// The addresses that the last account has.
    pub fn contact(&self) -> Vec<String> {
        serde_json::from_value(self.desk().contact.clone()).unwrap_or_default()
    }

    /// Mistakes of requests, in order.
    pub fn problems(&self) -> Vec<String> {
        self.desk().problems.clone()
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        lock(&self.desk)
    }
}

fn lock(desk: &Mutex<Desk>) -> MutexGuard<'_, Desk> {
    desk.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Desk {
    /// Gives a nonce that is good for one request.
    fn nonce(&mut self) -> String {
        self.next_nonce += 1;
        let nonce = format!("nonce-{}", self.next_nonce);
        self.nonces.insert(nonce.clone());
        nonce
    }

    /// Checks the signature, the nonce and the URL of a request. Gives its payload, and the number
    /// of its account; 0 with a key of its own.
    fn checked(&mut self, request: &Received) -> Result<(Value, usize, Jose), Box<Answer>> {
        let refuse = |desk: &mut Self, kind: &str, why: &str| Err(Box::new(desk.problem(400, kind, why)));
        let Some(jose) = Jose::parse(&request.body) else {
            return refuse(self, "malformed", "no JWS");
        };
        if let Some(Fault::BadNonce(left)) = self.fault.clone() {
            self.fault = (left > 1).then_some(Fault::BadNonce(left - 1));
            return refuse(self, "badNonce", "told to say so");
        }
        if !self.nonces.remove(&jose.text("nonce")) {
            return refuse(self, "badNonce", "unknown, or used before");
        }
        if jose.text("url") != format!("{}{}", self.url, request.target) {
            return refuse(self, "unauthorized", "signed for another URL");
        }
        let account = jose.text("kid").rsplit('/').next().and_then(|number| number.parse().ok()).unwrap_or(0);
        let key = match account {
            0 => jose.own_key().unwrap_or_default(),
            number => self.accounts.get(number - 1).cloned().unwrap_or_default(),
        };
        if key.is_empty() {
            return refuse(self, "accountDoesNotExist", "no such account");
        }
        if !jose.is_signed_by(&key) {
            return refuse(self, "unauthorized", "a wrong signature");
        }
        Ok((jose.payload.clone(), account, jose))
    }

    fn problem(&mut self, status: u16, kind: &str, why: &str) -> Answer {
        self.problems.push(format!("{kind}: {why}"));
        let problem = json!({
            "type": format!("urn:ietf:params:acme:error:{kind}"),
            "detail": why,
            "status": status,
        });
        self.answer(status, &problem).field("Content-Type", "application/problem+json")
    }

    fn answer(&mut self, status: u16, value: &Value) -> Answer {
        let nonce = self.nonce();
        Answer::new(status)
            .piece(value.to_string())
            .field("Replay-Nonce", &nonce)
            .field("Cache-Control", "no-store")
    }
}

/// Seconds since 1970.
fn unix_now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}
