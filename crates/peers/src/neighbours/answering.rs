//! Answers to the questions of listed caches.

use super::NeighbourCaches;
use super::local_objects::{ClearOutcome, LocalObjects};
use crate::access::client_network;
use crate::access::contains;
use crate::metrics::Metrics;
use shoal_neighbours::htcp::{
    AUTHENTICATION_FAILED, AUTHENTICATION_NEEDED, CLEAR_GONE, CLEAR_KEPT, CLEAR_NOT_HELD, HtcpDatagram,
    HtcpMessage, HtcpOpcode, HtcpSpecifier, OPCODE_NOT_BUILT, SocketPair, TEST_HELD, TEST_NOT_HELD,
};
use shoal_neighbours::icp::{IcpMessage, IcpOpcode};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::sync::Semaphore;

/// State for answering, owned by the driver.
pub(super) struct QuestionDesk {
    pub neighbours: Arc<NeighbourCaches>,
    pub engine: Arc<dyn LocalObjects>,
    pub metrics: Arc<Metrics>,
    /// Permits for looks at the disk.
    looks: Arc<Semaphore>,
    /// Permits for removals.
    clears: Arc<Semaphore>,
    rates: Rates,
}

/// Questions of each network within the present second.
struct Rates {
    counts: HashMap<IpAddr, u32>,
    second: u64,
    limit: u32,
}

/// One question by HTCP, apart from its socket.
pub(super) struct HtcpQuestion<'a> {
    pub transaction: u32,
    pub opcode: HtcpOpcode,
    pub wants_answer: bool,
    pub specifier: Option<HtcpSpecifier<'a>>,
    pub is_signed: bool,
}

impl QuestionDesk {
    pub fn new(
        neighbours: Arc<NeighbourCaches>,
        engine: Arc<dyn LocalObjects>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let limit = neighbours.settings.queries_per_second;
        Self {
            neighbours,
            engine,
            metrics,
            looks: Arc::new(Semaphore::new(LOOKS_MAX)),
            clears: Arc::new(Semaphore::new(CLEARS_MAX)),
            rates: Rates { counts: HashMap::new(), second: 0, limit },
        }
    }

    /// Returns `true` if a question from this address may be answered now. Counts it.
    pub fn admits(&mut self, from: SocketAddr, now: Duration) -> bool {
        if !self.neighbours.is_listed(from.ip()) {
            self.metrics.neighbour_strangers.increment();
            return false;
        }
        let is_within = self.rates.take(from.ip(), now);
        if !is_within {
            self.metrics.neighbour_floods.increment();
        }
        is_within
    }

    /// Answers a question by ICP.
    pub fn answer_icp(&self, query: &IcpMessage<'_>, socket: &Arc<UdpSocket>, from: SocketAddr) {
        self.metrics.neighbour_icp.increment();
        debug_assert!(self.neighbours.is_listed(from.ip()), "others get no answer");
        let Some(hit) = query.answer(IcpOpcode::Hit).write() else { return };
        let Some(miss) = query.answer(IcpOpcode::Miss).write() else { return };
        self.send_by_look(query.url, (hit, miss), socket, from);
    }

    /// Answers a question by HTCP. A signature has been verified.
    pub fn answer_htcp(
        &self,
        question: HtcpQuestion<'_>,
        socket: &Arc<UdpSocket>,
        from: SocketAddr,
        now: u32,
    ) {
        self.metrics.neighbour_htcp.increment();
        debug_assert!(self.neighbours.is_listed(from.ip()), "others get no answer");
        let HtcpQuestion { transaction, opcode, .. } = question;
        let write = |message: HtcpMessage<'_>| self.write(&message, question.is_signed, socket, from, now);
        match (opcode, &question.specifier) {
            (HtcpOpcode::Nop, _) if question.wants_answer => {
                let answer = write(HtcpMessage::answer(transaction, opcode, 0));
                send(socket, answer, from);
            }
            (HtcpOpcode::Test, Some(specifier)) if question.wants_answer => {
                let hit = write(HtcpMessage::answer(transaction, opcode, TEST_HELD));
                let miss = write(HtcpMessage::answer(transaction, opcode, TEST_NOT_HELD));
                let (Some(hit), Some(miss)) = (hit, miss) else { return };
                match specifier.method {
                    "GET" | "HEAD" => self.send_by_look(specifier.uri, (hit, miss), socket, from),
                    _ => send(socket, Some(miss), from),
                }
            }
            (HtcpOpcode::Clear, Some(specifier)) => self.clear(&question, specifier, socket, from, now),
            (HtcpOpcode::Monitor | HtcpOpcode::Set, _) if question.wants_answer => {
                let answer = write(HtcpMessage::refusal(transaction, opcode, OPCODE_NOT_BUILT));
                send(socket, answer, from);
            }
            _ => {}
        }
    }

    /// Tells the sender that its signature does not count.
    pub fn refuse_signature(&self, question: &HtcpQuestion<'_>, socket: &Arc<UdpSocket>, from: SocketAddr) {
        self.metrics.neighbour_unsigned.increment();
        let answer = HtcpMessage::refusal(question.transaction, question.opcode, AUTHENTICATION_FAILED);
        send(socket, answer.write(None).filter(|_| question.wants_answer), from);
    }

    /// Removes a URL, if the sender may.
    fn clear(
        &self,
        question: &HtcpQuestion<'_>,
        specifier: &HtcpSpecifier<'_>,
        socket: &Arc<UdpSocket>,
        from: SocketAddr,
        now: u32,
    ) {
        let answer = |message: HtcpMessage<'_>| {
            self.write(&message, question.is_signed, socket, from, now).filter(|_| question.wants_answer)
        };
        let (transaction, opcode) = (question.transaction, question.opcode);
        if !contains(&self.neighbours.settings.allow_clear, from.ip()) {
            self.metrics.neighbour_clears_refused.increment();
            return send(socket, answer(HtcpMessage::answer(transaction, opcode, CLEAR_KEPT)), from);
        }
        if self.neighbours.key.is_some() && !question.is_signed {
            self.metrics.neighbour_unsigned.increment();
            let refusal = HtcpMessage::refusal(transaction, opcode, AUTHENTICATION_NEEDED);
            return send(socket, answer(refusal), from);
        }
        let Ok(permit) = Arc::clone(&self.clears).try_acquire_owned() else {
            self.metrics.neighbour_busy.increment();
            return send(socket, answer(HtcpMessage::answer(transaction, opcode, CLEAR_KEPT)), from);
        };
        self.metrics.neighbour_clears.increment();
        let code = |code| answer(HtcpMessage::answer(transaction, opcode, code));
        let (gone, kept, not_held) = (code(CLEAR_GONE), code(CLEAR_KEPT), code(CLEAR_NOT_HELD));
        let (engine, url, socket) = (Arc::clone(&self.engine), specifier.uri.to_owned(), Arc::clone(socket));
        tokio::spawn(async move {
            let answer = match engine.clear(&url).await {
                ClearOutcome::Gone => gone,
                ClearOutcome::NotHeld => not_held,
                ClearOutcome::Kept => kept,
            };
            send(&socket, answer, from);
            drop(permit);
        });
    }

    /// Looks for the URL and sends one of two answers. A look at the disk is made apart.
    fn send_by_look(
        &self,
        url: &str,
        (hit, miss): (Vec<u8>, Vec<u8>),
        socket: &Arc<UdpSocket>,
        from: SocketAddr,
    ) {
        debug_assert!(hit.len() == miss.len(), "neither answer is amplified");
        let sites = self.neighbours.settings.sites;
        match self.engine.holds_in_memory(url, sites) {
            Some(is_hit) => {
                if is_hit {
                    self.metrics.neighbour_hits_told.increment();
                }
                send(socket, Some(if is_hit { hit } else { miss }), from);
            }
            None => {
                let Ok(permit) = Arc::clone(&self.looks).try_acquire_owned() else {
                    self.metrics.neighbour_busy.increment();
                    return send(socket, Some(miss), from);
                };
                let (engine, metrics) = (Arc::clone(&self.engine), Arc::clone(&self.metrics));
                let (url, socket) = (url.to_owned(), Arc::clone(socket));
                tokio::spawn(async move {
                    let is_hit = engine.holds_on_disk(&url, sites).await;
                    if is_hit {
                        metrics.neighbour_hits_told.increment();
                    }
                    send(&socket, Some(if is_hit { hit } else { miss }), from);
                    drop(permit);
                });
            }
        }
    }

    fn write(
        &self,
        message: &HtcpMessage<'_>,
        is_signed: bool,
        socket: &UdpSocket,
        to: SocketAddr,
        now: u32,
    ) -> Option<Vec<u8>> {
        let key = self.neighbours.key.as_ref().filter(|_| is_signed);
        let ends = key.and_then(|key| {
            Some((key, SocketPair { source: socket.local_addr().ok()?, destination: to }, now))
        });
        message.write(ends)
    }

    /// Returns `true` if the signature of a datagram counts.
    pub fn verifies(
        &self,
        datagram: &HtcpDatagram<'_>,
        socket: &UdpSocket,
        from: SocketAddr,
        now: u32,
    ) -> bool {
        let (Some(key), Ok(local)) = (&self.neighbours.key, socket.local_addr()) else { return false };
        key.verify(datagram, SocketPair { source: from, destination: local }, now).is_ok()
    }
}

impl Rates {
    fn take(&mut self, address: IpAddr, now: Duration) -> bool {
        if self.second != now.as_secs() {
            self.second = now.as_secs();
            self.counts.clear();
        }
        let network = client_network(address);
        if self.counts.len() >= NETWORKS_MAX && !self.counts.contains_key(&network) {
            return false;
        }
        let count = self.counts.entry(network).or_insert(0);
        *count = count.saturating_add(1);
        let is_within = *count <= self.limit;
        debug_assert!(self.counts.len() <= NETWORKS_MAX, "the table is bounded");
        is_within
    }
}

/// Sends a datagram, or drops it where the socket has no room: the asker's time-out handles that.
fn send(socket: &UdpSocket, datagram: Option<Vec<u8>>, to: SocketAddr) {
    if let Some(datagram) = datagram {
        let _ = socket.try_send_to(&datagram, to);
    }
}

/// Most looks at the disk at a time.
const LOOKS_MAX: usize = 64;
/// Most removals at a time.
const CLEARS_MAX: usize = 8;
/// Most networks counted in a second.
const NETWORKS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_hold_for_each_network_and_second() {
        let mut rates = Rates { counts: HashMap::new(), second: 0, limit: 3 };
        let (one, two): (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let at = Duration::from_secs;
        assert_eq!((0..5).filter(|_| rates.take(one, at(1))).count(), 3);
        assert!(rates.take(two, at(1)) && rates.take(one, at(2)));
        for number in 0..5000u32 {
            rates.take(IpAddr::from(number.to_be_bytes()), at(3));
        }
        assert!(rates.counts.len() <= NETWORKS_MAX);
    }
}
