//! Driver of the neighbours: one thread with the sockets, timers and fetches of digests.

use super::answering::{HtcpQuestion, QuestionDesk};
use super::asking::{AnswerUse, PurgeNotice, Question, Rounds, Verdict, sender};
use super::fetched_digest::{self, DigestFetch};
use super::local_objects::LocalObjects;
use super::own_digest::{OwnDigest, SeenObjects};
use super::{DriverOrder, DriverOrders, NeighbourCaches, SetupMistake};
use crate::clock;
use crate::metrics::Metrics;
use crate::upstream::Upstreams;
use shoal_neighbours::htcp::{HtcpContent, HtcpDatagram, HtcpMessage, HtcpOpcode, SocketPair, TEST_HELD};
use shoal_neighbours::icp::{IcpMessage, IcpOpcode};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};
use tokio::net::UdpSocket;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, sleep_until};

/// The driver's thread.
pub struct NeighbourThread {
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

/// Parts that the driver works with.
struct Driver {
    neighbours: Arc<NeighbourCaches>,
    answering: QuestionDesk,
    metrics: Arc<Metrics>,
    rounds: Rounds,
    icp: Option<Arc<UdpSocket>>,
    htcp: Option<Arc<UdpSocket>>,
    /// `true` if questions at the socket are answered, and not only asked from it.
    answers: (bool, bool),
    numbers: RandomState,
    next_number: u64,
}

impl NeighbourThread {
    /// Binds the sockets and starts the thread.
    ///
    /// # Errors
    /// If a socket cannot be bound, or no thread can be had.
    pub fn start(
        (neighbours, orders): (Arc<NeighbourCaches>, DriverOrders),
        engine: Arc<dyn LocalObjects>,
        upstreams: Arc<Upstreams>,
        metrics: Arc<Metrics>,
    ) -> Result<Self, SetupMistake> {
        Self::run((neighbours, orders), engine, upstreams, metrics)
            .map_err(|error| SetupMistake(format!("neighbours: cannot listen: {error}")))
    }

    fn run(
        (neighbours, orders): (Arc<NeighbourCaches>, DriverOrders),
        engine: Arc<dyn LocalObjects>,
        upstreams: Arc<Upstreams>,
        metrics: Arc<Metrics>,
    ) -> io::Result<Self> {
        let own = neighbours.settings();
        let asks = |port: fn(&shoal_settings::Neighbour) -> Option<u16>| {
            neighbours.entries.iter().any(|entry| port(&entry.settings).is_some())
        };
        let icp = bind(own.icp_listen, asks(|neighbour| neighbour.icp_port))?;
        let htcp = bind(own.htcp_listen, asks(|neighbour| neighbour.htcp_port))?;
        let answers = (own.icp_listen.is_some(), own.htcp_listen.is_some());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let run = move || {
            runtime.block_on(async move {
                let on_runtime = |socket: std::net::UdpSocket| UdpSocket::from_std(socket).map(Arc::new);
                let sockets = (icp.map(on_runtime).transpose(), htcp.map(on_runtime).transpose());
                let (Ok(icp), Ok(htcp)) = sockets else {
                    return tracing::error!("the sockets for neighbours cannot be used");
                };
                let rounds = Rounds::new(neighbours.entries.len(), neighbours.settings.query_timeout);
                tokio::spawn(fetch_digests(Arc::clone(&neighbours), upstreams, Arc::clone(&metrics)));
                tokio::spawn(resolve(Arc::clone(&neighbours)));
                tokio::spawn(build_digests(Arc::clone(&neighbours), Arc::clone(&engine)));
                let answering = QuestionDesk::new(Arc::clone(&neighbours), engine, Arc::clone(&metrics));
                let driver = Driver {
                    neighbours,
                    answering,
                    metrics,
                    rounds,
                    icp,
                    htcp,
                    answers,
                    numbers: RandomState::new(),
                    next_number: 0,
                };
                tokio::select! {
                    () = driver.run(orders.0) => {}
                    () = stopped.notified() => {}
                }
            });
            // A lookup of a name may still be under way.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("neighbours".into()).spawn(run)?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Ends the thread.
    pub fn stop(mut self) {
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Driver {
    async fn run(mut self, mut orders: mpsc::Receiver<DriverOrder>) {
        let (mut icp_bytes, mut htcp_bytes) = (vec![0; BUFFER_BYTES], vec![0; BUFFER_BYTES]);
        let (icp, htcp) = (self.icp.clone(), self.htcp.clone());
        loop {
            let next_end = self.rounds.next_end();
            tokio::select! {
                order = orders.recv() => match order {
                    Some(DriverOrder::Ask(question)) => self.ask(question),
                    Some(DriverOrder::Clear(clearing)) => self.tell_purged(&clearing),
                    None => return,
                },
                got = receive(icp.as_deref(), &mut icp_bytes) => match got {
                    Some((length, from)) => self.take_icp(&icp_bytes[..length], from),
                    // Such as an ICMP error on an earlier datagram.
                    None => sleep(ERROR_PAUSE).await,
                },
                got = receive(htcp.as_deref(), &mut htcp_bytes) => match got {
                    Some((length, from)) => self.take_htcp(&htcp_bytes[..length], from),
                    None => sleep(ERROR_PAUSE).await,
                },
                () = until(next_end, self.neighbours.now()) => {
                    let silent = self.rounds.expire(self.neighbours.now());
                    self.metrics.neighbour_silent.add(silent as u64);
                    self.tell_turns();
                }
            }
        }
    }

    /// Sends a question to its targets.
    fn ask(&mut self, question: Question) {
        if !self.rounds.has_room() {
            self.metrics.neighbour_busy.increment();
            return;
        }
        let number = self.new_number();
        debug_assert!(question.targets.iter().all(|target| *target < self.neighbours.entries.len()));
        let url = Arc::clone(&question.url);
        let icp = IcpMessage { opcode: IcpOpcode::Query, number, url: &url }.write();
        for target in self.rounds.begin(number, question, self.neighbours.now()) {
            let entry = Arc::clone(&self.neighbours.entries[target]);
            let Some(address) = entry.address() else { continue };
            self.metrics.neighbour_asked.increment();
            match (entry.settings.icp_port, entry.settings.htcp_port) {
                (Some(port), _) => {
                    if let (Some(socket), Some(datagram)) = (&self.icp, &icp) {
                        let _ = socket.try_send_to(datagram, (address, port).into());
                    }
                }
                (None, Some(port)) => {
                    let message = HtcpMessage::test(number, &url, b"");
                    self.send_htcp(&message, (address, port).into(), entry.settings.htcp_signed);
                }
                (None, None) => {}
            }
        }
    }

    fn tell_purged(&mut self, clearing: &PurgeNotice) {
        let number = self.new_number();
        for entry in &self.neighbours.entries {
            let port = entry.settings.htcp_port.filter(|_| entry.settings.htcp_clear);
            if let (Some(address), Some(port)) = (entry.address(), port) {
                let message = HtcpMessage::clear(number, &clearing.url);
                self.send_htcp(&message, (address, port).into(), entry.settings.htcp_signed);
            }
        }
    }

    fn send_htcp(&self, message: &HtcpMessage<'_>, to: SocketAddr, is_signed: bool) {
        let Some(socket) = &self.htcp else { return };
        let key = self.neighbours.key.as_ref().filter(|_| is_signed);
        let local = socket.local_addr().ok();
        let signed = key
            .zip(local)
            .map(|(key, local)| (key, SocketPair { source: local, destination: to }, seconds_of_day()));
        if let Some(datagram) = message.write(signed) {
            let _ = socket.try_send_to(&datagram, to);
        }
    }

    /// Handles a datagram by ICP: an answer to a question, or a question.
    fn take_icp(&mut self, datagram: &[u8], from: SocketAddr) {
        let from = canonical(from);
        let now = self.neighbours.now();
        let answering = sender(&self.neighbours.entries, from, |entry| entry.settings.icp_port);
        let is_question = datagram.first() == Some(&IcpOpcode::Query.code());
        let is_from_outside = is_question || answering.is_none();
        if is_from_outside && (!self.answers.0 || !self.answering.admits(from, now)) {
            return;
        }
        let Ok(message) = IcpMessage::read(datagram) else {
            return self.metrics.neighbour_malformed.increment();
        };
        let verdict = match (message.opcode, answering) {
            (IcpOpcode::Query, _) => {
                let socket = self.icp.as_ref().expect("it came by this socket");
                return self.answering.answer_icp(&message, socket, from);
            }
            (IcpOpcode::Hit, _) => Verdict::Hit,
            (IcpOpcode::Miss, _) => Verdict::Miss,
            (IcpOpcode::MissNoFetch | IcpOpcode::Denied | IcpOpcode::Error, _) => Verdict::Refused,
        };
        let Some(index) = answering else { return self.metrics.neighbour_unasked.increment() };
        let answer = self.rounds_answer(message.number, index, Some(message.url), verdict);
        self.count(answer);
    }

    /// Handles a datagram by HTCP.
    fn take_htcp(&mut self, datagram: &[u8], from: SocketAddr) {
        let from = canonical(from);
        let now = self.neighbours.now();
        let answering = sender(&self.neighbours.entries, from, |entry| entry.settings.htcp_port);
        let is_listed = self.answers.1 && self.neighbours.is_listed(from.ip());
        if answering.is_none() && !is_listed {
            return self.metrics.neighbour_strangers.increment();
        }
        let Ok(read) = HtcpDatagram::read(datagram) else {
            self.answering.admits(from, now);
            return self.metrics.neighbour_malformed.increment();
        };
        let socket = Arc::clone(self.htcp.as_ref().expect("it came by this socket"));
        let seconds = seconds_of_day();
        match read.message.content.clone() {
            HtcpContent::Ask { opcode, wants_answer, specifier } => {
                if !self.answers.1 || !self.answering.admits(from, now) {
                    return;
                }
                let question = HtcpQuestion {
                    transaction: read.message.transaction,
                    opcode,
                    wants_answer,
                    specifier,
                    is_signed: read.is_signed,
                };
                if read.is_signed && !self.answering.verifies(&read, &socket, from, seconds) {
                    return self.answering.refuse_signature(&question, &socket, from);
                }
                self.answering.answer_htcp(question, &socket, from, seconds);
            }
            HtcpContent::Answer { opcode, response, is_about_message } => {
                let Some(index) = answering else { return self.metrics.neighbour_unasked.increment() };
                if opcode != HtcpOpcode::Test {
                    return;
                }
                let wants_signed = self.neighbours.entries[index].settings.htcp_signed;
                if wants_signed && !self.answering.verifies(&read, &socket, from, seconds) {
                    return self.metrics.neighbour_unsigned.increment();
                }
                let verdict = match (is_about_message, response) {
                    (true, _) => Verdict::Refused,
                    (false, TEST_HELD) => Verdict::Hit,
                    (false, _) => Verdict::Miss,
                };
                let answer = self.rounds_answer(read.message.transaction, index, None, verdict);
                self.count(answer);
            }
        }
    }

    /// Names neighbours that fell silent or answer again in the log.
    fn tell_turns(&mut self) {
        for (index, is_silent) in self.rounds.take_turns() {
            let neighbour = self.neighbours.entries[index].settings.name();
            if is_silent {
                tracing::warn!(
                    neighbour,
                    "the neighbour answers no questions, and no request waits for it; see that it runs and allows \
                     this address"
                );
            } else {
                tracing::info!(neighbour, "the neighbour answers questions again");
            }
        }
    }

    fn rounds_answer(&mut self, number: u32, index: usize, url: Option<&str>, verdict: Verdict) -> AnswerUse {
        let now = self.neighbours.now();
        let used = self.rounds.answered(number, index, url, verdict, now);
        self.tell_turns();
        used
    }

    fn count(&self, answer: AnswerUse) {
        match answer {
            AnswerUse::Counted => self.metrics.neighbour_answers.increment(),
            AnswerUse::Late | AnswerUse::OtherUrl => self.metrics.neighbour_unasked.increment(),
        }
    }

    /// Returns a number that no question has and that a stranger cannot guess.
    fn new_number(&mut self) -> u32 {
        loop {
            self.next_number += 1;
            let number = self.numbers.hash_one(self.next_number) as u32;
            if !self.rounds.is_taken(number) {
                return number;
            }
        }
    }
}

/// Binds a socket for answers at `listen`, or at any port if this node asks only.
fn bind(listen: Option<SocketAddr>, asks: bool) -> io::Result<Option<std::net::UdpSocket>> {
    let address = match listen {
        Some(listen) => listen,
        None if asks => (Ipv4Addr::UNSPECIFIED, 0).into(),
        None => return Ok(None),
    };
    let told = |error: io::Error| io::Error::new(error.kind(), format!("{address}: {error}"));
    let socket = std::net::UdpSocket::bind(address).map_err(told)?;
    socket.set_nonblocking(true)?;
    Ok(Some(socket))
}

/// Receives a datagram; without a socket it waits for ever. `None` is an error of the socket.
async fn receive(socket: Option<&UdpSocket>, bytes: &mut [u8]) -> Option<(usize, SocketAddr)> {
    match socket {
        Some(socket) => socket.recv_from(bytes).await.ok(),
        None => std::future::pending().await,
    }
}

async fn until(end: Option<Duration>, now: Duration) {
    match end {
        Some(end) => sleep_until(Instant::now() + end.saturating_sub(now)).await,
        None => std::future::pending().await,
    }
}

/// Resolves the names of neighbours now and then.
async fn resolve(neighbours: Arc<NeighbourCaches>) {
    loop {
        for entry in &neighbours.entries {
            let host = entry.settings.host.trim_start_matches('[').trim_end_matches(']');
            if host.parse::<IpAddr>().is_ok() {
                continue;
            }
            match tokio::net::lookup_host((host, 0)).await {
                Ok(found) => entry.set_addresses(found.map(|found| found.ip()).take(ADDRESSES_MAX).collect()),
                Err(error) => tracing::warn!(host, %error, "the neighbour's name does not resolve"),
            }
        }
        sleep(RESOLVE_EVERY).await;
    }
}

/// Fetches the digests of the neighbours that have one, each at its time.
async fn fetch_digests(neighbours: Arc<NeighbourCaches>, upstreams: Arc<Upstreams>, metrics: Arc<Metrics>) {
    let refresh = neighbours.settings.digest_refresh;
    let due: Vec<usize> =
        (0..neighbours.entries.len()).filter(|index| neighbours.entries[*index].settings.digest).collect();
    let mut plan: Vec<(usize, Instant, u32)> = due.iter().map(|at| (*at, Instant::now(), 0)).collect();
    while let Some(next) = plan.iter_mut().min_by_key(|(_, at, _)| *at) {
        sleep_until(next.1).await;
        let (index, _, failures) = *next;
        let wait = match fetched_digest::fetch(&neighbours, &upstreams, index).await {
            DigestFetch::Taken(lifetime) => {
                metrics.neighbour_digests.increment();
                *next = (index, next.1, 0);
                lifetime.max(refresh)
            }
            DigestFetch::Later => refresh.min(LATER),
            DigestFetch::Failed(why) => {
                metrics.neighbour_digests_failed.increment();
                let name = neighbours.entries[index].settings.name();
                tracing::warn!(neighbour = name, why, "the neighbour's digest cannot be used");
                *next = (index, next.1, failures.saturating_add(1).min(6));
                refresh.min(LATER) * 2u32.pow(failures)
            }
        };
        next.1 = Instant::now() + wait;
    }
}

/// Looks at the RAM tier once a minute, and builds this node's digest at its times.
async fn build_digests(neighbours: Arc<NeighbourCaches>, engine: Arc<dyn LocalObjects>) {
    let settings = &neighbours.settings;
    if !settings.serve_digest || settings.allow.is_empty() {
        return;
    }
    let mut seen = SeenObjects::new(settings.digest_objects);
    let look_every = LOOK_EVERY.min(settings.digest_rebuild);
    let mut build_at = Instant::now() + look_every;
    loop {
        sleep(look_every).await;
        seen.note(engine.plain_objects_in_memory(settings.digest_objects, settings.sites));
        if Instant::now() < build_at {
            continue;
        }
        build_at = Instant::now() + settings.digest_rebuild;
        let now = clock::now();
        let expires = now.plus(settings.digest_rebuild);
        // Of short-lived objects those stay that live for a part of the digest's own life.
        seen.keep(now.plus(settings.digest_rebuild / 2).min(now.plus(LOOK_EVERY)), |key| engine.holds(key));
        let bytes = seen.digest().write().into();
        neighbours.own_digest.store(Some(Arc::new(OwnDigest { bytes, built: now, expires })));
    }
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Returns the seconds since 1970, which the signatures of HTCP hold.
fn seconds_of_day() -> u32 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
}

/// Room for the longest datagram; longer ones are cut by the kernel and then refused.
const BUFFER_BYTES: usize = 16_385;
/// Pause after an error of a socket.
const ERROR_PAUSE: Duration = Duration::from_millis(1);
/// Time between two lookups of names.
const RESOLVE_EVERY: Duration = Duration::from_secs(60);
/// Most addresses of a neighbour.
const ADDRESSES_MAX: usize = 16;
/// Time after which a digest that is not there yet is asked for again.
const LATER: Duration = Duration::from_secs(60);
/// Time between two looks at the RAM tier.
const LOOK_EVERY: Duration = Duration::from_secs(60);
