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
        let ahead = Agenda::new(stations + WAYS);
        let stations = (0..stations).map(|_| Station::default()).collect();
        Self { now: 0, ahead, stations, ways: Vec::new() }
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
            let source = self.stations.len() + way;
            if source == self.ahead.sources() {
                self.ahead.grow();
            }
            self.ahead.set(source, arrives);
        }
    }

    /// Moves the time to the next event and returns it; `None` when there is none.
    pub(super) fn next(&mut self) -> Option<ClockEvent> {
        let (at, source) = self.ahead.first()?;
        debug_assert!(at >= self.now, "no event is set for a time before its cause");
        self.now = at;
        let Some(station) = self.stations.get_mut(source) else { return Some(self.arrive(source)) };
        let served = station.serving.take();
        match station.waiting.pop_front() {
            Some((us, journey)) => self.start(source, us, journey),
            None => self.ahead.clear(source),
        }
        Some(served.filter(|journey| *journey != NOBODY).map_or(ClockEvent::ChoreDone, ClockEvent::Served))
    }

    /// Ends the way of the first journey on it.
    fn arrive(&mut self, source: usize) -> ClockEvent {
        let behind = &mut self.ways[source - self.stations.len()].1;
        let first = behind.pop_front();
        match behind.front() {
            Some((arrives, _)) => self.ahead.set(source, *arrives),
            None => self.ahead.clear(source),
        }
        first.map_or(ClockEvent::ChoreDone, |(_, journey)| ClockEvent::Arrived(journey))
    }

    fn start(&mut self, station: usize, us: u64, journey: u32) {
        self.stations[station].serving = Some(journey);
        self.stations[station].busy_us += us;
        self.ahead.set(station, self.now + us);
    }
}

/// Ways that there is room for at first; there are as many as counts of hops.
const WAYS: usize = 8;
/// Journey number that stands for no journey.
const NOBODY: u32 = u32::MAX;
