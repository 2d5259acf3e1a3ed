//! Control thread: reads datagrams, runs timers, sends the membership's messages, asks seeds.
//!
//! Datagrams are read before timers run. A node that was stopped for a while thus hears the answers
//! that wait in its socket before it doubts anybody.

use super::status::RateMeter;
use super::{ClusterNode, random, unix_ms};
use crate::keys::{DATAGRAM_BYTES_MAX, DatagramFault, KeyRing, Opener, Sealer};
use crate::membership::{CLOCK_SKEW_MAX, JoinAnswer, JoinRequest, Membership, MembershipOutput, next_life};
use crate::{CallError, ClusterError};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio::net::UdpSocket;
use tokio::task::JoinSet;

/// Loop of the control thread.
pub(super) struct Control {
    node: Arc<ClusterNode>,
    ring: Arc<KeyRing>,
    life: u64,
    sealer: Sealer,
    opener: Opener,
    rates: RateMeter,
}

impl Control {
    /// Makes the loop. `counter` is where the counters of datagrams begin.
    pub(super) fn new(node: Arc<ClusterNode>, counter: u64) -> Result<Self, ClusterError> {
        let ring = node.ring.load_full();
        let own = node.membership.lock().own().clone();
        Ok(Self {
            sealer: Sealer::new(&ring, own.id, own.life, counter),
            opener: Opener::new(&ring, own.id),
            rates: RateMeter::new(node.now()),
            life: own.life,
            ring,
            node,
        })
    }

    /// Runs until the node leaves.
    pub(super) fn run(mut self, socket: std::net::UdpSocket) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let done = runtime.and_then(|runtime| {
            let done = runtime.block_on(self.serve(socket));
            // A name that is being resolved must not hold up the end.
            runtime.shutdown_background();
            done
        });
        if let Err(error) = done {
            tracing::error!("the membership of the cluster has ended: {error}");
        }
    }

    async fn serve(&mut self, socket: std::net::UdpSocket) -> std::io::Result<()> {
        let socket = UdpSocket::from_std(socket)?;
        let (mut asks, mut exchanges) = (JoinSet::new(), JoinSet::new());
        loop {
            while asks.try_join_next().is_some() || exchanges.try_join_next().is_some() {}
            if self.node.is_replaced.load(Relaxed) {
                return Ok(());
            }
            if self.node.is_paused.load(Relaxed) {
                // Datagrams wait in the socket, for the process that reads next.
                let _ = tokio::time::timeout(PAUSE_MAX, self.node.wake.notified()).await;
                continue;
            }
            self.read(&socket);
            let is_ending = self.node.is_ending.load(Relaxed);
            let next = {
                let mut membership = self.node.membership.lock();
                let now = self.node.now();
                match is_ending {
                    true => membership.leave(now),
                    false => membership.on_timer(now),
                }
                membership.next_timer()
            };
            for output in self.outputs() {
                self.follow_keys();
                match output {
                    MembershipOutput::Send { to, message } => self.send(&socket, to, &message),
                    MembershipOutput::Changed => self.node.publish(),
                    MembershipOutput::AskSeeds if asks.is_empty() => {
                        asks.spawn(ask_seeds(Arc::clone(&self.node)));
                    }
                    MembershipOutput::Exchange(with) if exchanges.len() < EXCHANGES_MAX => {
                        let node = Arc::clone(&self.node);
                        exchanges.spawn(async move { join_one(&node, with).await });
                    }
                    // The next timer asks again.
                    MembershipOutput::AskSeeds | MembershipOutput::Exchange(_) => {}
                    MembershipOutput::Displaced(other) => {
                        refuse(&self.node, crate::membership::displaced(&other));
                        restart(&self.node, 0);
                    }
                }
            }
            self.rates.measure(self.node.now(), &self.node.counters);
            if is_ending {
                return Ok(());
            }
            self.wait(&socket, next).await?;
        }
    }

    /// Waits for a datagram, a call, or the next timer.
    async fn wait(&self, socket: &UdpSocket, next: Option<Duration>) -> std::io::Result<()> {
        let pause = next.map_or(PAUSE_MAX, |next| next.saturating_sub(self.node.now())).min(PAUSE_MAX);
        tokio::select! {
            biased;
            readable = socket.readable() => readable,
            () = self.node.wake.notified() => Ok(()),
            () = tokio::time::sleep(pause) => Ok(()),
        }
    }

    fn outputs(&self) -> Vec<MembershipOutput> {
        let mut membership = self.node.membership.lock();
        std::iter::from_fn(|| membership.take_output()).collect()
    }

    /// Uses the ring and the life that are in force now.
    fn follow_keys(&mut self) {
        let (ring, life) = (self.node.ring.load_full(), self.node.membership.lock().own().life);
        if !Arc::ptr_eq(&ring, &self.ring) {
            self.opener.set_ring(&ring);
        } else if life == self.life {
            return;
        }
        self.sealer = self.sealer.renewed(&ring, life);
        (self.ring, self.life) = (ring, life);
    }

    /// Reads the datagrams that have arrived, up to a bound.
    fn read(&mut self, socket: &UdpSocket) {
        self.follow_keys();
        // One byte more than allowed tells a datagram that is too long.
        let mut buffer = [0; DATAGRAM_BYTES_MAX + 1];
        for _ in 0..READS_MAX {
            match socket.try_recv_from(&mut buffer) {
                Ok((length, source)) => {
                    self.node.counters.received_bytes.fetch_add(length as u64, Relaxed);
                    match self.take(&mut buffer[..length], source) {
                        Ok(()) => self.node.counters.received.fetch_add(1, Relaxed),
                        Err(fault) => {
                            self.node.counters.drop(fault);
                            self.tell(fault, source);
                            continue;
                        }
                    };
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                // An ICMP error of an earlier datagram; the next read succeeds.
                Err(_) => {}
            }
        }
    }

    /// Tells of a node with other keys, once in a while.
    fn tell(&self, fault: DatagramFault, source: SocketAddr) {
        let why = match fault {
            DatagramFault::UnknownKey => "its messages are sealed with a key that this node lacks",
            DatagramFault::Unsealed => "its messages are not sealed, and this node has a key",
            _ => return,
        };
        if self.node.refusals.lock().is_news(source.ip(), why, self.node.now()) {
            tracing::warn!("refused a node at {source}: {why}; compare cluster.name and the key files");
        }
    }

    fn take(&mut self, datagram: &mut [u8], source: SocketAddr) -> Result<(), DatagramFault> {
        if self.ring.is_keyless() && !source.ip().to_canonical().is_loopback() {
            return Err(DatagramFault::Outside);
        }
        let opened = self.opener.open(datagram)?;
        let sender = (opened.sender, opened.life);
        self.node.membership.lock().on_message(self.node.now(), sender, source, opened.body)
    }

    fn send(&mut self, socket: &UdpSocket, to: SocketAddr, message: &[u8]) {
        let datagram = self.sealer.seal(message);
        let counters = &self.node.counters;
        match socket.try_send_to(&datagram, to) {
            Ok(_) => {
                counters.sent.fetch_add(1, Relaxed);
                counters.sent_bytes.fetch_add(datagram.len() as u64, Relaxed);
            }
            Err(_) => {
                counters.not_sent.fetch_add(1, Relaxed);
            }
        }
    }
}

/// Asks the seeds that are no members, some at a time.
async fn ask_seeds(node: Arc<ClusterNode>) {
    let names = node.join.lock().clone();
    let addresses = node.seeds.lock().await.current(&names, Instant::now()).await.to_vec();
    let mut asks = JoinSet::new();
    let mut asked = Vec::new();
    for address in addresses {
        let is_member = node.view.load().members().iter().any(|member| member.address == address);
        if address == node.options.peer || is_member {
            continue;
        }
        while asks.len() >= ASKS_MAX {
            asks.join_next().await;
        }
        asked.push(address);
        let node = Arc::clone(&node);
        asks.spawn(async move { join_one(&node, address).await });
    }
    while asks.join_next().await.is_some() {}
    note_unanswered(&node, &asked);
}

/// Tells that no seed answers. Nodes that start together get some seconds first.
fn note_unanswered(node: &ClusterNode, asked: &[SocketAddr]) {
    let is_alone = node.view.load().members().len() <= 1 && node.membership.lock().others() == 0;
    if asked.is_empty() || !is_alone || node.now() < UNANSWERED_AFTER || node.refused.lock().is_some() {
        return;
    }
    let some: Vec<String> = asked.iter().take(SEEDS_NAMED).map(SocketAddr::to_string).collect();
    let more = if asked.len() > some.len() { " and others" } else { "" };
    node.is_unanswered.store(true, Relaxed);
    refuse(
        node,
        format!(
            "no node answers at {}{more} (cluster.join); see that one runs there, and that TCP and UDP reach it",
            some.join(", ")
        ),
    );
}

/// Exchanges lists with one node; at a first contact this is the join.
async fn join_one(node: &Arc<ClusterNode>, address: SocketAddr) {
    for _ in 0..2 {
        let request = {
            let membership = node.membership.lock();
            // The first of the list is this node, which the question names already.
            let (own, members) = (membership.own().clone(), membership.list().split_off(1));
            JoinRequest { cluster: node.options.cluster.clone(), clock_ms: unix_ms(), node: own, members }
        };
        let answer = node.sealed_call(address, JOIN_CALL, request.encode()).await;
        let answer = match answer {
            Ok(bytes) => JoinAnswer::decode(&bytes, &node.membership.lock()),
            Err(CallError::Refused(why)) => Err(why),
            Err(error) => return tracing::debug!("no list from {address}: {error}"),
        };
        match answer {
            Ok(JoinAnswer::Welcome { clock_ms, members }) => {
                let apart = Duration::from_millis(clock_ms.abs_diff(unix_ms()));
                if apart > CLOCK_SKEW_MAX {
                    return refuse(
                        node,
                        format!(
                            "the clock of {address} is {} s off this node's, at most {} s are allowed; set one of them",
                            apart.as_secs(),
                            CLOCK_SKEW_MAX.as_secs()
                        ),
                    );
                }
                let members = node.without_namesakes(members).await;
                node.membership.lock().on_members(node.now(), members);
                if node.refused.lock().take().is_some() {
                    tracing::info!("{address} has let this node in");
                }
                return node.wake.notify_one();
            }
            Ok(JoinAnswer::LaterLife(life)) => restart(node, life),
            Err(why) => return refuse(node, format!("{address} refuses this node: {why}")),
        }
    }
}

/// Begins again with a later life, knowing nobody. The seeds are asked by the next timer.
fn restart(node: &ClusterNode, known: u64) {
    let Ok(seed) = random() else { return };
    let mut membership = node.membership.lock();
    let life = next_life(unix_ms(), known.max(membership.own().life));
    *membership = Membership::new(membership.own().reborn(life), seed, node.now());
    drop(membership);
    node.publish();
    node.wake.notify_one();
}

/// Tells why this node goes on alone: at once when the reason is new.
pub(super) fn refuse(node: &ClusterNode, why: String) {
    let mut refused = node.refused.lock();
    if refused.as_ref() != Some(&why) {
        tracing::error!("this node goes on alone: {why}");
    }
    *refused = Some(why);
}

/// Name of the call that joins, and that exchanges lists.
pub(super) const JOIN_CALL: &str = "members/join";

/// Name of the call that asks a node for its identity.
pub(super) const WHO_CALL: &str = "members/who";

/// Age of a node from which silent seeds are told.
const UNANSWERED_AFTER: Duration = Duration::from_secs(5);

/// Most seeds in that line.
const SEEDS_NAMED: usize = 4;

/// Longest pause of the loop.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Most datagrams that are read before timers run.
const READS_MAX: usize = 512;

/// Most seeds that are asked at a time, and most exchanges of lists.
const ASKS_MAX: usize = 8;
const EXCHANGES_MAX: usize = 4;
