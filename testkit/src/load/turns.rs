//! Closed loops at several servers, each of which is loaded for a moment, in turn.
//!
//! What a request costs changes within a second by a quarter where other machines share the processor's caches, and not by the same
//! share for all servers. Points of a second each, one behind the other, compare hours; turns of some milliseconds compare servers.

use super::{Buffers, Lane, Outcome, Stream, Times, drive};
use rustix::event::epoll::{self, CreateFlags};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Loads each of `addresses` by a closed loop for `slice`, in turn, so that each has `turns`; the order is turned round each time. Before the
/// next has its turn all is answered. Says for how long each was loaded, answers behind the end of a turn along. An error says that a connection could not be made, or a server did not answer in time.
pub fn in_turn(
    addresses: &[SocketAddr],
    stream: &Stream,
    slice: Duration,
    turns: u32,
) -> io::Result<Vec<(Outcome, Duration)>> {
    let closed = Stream { rate: 0.0, ..stream.clone() };
    let mut loops = Vec::new();
    for &address in addresses {
        let poll = epoll::create(CreateFlags::CLOEXEC)?;
        loops.push((Lane::open(address, &closed, &poll, 0, 1)?, poll, Duration::ZERO));
    }
    let mut buffers = Buffers::new();
    for turn in 0..turns {
        for place in order(turn, loops.len()) {
            let (lane, poll, loaded) = &mut loops[place];
            let start = Instant::now();
            let times = Times { start, from: start, until: start + slice };
            drive(poll, std::slice::from_mut(lane), &times, &mut buffers)?;
            *loaded += start.elapsed();
            if !lane.is_answered() {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("{} does not answer", addresses[place]),
                ));
            }
        }
    }
    Ok(loops.into_iter().map(|(lane, _, loaded)| (lane.finish(), loaded)).collect())
}

/// The servers in the order of a turn.
fn order(turn: u32, servers: usize) -> impl Iterator<Item = usize> {
    (0..servers).map(move |place| if turn.is_multiple_of(2) { place } else { servers - 1 - place })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Answer, Origin};

    #[test]
    fn one_server_at_a_time_is_asked() {
        let servers = [Origin::start(), Origin::start()];
        let delay = Duration::from_millis(40);
        for server in &servers {
            server.on("/*", Answer::ok("x").delay(delay));
        }
        let stream = Stream { rate: 9.0, path: "/{}".into(), objects: 2, connections: 3, fields: Vec::new() };
        let (slice, addresses) = (Duration::from_millis(1), servers.each_ref().map(Origin::address));
        let start = Instant::now();
        let outcomes = in_turn(&addresses, &stream, slice, 3).expect("they answer");
        assert!(start.elapsed() >= 6 * delay, "both were loaded at once");
        for ((outcome, loaded), server) in outcomes.iter().zip(&servers) {
            assert_eq!((outcome.answered_in_all, outcome.failed), (9, 0));
            assert_eq!(server.count("/0") + server.count("/1"), 9, "all that was asked was waited for");
            assert!(*loaded >= 3 * delay && *loaded <= start.elapsed() - 3 * delay, "{loaded:?}");
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
        let stream = Stream { rate: 0.0, path: "/".into(), objects: 0, connections: 1, fields: Vec::new() };
        let error = in_turn(&[origin.address()], &stream, Duration::from_millis(1), 1).expect_err("it waits");
        assert_eq!(error.to_string(), format!("{} does not answer", origin.address()));
    }
}
