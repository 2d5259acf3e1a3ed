//! Time and the stations where it passes. Each station serves one visit after the other, in the
//! order of arrival.

use super::agenda::Agenda;
use std::collections::VecDeque;

/// Clock with its stations and ways.
pub(super) struct QueueClock {
    now: u64,
    /// Coming events: sources are the stations, and the ways behind them.
    ahead: Agenda,
    stations: Vec<Station>,
    /// Ways by their length. Journeys on a way arrive in the order of their start, so that only the
    /// first of each way is in `ahead`.
    ways: Vec<(u64, VecDeque<(u64, u32)>)>,
}

/// A station: visits end in the order of their arrival. The end of each is known when it begins to
/// wait, and only the first end is in the agenda.
#[derive(Default)]
struct Station {
    /// Ends of visits with their journeys.
    ends: VecDeque<(u64, u32)>,
    /// Time at which all work so far is done.
    free_at: u64,
    /// Work so far, queued work included.
    work_us: u64,
}

impl QueueClock {
    pub(super) fn new(stations: usize) -> Self {
        let ahead = Agenda::new(stations + WAYS);
        let stations = (0..stations).map(|_| Station::default()).collect();
        Self { now: 0, ahead, stations, ways: Vec::new() }
    }

    /// Returns microseconds since the run began.
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    /// Returns the time that each station has served so far.
    pub(super) fn busy(&self) -> Vec<u64> {
        let busy = |station: &Station| station.work_us - station.free_at.saturating_sub(self.now);
        self.stations.iter().map(busy).collect()
    }

    /// Adds a journey to a station that needs `us` microseconds for it.
    pub(super) fn visit(&mut self, station: usize, us: u64, journey: u32) {
        self.chore(station, us);
        let ends = self.stations[station].free_at;
        self.stations[station].ends.push_back((ends, journey));
        if self.stations[station].ends.len() == 1 {
            self.ahead.set(station, ends);
        }
    }

    /// Gives a station work of `us` microseconds that belongs to no journey. Its end is no event:
    /// it only delays later visits.
    pub(super) fn chore(&mut self, station: usize, us: u64) {
        let station = &mut self.stations[station];
        station.free_at = station.free_at.max(self.now) + us;
        station.work_us += us;
    }

    /// Sends a journey on a way of `us` microseconds.
    pub(super) fn travel(&mut self, us: u64, journey: u32) {
        let known = self.ways.iter().position(|way| way.0 == us);
        let way = known.unwrap_or_else(|| {
            self.ways.push((us, VecDeque::new()));
            self.ways.len() - 1
        });
        let arrives = self.now + us;
        self.ways[way].1.push_back((arrives, journey));
        if self.ways[way].1.len() == 1 {
            let source = self.stations.len() + way;
            if source == self.ahead.sources() {
                self.ahead.grow();
            }
            self.ahead.set(source, arrives);
        }
    }

    /// Moves the time to the next event: a station has served a journey, or a journey has come to
    /// the end of its way. Returns the journey; `None` when nothing is ahead.
    pub(super) fn next(&mut self) -> Option<u32> {
        let (at, source) = self.ahead.first()?;
        debug_assert!(at >= self.now, "no event is set for a time before its cause");
        self.now = at;
        let ends = match self.stations.get_mut(source) {
            Some(station) => &mut station.ends,
            None => &mut self.ways[source - self.stations.len()].1,
        };
        let first = ends.pop_front();
        debug_assert!(first.is_some_and(|(ends, _)| ends == at), "the agenda has the first end");
        match ends.front() {
            Some((ends, _)) => self.ahead.set(source, *ends),
            None => self.ahead.clear(source),
        }
        first.map(|(_, journey)| journey)
    }
}

/// Ways that there is room for at first; there are as many as counts of hops.
const WAYS: usize = 8;
