//! Decision about a miss in RAM: the page's holder is asked, or the own disk.
//!
//! Both costs are measured by the node that asks: the time that its disk takes now, and the time
//! that this peer takes now. CPU counts on both sides. A second of CPU costs the wait that it
//! causes for others: u / (1 − u) seconds in a queue of random arrivals at utilization u.
//!
//! [`PeerSwitch`] turns shared memory off for a peer that is slower than the disk over many pages,
//! and tries it again after a while.

use std::time::Duration;

/// Decayed mean of a time.
#[derive(Clone, Copy, Debug, Default)]
pub struct CostMeter {
    mean_seconds: Option<f64>,
    count: u64,
}

impl CostMeter {
    /// Records a measurement.
    pub fn took(&mut self, time: Duration) {
        let seconds = time.as_secs_f64();
        let mean = self.mean_seconds.unwrap_or(seconds);
        self.mean_seconds = Some(mean + (seconds - mean) / WINDOW.min(self.count as f64 + 1.0));
        self.count += 1;
        debug_assert!(self.mean_seconds.is_some_and(|mean| mean >= 0.0));
    }

    /// Returns the mean in seconds; `None` before the first measurement.
    pub fn seconds(&self) -> Option<f64> {
        self.mean_seconds
    }

    /// Returns the number of measurements.
    pub fn count(&self) -> u64 {
        self.count
    }
}

/// Costs of the two ways to a page, for the node that asks.
#[derive(Clone, Copy, Debug)]
pub struct PageCosts {
    /// Time of the own disk in seconds; `None` if unknown.
    pub disk: Option<f64>,
    /// Time of the peer in seconds; `None` if unknown.
    pub peer: Option<f64>,
    /// CPU time of this node for a page from a peer beyond that for one from disk, in seconds.
    pub own_cpu: f64,
    /// Utilization of this node's CPU, from 0 to 1.
    pub own_utilization: f64,
    /// CPU time of the server, in seconds.
    pub server_cpu: f64,
    /// Utilization of the server's CPU, from 0 to 1.
    pub server_utilization: f64,
}

impl PageCosts {
    /// Returns `true` if the peer costs less than the disk. A way of unknown cost is tried.
    pub fn peer_is_cheaper(&self) -> bool {
        let (Some(disk), Some(peer)) = (self.disk, self.peer) else { return true };
        let cpu = self.own_cpu * cpu_price(self.own_utilization)
            + self.server_cpu * cpu_price(self.server_utilization);
        peer + cpu < disk
    }
}

/// Returns the wait in seconds that a second of CPU causes for others.
pub fn cpu_price(utilization: f64) -> f64 {
    let utilization =
        if utilization.is_nan() { UTILIZATION_MAX } else { utilization.clamp(0.0, UTILIZATION_MAX) };
    utilization / (1.0 - utilization)
}

/// Judge of one peer: on, or off for a while.
#[derive(Clone, Copy, Debug, Default)]
pub struct PeerSwitch {
    slower: u32,
    off_until: Duration,
    pause: Duration,
}

/// Change of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchChange {
    /// No change.
    None,
    /// The peer is not asked for this time.
    Off(Duration),
}

impl PeerSwitch {
    /// Returns `true` if the peer may be asked.
    pub fn is_on(&self, now: Duration) -> bool {
        now >= self.off_until
    }

    /// Records the judgement of one page: the peer is cheaper, or the disk.
    pub fn judged(&mut self, is_cheaper: bool, now: Duration) -> SwitchChange {
        if is_cheaper {
            self.slower = 0;
            // A peer that pays again is forgiven little by little.
            self.pause = self.pause.saturating_sub(PAUSE_CREDIT);
            return SwitchChange::None;
        }
        self.slower += 1;
        if self.slower < SLOWER_MAX || !self.is_on(now) {
            return SwitchChange::None;
        }
        self.slower = 0;
        self.pause = (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
        self.off_until = now + self.pause;
        debug_assert!((PAUSE_MIN..=PAUSE_MAX).contains(&self.pause));
        SwitchChange::Off(self.pause)
    }
}

/// Measurements in a mean.
const WINDOW: f64 = 32.0;

/// Utilization beyond which the price rises no more.
const UTILIZATION_MAX: f64 = 0.95;

/// Judgements against the peer in a row after which it is off.
const SLOWER_MAX: u32 = 32;

/// Shortest and longest time for which a peer is off.
const PAUSE_MIN: Duration = Duration::from_secs(10);
const PAUSE_MAX: Duration = Duration::from_secs(600);

/// Time by which the next pause shortens with each page that paid.
const PAUSE_CREDIT: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: PageCosts = PageCosts {
        disk: Some(0.005),
        peer: Some(0.0005),
        own_cpu: 50e-6,
        own_utilization: 0.3,
        server_cpu: 50e-6,
        server_utilization: 0.3,
    };

    #[test]
    fn cheaper_way_wins() {
        assert!(COSTS.peer_is_cheaper());
        assert!(!PageCosts { disk: Some(0.0001), ..COSTS }.peer_is_cheaper());
        assert!(PageCosts { disk: None, ..COSTS }.peer_is_cheaper(), "an unknown way is tried");
        assert!(PageCosts { peer: None, disk: Some(0.0), ..COSTS }.peer_is_cheaper());
        let near = PageCosts { disk: Some(0.0006), ..COSTS };
        assert!(near.peer_is_cheaper());
        assert!(!PageCosts { server_utilization: 0.95, ..near }.peer_is_cheaper(), "its CPU is scarce");
        assert!(!PageCosts { own_utilization: 0.95, ..near }.peer_is_cheaper());
        assert!(cpu_price(f64::NAN) < 20.0 && cpu_price(7.0) < 20.0 && cpu_price(-1.0) == 0.0);
    }

    #[test]
    fn mean_follows_the_latest() {
        let mut meter = CostMeter::default();
        assert_eq!(meter.seconds(), None);
        (0..100).for_each(|_| meter.took(Duration::from_millis(10)));
        (0..200).for_each(|_| meter.took(Duration::from_millis(1)));
        assert!(meter.seconds().is_some_and(|mean| (0.001..0.0012).contains(&mean)));
    }

    #[test]
    fn slow_peer_is_off_for_longer_and_longer() {
        let (mut switch, mut now) = (PeerSwitch::default(), Duration::from_secs(5));
        let mut pauses = Vec::new();
        for _ in 0..8 {
            let pause = (0..100).find_map(|_| match switch.judged(false, now) {
                SwitchChange::Off(pause) => Some(pause),
                SwitchChange::None => None,
            });
            let pause = pause.expect("it goes off");
            assert!(!switch.is_on(now) && switch.is_on(now + pause));
            now += pause;
            pauses.push(pause.as_secs());
        }
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 600, 600]);
        (0..10_000).for_each(|_| assert_eq!(switch.judged(true, now), SwitchChange::None));
        (0..31).for_each(|_| assert_eq!(switch.judged(false, now), SwitchChange::None));
        assert_eq!(switch.judged(false, now), SwitchChange::Off(PAUSE_MIN));
    }
}
