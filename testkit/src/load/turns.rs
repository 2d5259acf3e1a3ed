//! Alternatives that are loaded for a moment each, in turn: several servers, or one server under
//! several loads.
//!
//! What a request costs, and how long it takes, changes within a second by a quarter where other
//! machines share the processor's caches, and not by the same share for all servers. Points of a
//! second each, one behind the other, compare hours; turns of some milliseconds compare servers.

use super::{Buffers, Lane, Outcome, Stream, Times, drive};
use rustix::event::epoll::{self, CreateFlags};
use serde::Deserialize;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// One alternative: a server, and what it is asked for while it has its turn.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Where the server listens.
    pub address: SocketAddr,
    /// What it is asked for, all at once.
    pub streams: Vec<Stream>,
}

/// What came of one alternative.
#[derive(Debug)]
pub struct Turns {
    /// An outcome of each of its streams, over all turns.
    pub outcomes: Vec<Outcome>,
    /// For how long it was loaded, answers behind the end of a turn along.
    pub loaded: Duration,
}

/// Loads each of `cases` for `slice`, in turn, so that each has `turns`; the order is turned round
/// each time. Before the next has its turn all is answered. The time of a stream with a rate stands
/// still between its turns, and streams at the same place have the same instants in all cases. An
/// error says that a connection could not be made, or a server did not answer in time.
pub fn in_turn(cases: &[Case], slice: Duration, turns: u32, seed: u64) -> io::Result<Vec<Turns>> {
    let mut loads = cases.iter().map(|case| Load::open(case, seed)).collect::<io::Result<Vec<_>>>()?;
    std::thread::sleep(ACCEPTED_WITHIN);
    let mut buffers = Buffers::new();
    for turn in 0..turns {
        for place in order(turn, loads.len()) {
            loads[place].take_turn(slice, turn, &mut buffers)?;
        }
    }
    Ok(loads.into_iter().map(Load::finish).collect())
}

/// What servers are left to take in their connections, which would count as latency of the first
/// requests otherwise.
const ACCEPTED_WITHIN: Duration = Duration::from_millis(100);

/// A case with its connections.
struct Load<'c> {
    case: &'c Case,
    poll: OwnedFd,
    lanes: Vec<Lane<'c>>,
    loaded: Duration,
}

impl<'c> Load<'c> {
    fn open(case: &'c Case, seed: u64) -> io::Result<Self> {
        let poll = epoll::create(CreateFlags::CLOEXEC)?;
        let lanes = Lane::open_all(case.address, &case.streams, &poll, seed)?;
        Ok(Self { case, poll, lanes, loaded: Duration::ZERO })
    }

    /// Loads the server for `slice`, after `turns` of the same length.
    fn take_turn(&mut self, slice: Duration, turns: u32, buffers: &mut Buffers) -> io::Result<()> {
        let from = Instant::now();
        let times = Times { start: from - slice * turns, until: from + slice };
        drive(&self.poll, &mut self.lanes, &times, buffers)?;
        self.loaded += from.elapsed();
        self.lanes.iter_mut().for_each(Lane::end_turn);
        if self.lanes.iter().all(Lane::is_answered) {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("{} does not answer", self.case.address)))
    }

    fn finish(self) -> Turns {
        Turns { outcomes: self.lanes.into_iter().map(Lane::finish).collect(), loaded: self.loaded }
    }
}

/// The alternatives in the order of a turn.
fn order(turn: u32, cases: usize) -> impl Iterator<Item = usize> {
    (0..cases).map(move |place| if turn.is_multiple_of(2) { place } else { cases - 1 - place })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Answer, Origin};

    fn stream(rate: f64, path: &str) -> Stream {
        Stream { rate, path: path.into(), objects: 2, connections: 3, ..Stream::default() }
    }

    fn case(origin: &Origin, streams: &[Stream]) -> Case {
        Case { address: origin.address(), streams: streams.to_vec() }
    }

    #[test]
    fn one_server_at_a_time_is_asked() {
        let servers = [Origin::start(), Origin::start()];
        let delay = Duration::from_millis(40);
        for server in &servers {
            server.on("/*", Answer::ok("x").delay(delay));
        }
        let cases = servers.each_ref().map(|server| case(server, &[stream(0.0, "/{}")]));
        let start = Instant::now();
        let turns = in_turn(&cases, Duration::from_millis(1), 3, 1).expect("they answer");
        assert!(start.elapsed() >= 6 * delay, "both were loaded at once");
        for (turns, server) in turns.iter().zip(&servers) {
            let Outcome { latencies_ns, turn_p99s_ns, failed, .. } = &turns.outcomes[0];
            assert_eq!((latencies_ns.len(), turn_p99s_ns.len(), *failed), (9, 3, 0));
            assert!(turn_p99s_ns.iter().all(|p99_ns| *p99_ns >= delay.as_nanos() as u64), "{turn_p99s_ns:?}");
            assert_eq!(server.count("/0") + server.count("/1"), 9, "all that was asked was waited for");
            let loaded = turns.loaded;
            assert!(loaded >= 3 * delay && loaded <= start.elapsed() - 3 * delay, "{loaded:?}");
        }
    }

    /// A rate is of the time that a case has its turn, and a second load comes in its own turns
    /// alone.
    #[test]
    fn rates_are_kept_over_the_turns_of_a_case() {
        let origin = Origin::start();
        origin.on("/*", Answer::ok("x"));
        let alone = case(&origin, &[stream(2000.0, "/alone")]);
        let beside = case(&origin, &[stream(2000.0, "/beside"), stream(500.0, "/more")]);
        let turns = in_turn(&[alone, beside], Duration::from_millis(20), 20, 7).expect("it answers");
        let counted: Vec<Vec<usize>> = turns
            .iter()
            .map(|turns| turns.outcomes.iter().map(|outcome| outcome.latencies_ns.len()).collect())
            .collect();
        assert_eq!(counted[0][0], counted[1][0], "the instants are the same");
        assert!((700..900).contains(&counted[0][0]), "800 of {counted:?}");
        assert!((150..250).contains(&counted[1][1]), "200 of {counted:?}");
        for (path, count) in [("/alone", counted[0][0]), ("/beside", counted[1][0]), ("/more", counted[1][1])]
        {
            assert_eq!(origin.count(path), count);
        }
    }

    #[test]
    fn the_order_is_turned_round_each_time() {
        assert!(order(0, 3).eq([0, 1, 2]) && order(1, 3).eq([2, 1, 0]) && order(2, 3).eq([0, 1, 2]));
    }

    #[test]
    fn a_server_that_does_not_answer_is_named() {
        let origin = Origin::start();
        origin.on("/*", Answer::ok("x").delay(Duration::from_secs(30)));
        let cases = [case(&origin, &[stream(0.0, "/")])];
        let error = in_turn(&cases, Duration::from_millis(1), 1, 1).expect_err("it waits");
        assert_eq!(error.to_string(), format!("{} does not answer", origin.address()));
    }
}
