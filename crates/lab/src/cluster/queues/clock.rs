//! Time and the stations where it passes. Each station serves one visit after the other, in the
//! order of arrival.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Clock with its stations and ways.
pub(super) struct QueueClock {
    now: u64,
    /// Coming events: time, order in which the event was set, and station or way.
    ahead: BinaryHeap<Reverse<(u64, u64, u32)>>,
    set: u64,
    stations: Vec<Station>,
    /// Ways by their length. Journeys on a way arrive in the order of their start, so that only the
    /// first of each way is in `ahead`.
    ways: Vec<(u64, VecDeque<(u64, u32)>)>,
}

/// An event that has happened.
pub(super) enum ClockEvent {
    /// A station has served a journey.
    Served(u32),
    /// A journey has come to the other end of its way.
    Arrived(u32),
    /// A station has finished work that no journey waits for.
    ChoreDone,
}

#[derive(Default)]
struct Station {
    serving: Option<u32>,
    waiting: VecDeque<(u64, u32)>,
    busy_us: u64,
}

impl QueueClock {
    pub(super) fn new(stations: usize) -> Self {
        let stations = (0..stations).map(|_| Station::default()).collect();
        Self { now: 0, ahead: BinaryHeap::new(), set: 0, stations, ways: Vec::new() }
    }

    /// Returns microseconds since the run began.
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    /// Returns the time that each station has served so far. The visit in service counts whole.
    pub(super) fn busy(&self) -> Vec<u64> {
        self.stations.iter().map(|station| station.busy_us).collect()
    }

    /// Adds a journey to a station that needs `us` microseconds for it.
    pub(super) fn visit(&mut self, station: usize, us: u64, journey: u32) {
        if self.stations[station].serving.is_some() {
            self.stations[station].waiting.push_back((us, journey));
        } else {
            self.start(station, us, journey);
        }
    }

    /// Gives a station work of `us` microseconds that belongs to no journey.
    pub(super) fn chore(&mut self, station: usize, us: u64) {
        self.visit(station, us, NOBODY);
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
            self.set_at(arrives, way as u32 | IS_WAY);
        }
    }

    /// Moves the time to the next event and returns it; `None` when there is none.
    pub(super) fn next(&mut self) -> Option<ClockEvent> {
        let Reverse((at, _, what)) = self.ahead.pop()?;
        debug_assert!(at >= self.now, "no event is set for a time before its cause");
        self.now = at;
        if what & IS_WAY != 0 {
            return Some(self.arrive(what & !IS_WAY));
        }
        let station = &mut self.stations[what as usize];
        let served = station.serving.take();
        if let Some((us, journey)) = station.waiting.pop_front() {
            self.start(what as usize, us, journey);
        }
        Some(served.filter(|journey| *journey != NOBODY).map_or(ClockEvent::ChoreDone, ClockEvent::Served))
    }

    /// Ends the way of the first journey on it.
    fn arrive(&mut self, way: u32) -> ClockEvent {
        let behind = &mut self.ways[way as usize].1;
        let first = behind.pop_front();
        if let Some((arrives, _)) = behind.front().copied() {
            self.set_at(arrives, way | IS_WAY);
        }
        first.map_or(ClockEvent::ChoreDone, |(_, journey)| ClockEvent::Arrived(journey))
    }

    fn start(&mut self, station: usize, us: u64, journey: u32) {
        self.stations[station].serving = Some(journey);
        self.stations[station].busy_us += us;
        self.set_at(self.now + us, station as u32);
    }

    fn set_at(&mut self, at: u64, what: u32) {
        self.set += 1;
        self.ahead.push(Reverse((at, self.set, what)));
    }
}

/// Bit that distinguishes ways from stations; there are fewer of both.
const IS_WAY: u32 = 1 << 31;
/// Journey number that stands for no journey.
const NOBODY: u32 = u32::MAX;
