//! Times of getpages in a fleet: simulated request by request, and by the queueing model of Voelker
//! 2000, chapter 3.
//!
//! A server serves one page at a time, in the order of arrival. A getpage waits for those before
//! it, a putpage keeps the server and makes no request wait at its own node. The time on the wire
//! comes on top, and is the same for each page.
//!
//! ```text
//!  simulated   each getpage: wire + wait behind the pages of the same requests + service
//!  modelled    closed network: jobs, think time, shares of the servers, putpages a getpage
//! ```
//!
//! Both have the same rates and shares. The model has random arrivals and service times, and knows
//! means alone: the two differ where requests come in bursts. O(1) a page.

use crate::model::gms::{MemoryServer, Method, Network, NetworkError, Putpages, ServerKind};
use std::time::Duration;

/// Times that running nodes have measured, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FleetTimes {
    /// Time of a page from another node while no other request waits there.
    pub page_seconds: f64,
    /// Time for which a page keeps its server.
    pub service_seconds: f64,
    /// Time of an object from disk.
    pub disk_seconds: f64,
}

impl FleetTimes {
    /// Returns the time on the wire, and in the node that asks.
    fn wire_seconds(&self) -> f64 {
        (self.page_seconds - self.service_seconds).max(0.0)
    }
}

/// Getpages and putpages of a run's counted part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PageTraffic {
    /// Getpages by server.
    pub getpages: Vec<u64>,
    /// Putpages by server.
    pub putpages: Vec<u64>,
    /// Sum of the getpages' times, in seconds.
    pub getpage_seconds: f64,
    /// Time of the counted part, in seconds.
    pub span_seconds: f64,
}

impl PageTraffic {
    /// Returns the simulated mean time of a getpage in seconds; `None` without getpages.
    pub fn simulated_seconds(&self) -> Option<f64> {
        let count = self.getpages.iter().sum::<u64>();
        (count > 0).then(|| self.getpage_seconds / count as f64)
    }

    /// Returns the mean time of a getpage in seconds by the queueing model, for as many `jobs` as
    /// wait for pages at the same time; `None` without getpages.
    ///
    /// # Errors
    /// If a time or a rate has no meaning in the model.
    pub fn modelled_seconds(&self, times: &FleetTimes, jobs: u32) -> Result<Option<f64>, NetworkError> {
        let sum = |counts: &[u64]| counts.iter().sum::<u64>() as f64;
        let (getpages, putpages) = (sum(&self.getpages), sum(&self.putpages));
        let Some(simulated) = self.simulated_seconds() else { return Ok(None) };
        let wire = times.wire_seconds();
        let cycle = f64::from(jobs) * self.span_seconds / getpages;
        let share = |(gets, puts): (&u64, &u64)| (gets + puts) as f64 / (getpages + putpages);
        let server = |probability| MemoryServer {
            kind: ServerKind::Idle,
            demand_seconds: times.service_seconds,
            probability,
        };
        let network = Network {
            global_nodes: jobs,
            think_seconds: (cycle - (simulated - wire)).max(0.0),
            putpages: Putpages::PerGetpage(putpages / getpages),
            servers: self.getpages.iter().zip(&self.putpages).map(share).map(server).collect(),
        };
        let solved = network.solve(Method::Linearizer)?;
        Ok(Some(wire + solved.response_seconds))
    }
}

/// Servers of a fleet, as time goes on.
pub(super) struct FleetClock {
    times: FleetTimes,
    /// Times at which the servers have served all that came so far.
    free_at: Vec<f64>,
    began: f64,
    traffic: PageTraffic,
}

impl FleetClock {
    pub fn new(times: FleetTimes, servers: usize) -> Self {
        let mut clock =
            Self { times, free_at: vec![0.0; servers], began: 0.0, traffic: PageTraffic::default() };
        clock.count_from(Duration::ZERO);
        clock
    }

    /// Counts from now on.
    pub fn count_from(&mut self, now: Duration) {
        let none = vec![0; self.free_at.len()];
        self.began = now.as_secs_f64();
        self.traffic = PageTraffic { getpages: none.clone(), putpages: none, ..PageTraffic::default() };
    }

    /// Serves a getpage. Returns its time in seconds.
    pub fn getpage(&mut self, server: usize, now: Duration) -> f64 {
        let seconds = self.times.wire_seconds() + self.serve(server, now);
        self.traffic.getpages[server] += 1;
        self.traffic.getpage_seconds += seconds;
        seconds
    }

    /// Serves a putpage.
    pub fn putpage(&mut self, server: usize, now: Duration) {
        self.serve(server, now);
        self.traffic.putpages[server] += 1;
    }

    /// Returns the time of an object from disk in seconds.
    pub fn disk_seconds(&self) -> f64 {
        self.times.disk_seconds
    }

    /// Returns the traffic of the counted part, which ends now.
    pub fn traffic(self, now: Duration) -> PageTraffic {
        PageTraffic { span_seconds: (now.as_secs_f64() - self.began).max(0.0), ..self.traffic }
    }

    /// Returns the time from the arrival of a page's request to its end.
    fn serve(&mut self, server: usize, now: Duration) -> f64 {
        let now = now.as_secs_f64();
        let ends = self.free_at[server].max(now) + self.times.service_seconds;
        debug_assert!(ends >= now, "time goes on");
        self.free_at[server] = ends;
        ends - now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: FleetTimes =
        FleetTimes { page_seconds: 300e-6, service_seconds: 100e-6, disk_seconds: 5e-3 };

    #[test]
    fn page_waits_for_those_before_it() {
        let mut clock = FleetClock::new(TIMES, 2);
        let now = Duration::from_secs(1);
        assert!((clock.getpage(0, now) - 300e-6).abs() < 1e-9);
        clock.putpage(0, now);
        assert!((clock.getpage(0, now) - 500e-6).abs() < 1e-9, "behind a getpage and a putpage");
        assert!((clock.getpage(1, now) - 300e-6).abs() < 1e-9, "the other server is free");
        let traffic = clock.traffic(Duration::from_secs(3));
        assert_eq!((traffic.getpages, traffic.putpages), (vec![2, 1], vec![1, 0]));
        assert!((traffic.span_seconds - 3.0).abs() < 1e-9);
    }

    /// Requests at random, as the model has them, at servers that are busy for a third of the time.
    #[test]
    fn simulation_agrees_with_the_model() {
        let mut random = shoal_trace::Random::new(3);
        let (mut clock, mut now) = (FleetClock::new(TIMES, 3), 0.0);
        for _ in 0..200_000 {
            now += -random.unit().max(f64::MIN_POSITIVE).ln() * 200e-6;
            let at = Duration::from_secs_f64(now);
            clock.getpage((random.unit() * 3.0) as usize, at);
            clock.putpage((random.unit() * 3.0) as usize, at);
        }
        let traffic = clock.traffic(Duration::from_secs_f64(now));
        let simulated = traffic.simulated_seconds().expect("getpages");
        let modelled = traffic.modelled_seconds(&TIMES, 16).expect("a solution").expect("getpages");
        assert!(simulated > 310e-6, "they wait: {simulated}");
        assert!((modelled / simulated - 1.0).abs() < 0.2, "{modelled} {simulated}");
    }

    #[test]
    fn fleet_without_getpages_has_no_time() {
        let traffic = FleetClock::new(TIMES, 2).traffic(Duration::from_secs(1));
        assert_eq!(traffic.simulated_seconds(), None);
        assert_eq!(traffic.modelled_seconds(&TIMES, 1), Ok(None));
    }
}
