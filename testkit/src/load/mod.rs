//! An open-loop load generator: requests leave when they are due, whether or not earlier ones were
//! answered.
//!
//! A closed loop, as of most load generators, waits for an answer before it asks again: a server
//! that stalls is asked less meanwhile, and the stall is hardly seen ("coordinated omission";
//! Schroeder, Wierman and Harchol-Balter, "Open Versus Closed: A Cautionary Tale", NSDI 2006). Here
//! the instants are drawn beforehand, as a Poisson process of the wanted rate, and a latency counts
//! from the instant when the request was due, also while it waited for a free connection.
//!
//! One thread looks after all connections and never sleeps while it measures, so that its own
//! wake-up is no part of a latency. It has work of its own for each request, two system calls and
//! some hundred nanoseconds, and the more requests there are the longer one waits for it: before it
//! leaves ([`Outcome::late_ns`]), and once it is answered. That is no part of
//! [`Outcome::servers_ns`], which ends when the kernel has the response, in the way of Kogias,
//! Mallon and Bugnion, "Lancet: A self-correcting Latency Measuring Tool", ATC 2019. Without a rate
//! a stream is a closed loop, for finding out where a server is saturated.

mod connection;
mod poisson;
mod turns;

pub use turns::{Case, Turns, in_turn};

use connection::{Asked, Connection, Progress, Scratch};
use poisson::Arrivals;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use serde::Deserialize;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant, SystemTime};

/// Requests of one kind, over connections of their own.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// Requests per second; 0 for a closed loop, where every connection asks again as soon as it is
    /// answered.
    pub rate: f64,
    /// Their method, of those that have no body.
    #[serde(default = "get")]
    pub method: String,
    /// Target of the requests; `{}` stands for a number below `objects`, drawn anew for each.
    pub path: String,
    /// How many objects `path` names.
    #[serde(default)]
    pub objects: u64,
    /// Connections, kept alive.
    pub connections: usize,
    /// Fields beside Host, as whole lines.
    #[serde(default)]
    pub fields: Vec<String>,
    /// The status of their responses.
    #[serde(default = "ok")]
    pub status: u16,
}

impl Default for Stream {
    fn default() -> Self {
        Self {
            rate: 0.0,
            method: get(),
            path: "/".into(),
            objects: 0,
            connections: 1,
            fields: Vec::new(),
            status: ok(),
        }
    }
}

fn get() -> String {
    "GET".into()
}

fn ok() -> u16 {
    200
}

/// What came of one stream.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// From when a request was due to the last byte of its response, in nanoseconds, in ascending
    /// order.
    pub latencies_ns: Vec<u64>,
    /// The latency that 99 in a hundred requests of a turn did not exceed, for each turn, in
    /// nanoseconds, in ascending order.
    pub turn_p99s_ns: Vec<u64>,
    /// What of the latencies was the server's and the network's: from when a request left, or
    /// waited for a connection, until the kernel had the last of its response. In nanoseconds, in
    /// ascending order.
    pub servers_ns: Vec<u64>,
    /// The same of each turn as above.
    pub turn_servers_p99s_ns: Vec<u64>,
    /// Requests that were due and got no whole response with the status that was expected.
    pub failed: u64,
    /// How long after they were due requests left although a connection was free, in nanoseconds,
    /// in ascending order.
    pub late_ns: Vec<u64>,
}

impl Outcome {
    /// The latency that `share` of the requests did not exceed, in nanoseconds; 0 without requests.
    pub fn latency_ns(&self, share: f64) -> u64 {
        percentile(&self.latencies_ns, share)
    }

    /// The same of 99 in a hundred requests of the middle turn: what a turn is like that nothing
    /// else disturbs, where most are.
    pub fn middle_turn_p99_ns(&self) -> u64 {
        percentile(&self.turn_p99s_ns, 0.5)
    }

    /// What of it was the server's and the network's.
    pub fn server_ns(&self, share: f64) -> u64 {
        percentile(&self.servers_ns, share)
    }

    /// The same of the middle turn.
    pub fn middle_turn_server_p99_ns(&self) -> u64 {
        percentile(&self.turn_servers_p99s_ns, 0.5)
    }

    /// The same of the lateness that is the generator's own.
    pub fn late_ns(&self, share: f64) -> u64 {
        percentile(&self.late_ns, share)
    }
}

/// Asks and takes in what comes, until all is answered that was due, or was not in time.
fn drive(poll: &OwnedFd, lanes: &mut [Lane<'_>], times: &Times, buffers: &mut Buffers) -> io::Result<()> {
    loop {
        let now = Instant::now();
        for lane in &mut *lanes {
            lane.ask_what_is_due(times, now)?;
        }
        let over = now >= times.until;
        if over && (now >= times.until + ANSWERS_WITHIN || lanes.iter().all(Lane::is_answered)) {
            return Ok(());
        }
        buffers.events.clear();
        epoll::wait(poll, spare_capacity(&mut buffers.events), Some(&NO_WAIT))?;
        for event in &buffers.events {
            let which = event.data.u64();
            lanes[(which >> 32) as usize].take_in(which as u32 as usize, &mut buffers.scratch)?;
        }
    }
}

/// What a run works with.
struct Buffers {
    events: Vec<epoll::Event>,
    scratch: Scratch,
}

impl Buffers {
    fn new() -> Self {
        Self { events: Vec::with_capacity(EVENTS_MAX), scratch: Scratch::new() }
    }
}

/// The instants of a turn.
struct Times {
    /// What the instants of arrivals count from: its own start, were there no turns before.
    start: Instant,
    /// No request is due after this.
    until: Instant,
}

/// A stream with its connections.
struct Lane<'s> {
    stream: &'s Stream,
    connections: Vec<Connection>,
    /// Connections with nothing to answer, the longest idle one first.
    idle: VecDeque<usize>,
    /// Requests that are due, and have not been asked.
    waiting: VecDeque<Waiting>,
    arrivals: Arrivals,
    /// The request that was sent last; the next one, where all are alike.
    request: Vec<u8>,
    host: String,
    outcome: Outcome,
    /// Latencies of the turns before this.
    before: usize,
}

/// A request that is due.
struct Waiting {
    due: Instant,
    /// Since when no connection is free for it.
    since: Option<SystemTime>,
}

impl<'s> Lane<'s> {
    fn open_all(
        address: SocketAddr,
        streams: &'s [Stream],
        poll: &OwnedFd,
        seed: u64,
    ) -> io::Result<Vec<Self>> {
        streams
            .iter()
            .enumerate()
            .map(|(number, stream)| Self::open(address, stream, poll, number, seed))
            .collect()
    }

    fn open(
        address: SocketAddr,
        stream: &'s Stream,
        poll: &OwnedFd,
        number: usize,
        seed: u64,
    ) -> io::Result<Self> {
        let mut connections = Vec::new();
        for each in 0..stream.connections {
            let connection = Connection::open(address, stream.method != "HEAD")?;
            let data = EventData::new_u64((number as u64) << 32 | each as u64);
            epoll::add(poll, connection.socket(), data, EventFlags::IN)?;
            connections.push(connection);
        }
        let mut lane = Self {
            stream,
            idle: (0..connections.len()).collect(),
            connections,
            waiting: VecDeque::new(),
            arrivals: Arrivals::new(stream.rate, seed.wrapping_add(number as u64)),
            request: Vec::new(),
            host: address.to_string(),
            outcome: Outcome::default(),
            before: 0,
        };
        lane.write_request();
        Ok(lane)
    }

    /// Puts the next request together.
    fn write_request(&mut self) {
        let number = self.arrivals.below(self.stream.objects.max(1)).to_string();
        let path = self.stream.path.replacen("{}", &number, 1);
        let fields: String = self.stream.fields.iter().map(|line| format!("{line}\r\n")).collect();
        let method = &self.stream.method;
        self.request = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n{fields}\r\n", self.host).into();
    }

    /// Sends what was due by `now`, as far as connections are free.
    fn ask_what_is_due(&mut self, times: &Times, now: Instant) -> io::Result<()> {
        if self.stream.rate == 0.0 {
            while now < times.until && !self.idle.is_empty() {
                self.ask(Waiting { due: now, since: None })?;
            }
            return Ok(());
        }
        // What waits for a connection was due earlier than what comes now.
        let was_free = self.waiting.is_empty() && !self.idle.is_empty();
        while let Some(due) = self.arrivals.due(times.start, now.min(times.until)) {
            if was_free {
                self.outcome.late_ns.push(nanoseconds(now - due));
            }
            self.waiting.push_back(Waiting { due, since: None });
        }
        while !self.idle.is_empty()
            && let Some(waiting) = self.waiting.pop_front()
        {
            self.ask(waiting)?;
        }
        for waiting in self.waiting.iter_mut().rev().take_while(|waiting| waiting.since.is_none()) {
            waiting.since = Some(SystemTime::now());
        }
        Ok(())
    }

    /// Sends one request on a free connection.
    fn ask(&mut self, waiting: Waiting) -> io::Result<()> {
        if self.stream.path.contains("{}") {
            self.write_request();
        }
        if let Some(free) = self.idle.pop_front() {
            let from = waiting.since.unwrap_or_else(SystemTime::now);
            self.connections[free].ask(&self.request, Asked { due: waiting.due, from })?;
        }
        Ok(())
    }

    /// Reads what has come on a connection.
    fn take_in(&mut self, which: usize, scratch: &mut Scratch) -> io::Result<()> {
        let Progress::Answered { asked, came, status } = self.connections[which].take_in(scratch)? else {
            return Ok(());
        };
        self.idle.push_back(which);
        if status != self.stream.status {
            self.outcome.failed += 1;
            return Ok(());
        }
        self.outcome.latencies_ns.push(nanoseconds(asked.due.elapsed()));
        // The system's clock may be set back meanwhile.
        self.outcome.servers_ns.push(nanoseconds(came.duration_since(asked.from).unwrap_or_default()));
        Ok(())
    }

    /// Whether nothing is asked or waits.
    fn is_answered(&self) -> bool {
        self.waiting.is_empty() && self.idle.len() == self.connections.len()
    }

    /// A turn is over.
    fn end_turn(&mut self) {
        let outcome = &mut self.outcome;
        for (latencies, p99s) in [
            (&mut outcome.latencies_ns, &mut outcome.turn_p99s_ns),
            (&mut outcome.servers_ns, &mut outcome.turn_servers_p99s_ns),
        ] {
            let turn = &mut latencies[self.before..];
            turn.sort_unstable();
            p99s.push(percentile(turn, 0.99));
        }
        self.before = outcome.latencies_ns.len();
    }

    fn finish(mut self) -> Outcome {
        let outcome = &mut self.outcome;
        outcome.failed += (self.waiting.len() + self.connections.len() - self.idle.len()) as u64;
        for times in [
            &mut outcome.latencies_ns,
            &mut outcome.turn_p99s_ns,
            &mut outcome.servers_ns,
            &mut outcome.turn_servers_p99s_ns,
            &mut outcome.late_ns,
        ] {
            times.sort_unstable();
        }
        self.outcome
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn percentile(ascending: &[u64], share: f64) -> u64 {
    let last = ascending.len().saturating_sub(1);
    ascending.get((last as f64 * share).round() as usize).copied().unwrap_or(0)
}

/// Events taken in at once.
const EVENTS_MAX: usize = 256;

const NO_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// How long after the end an answer may come before its request counts as failed.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Answer, Origin};

    fn stream(rate: f64) -> Stream {
        Stream { rate, path: "/{}".into(), objects: 4, connections: 3, ..Stream::default() }
    }

    #[test]
    fn answers_without_a_body_are_taken_and_other_statuses_are_failures() {
        let origin = Origin::start();
        origin.on("/*", Answer::ok("x".repeat(500)));
        origin.on("/same", Answer { status: 304, ..Answer::ok("") });
        let stream = |method: &str, path: &str, status| {
            let (method, path) = (method.into(), path.into());
            Stream { method, path, status, ..Stream::default() }
        };
        let streams = [stream("HEAD", "/a", 200), stream("GET", "/same", 304), stream("GET", "/a", 304)];
        let outcomes = loaded(&origin, &streams, 100);
        let counts = outcomes.iter().map(|outcome| (outcome.latencies_ns.len() > 3, outcome.failed > 3));
        assert!(counts.eq([(true, false), (true, false), (false, true)]), "{outcomes:?}");
    }

    /// What came of `streams` in one turn of so many milliseconds.
    fn loaded(origin: &Origin, streams: &[Stream], milliseconds: u64) -> Vec<Outcome> {
        let case = Case { address: origin.address(), streams: streams.to_vec() };
        let mut turns = in_turn(&[case], Duration::from_millis(milliseconds), 1, 1).expect("it answers");
        turns.remove(0).outcomes
    }

    #[test]
    fn what_is_due_is_asked_and_answered() {
        let origin = Origin::start();
        origin.on("/*", Answer::ok("x".repeat(50_000)));
        let outcomes = loaded(&origin, &[stream(200.0), stream(0.0)], 500);
        let open = outcomes[0].latencies_ns.len();
        assert!((50..=150).contains(&open), "about 100 of {open}");
        assert!(outcomes[1].latencies_ns.len() > 3);
        assert_eq!(outcomes.iter().map(|outcome| outcome.failed).sum::<u64>(), 0);
        for number in 0..4 {
            assert!(origin.count(&format!("/{number}")) > 0);
        }
    }

    /// A server that answers nothing for a while is seen by all requests that were due meanwhile.
    #[test]
    fn a_stall_counts_for_all_that_waited() {
        let origin = Origin::start();
        origin.on("/*", Answer::ok("x").delay(Duration::from_millis(300)));
        let outcomes = loaded(&origin, &[stream(100.0)], 150);
        let third = outcomes[0].latency_ns(0.33);
        assert!(third > 400_000_000, "three connections serve ten requests a second; {third} ns");
        let servers = outcomes[0].server_ns(0.33);
        assert!(servers > 400_000_000, "to wait for a connection is the server's part; {servers} ns");
        assert!(outcomes[0].late_ns(0.5) < 50_000_000);
    }

    /// What the generator takes itself, as here by sleeping before it reads, is none of it.
    #[test]
    fn the_servers_part_is_from_leaving_to_arriving() {
        let origin = Origin::start();
        origin.on("/*", Answer::ok("x").delay(Duration::from_millis(20)));
        let mut outcomes = loaded(&origin, &[stream(50.0), stream(0.0)], 200);
        for Outcome { latencies_ns, servers_ns, turn_servers_p99s_ns, .. } in &mut outcomes {
            assert_eq!((servers_ns.len(), turn_servers_p99s_ns.len()), (latencies_ns.len(), 1));
            // The generator reads nothing before the kernel has it, and asks for nothing before it
            // is due.
            assert!(
                servers_ns.iter().zip(latencies_ns).all(|(part, whole)| *part <= *whole + CLOCKS_APART_NS)
            );
            assert!(servers_ns.iter().all(|part| *part >= 20_000_000), "{servers_ns:?}");
        }
        let slow = Connection::open(origin.address(), true).and_then(|mut connection| {
            let asked = Asked { due: Instant::now(), from: SystemTime::now() };
            connection.ask(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", asked)?;
            std::thread::sleep(Duration::from_secs(1));
            connection.take_in(&mut Scratch::new())
        });
        let Ok(Progress::Answered { asked, came, .. }) = slow else { panic!("it has come by then") };
        let part = came.duration_since(asked.from).expect("after it was asked");
        assert!(part < Duration::from_millis(900) && asked.due.elapsed() > part, "{part:?}");
    }

    /// The system's clock and the monotonic one go at rates that differ by as much as that in a
    /// test's time.
    const CLOCKS_APART_NS: u64 = 1_000_000;

    #[test]
    fn other_answers_are_failures() {
        let origin = Origin::start();
        origin.on("/*", Answer::new(404));
        let outcomes = loaded(&origin, &[stream(50.0)], 200);
        assert!(outcomes[0].latencies_ns.is_empty() && outcomes[0].failed > 0);
    }

    #[test]
    fn percentiles_of_few_and_of_none() {
        assert_eq!(percentile(&[], 0.99), 0);
        assert_eq!(percentile(&[7], 0.99), 7);
        assert_eq!(percentile(&(1..=101).collect::<Vec<_>>(), 0.99), 100);
    }
}
