//! Time and the stations where it passes: each serves one visit after the other, in the order in
//! which they came.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// See the file's head.
pub(super) struct Clock {
    now: u64,
    /// What comes next: when, as how many-th it was set, and what.
    ahead: BinaryHeap<Reverse<(u64, u64, u32)>>,
    set: u64,
    stations: Vec<Station>,
    /// Ways by how long they are: who sets out first arrives first, so that only the first of each
    /// is among what comes next.
    ways: Vec<(u64, VecDeque<(u64, u32)>)>,
}

/// What has happened.
pub(super) enum ClockEvent {
    /// A station has served a journey.
    Served(u32),
    /// A journey has come to the other end of its way.
    Arrived(u32),
    /// A station has done what no journey waits for.
    ChoreDone,
}

#[derive(Default)]
struct Station {
    serving: Option<u32>,
    waiting: VecDeque<(u64, u32)>,
    busy_us: u64,
}

impl Clock {
    pub(super) fn new(stations: usize) -> Self {
        let stations = (0..stations).map(|_| Station::default()).collect();
        Self { now: 0, ahead: BinaryHeap::new(), set: 0, stations, ways: Vec::new() }
    }

    /// In microseconds since the run began.
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    /// How long each station has served so far, the visit that it is serving counted whole.
    pub(super) fn busy(&self) -> Vec<u64> {
        self.stations.iter().map(|station| station.busy_us).collect()
    }

    /// A journey comes to a station that needs so long for it.
    pub(super) fn visit(&mut self, station: usize, us: u64, journey: u32) {
        if self.stations[station].serving.is_some() {
            self.stations[station].waiting.push_back((us, journey));
        } else {
            self.start(station, us, journey);
        }
    }

    /// A station has something to do for nobody in particular.
    pub(super) fn chore(&mut self, station: usize, us: u64) {
        self.visit(station, us, NOBODY);
    }

    /// A journey is on its way for so long.
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

    /// Goes on to what happens next; `None` when nothing does.
    pub(super) fn next(&mut self) -> Option<ClockEvent> {
        let Reverse((at, _, what)) = self.ahead.pop()?;
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

    /// The first on a way is there.
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

/// Tells ways from stations; there are fewer of both.
const IS_WAY: u32 = 1 << 31;
/// No journey has this number.
const NOBODY: u32 = u32::MAX;
