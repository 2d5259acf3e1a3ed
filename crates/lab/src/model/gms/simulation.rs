//! The network of the model, simulated event by event, to check the model's solution.
//!
//! Global nodes think for an exponentially distributed time, send a getpage to a server drawn by
//! the routing probabilities, and wait. Servers take requests in the order of arrival. The
//! simulation can keep the assumptions of mean value analysis, or drop them:
//!
//! | | as in the model | as in a cluster |
//! |---|---|---|
//! | [`Arrivals`] of putpages | at random, at their own rate | with the getpage, or after it |
//! | [`Service`] | exponentially distributed | the same time for each page |
//!
//! O(log N) an event. The half width is that of a 95% confidence interval by batch means (Law,
//! *Simulation Modeling and Analysis*, 2015, section 9.5.3): twenty batches after a warm-up of one
//! more. A batch is long against the time that a queue takes to settle, unless a server is nearly
//! always busy.

use super::{Network, NetworkError, Putpages};
use shoal_trace::Random;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Setting of a simulation beside the network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NetworkSetup {
    /// Arrivals of putpages.
    pub arrivals: Arrivals,
    /// Distribution of service times.
    pub service: Service,
    /// Number of measured getpages, at most [`MOST_GETPAGES`]; a twentieth more come before them.
    pub getpages: u64,
    /// Seed of all random draws.
    pub seed: u64,
}

/// Arrivals of putpages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// At random, at this rate a second.
    Random(f64),
    /// At the end of a getpage, f of them on average, each to its own server.
    AfterGetpage,
    /// At the same instant as a getpage and behind it, f of them on average, each to its own
    /// server.
    WithGetpage,
}

/// Distributions of service times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Exponential.
    Exponential,
    /// The same time for each page.
    Constant,
}

/// Results of a simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkResult {
    /// R: time of a getpage, in seconds.
    pub response_seconds: Estimate,
    /// X: getpages a second.
    pub getpages_per_second: Estimate,
    /// Each server's busy share of the time.
    pub utilizations: Vec<f64>,
}

/// A mean with its error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half the width of the 95% confidence interval.
    pub half_width: f64,
}

/// Largest number of getpages that a simulation measures.
pub const MOST_GETPAGES: u64 = 100_000_000;

/// Simulates a network.
///
/// # Errors
/// As [`Network::check`]. With putpages at random, also when they alone are more than a server can
/// take.
pub fn simulate(network: &Network, setting: &NetworkSetup) -> Result<NetworkResult, NetworkError> {
    network.check()?;
    if let Arrivals::Random(rate) = setting.arrivals {
        Network { putpages: Putpages::Rate(rate), ..network.clone() }.check()?;
    }
    let mut run = NetworkRun::new(network, setting);
    let each = setting.getpages.clamp(BATCHES, MOST_GETPAGES) / BATCHES;
    if network.global_nodes == 0 {
        return Ok(run.nothing());
    }
    run.advance(each);
    let began = run.now;
    run.busy.iter_mut().for_each(|busy| *busy = 0.0);
    let batches: Vec<(f64, f64)> = (0..BATCHES).map(|_| run.batch(each)).collect();
    let elapsed = (run.now - began).max(f64::MIN_POSITIVE);
    Ok(NetworkResult {
        response_seconds: Estimate::of(batches.iter().map(|batch| batch.0)),
        getpages_per_second: Estimate::of(batches.iter().map(|batch| batch.1)),
        utilizations: run.busy.iter().map(|busy| busy / elapsed).collect(),
    })
}

struct NetworkRun<'a> {
    network: &'a Network,
    setting: &'a NetworkSetup,
    random: Random,
    /// Cumulative routing probabilities.
    routes: Vec<f64>,
    queues: Vec<VecDeque<Job>>,
    /// Busy seconds of each server.
    busy: Vec<f64>,
    events: BinaryHeap<Reverse<NetworkEvent>>,
    now: f64,
    answered: u64,
    responses: f64,
}

/// A job at a server: a getpage with the time of its arrival, or a putpage.
type Job = Option<f64>;

/// An event with its time, the earliest first.
#[derive(Clone, Copy, Debug, PartialEq)]
struct NetworkEvent {
    at: f64,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// A node has finished thinking.
    Getpage,
    /// A page is put at random.
    Putpage,
    /// A server has served the first in its queue.
    Served(usize),
}

impl<'a> NetworkRun<'a> {
    fn new(network: &'a Network, setting: &'a NetworkSetup) -> Self {
        let mut sum = 0.0;
        let routes = network.servers.iter().map(|server| {
            sum += server.probability;
            sum
        });
        let mut run = Self {
            network,
            setting,
            random: Random::new(setting.seed),
            routes: routes.collect(),
            queues: vec![VecDeque::new(); network.servers.len()],
            busy: vec![0.0; network.servers.len()],
            events: BinaryHeap::new(),
            now: 0.0,
            answered: 0,
            responses: 0.0,
        };
        for _ in 0..network.global_nodes {
            run.think();
        }
        run.schedule_putpage();
        run
    }

    /// Runs until `getpages` more getpages have been answered.
    fn advance(&mut self, getpages: u64) {
        let until = self.answered + getpages;
        while self.answered < until {
            let Some(Reverse(event)) = self.events.pop() else { return };
            debug_assert!(event.at >= self.now, "time goes on: {} after {}", event.at, self.now);
            self.now = event.at;
            match event.what {
                What::Getpage => {
                    self.arrive(Some(event.at));
                    self.putpages_of_getpage(Arrivals::WithGetpage);
                }
                What::Putpage => {
                    self.arrive(None);
                    self.schedule_putpage();
                }
                What::Served(server) => self.served(server),
            }
        }
    }

    /// Returns the mean response time, and the throughput, of `getpages` more getpages.
    fn batch(&mut self, getpages: u64) -> (f64, f64) {
        let (answered, responses, began) = (self.answered, self.responses, self.now);
        self.advance(getpages);
        let count = (self.answered - answered) as f64;
        ((self.responses - responses) / count, count / (self.now - began).max(f64::MIN_POSITIVE))
    }

    fn arrive(&mut self, job: Job) {
        let drawn = self.random.unit();
        let last = self.routes.len() - 1;
        debug_assert!((0.0..1.0).contains(&drawn) && self.routes.is_sorted(), "routes are sums");
        let server = self.routes.partition_point(|sum| *sum <= drawn).min(last);
        self.queues[server].push_back(job);
        if self.queues[server].len() == 1 {
            self.serve(server);
        }
    }

    fn serve(&mut self, server: usize) {
        let mean = self.network.servers[server].demand_seconds;
        let seconds = match self.setting.service {
            Service::Exponential => self.random.exponential(mean),
            Service::Constant => mean,
        };
        self.busy[server] += seconds;
        self.schedule(seconds, What::Served(server));
    }

    fn served(&mut self, server: usize) {
        let job = self.queues[server].pop_front();
        debug_assert!(job.is_some(), "server {server} served nobody");
        if !self.queues[server].is_empty() {
            self.serve(server);
        }
        if let Some(Some(arrived)) = job {
            self.answered += 1;
            self.responses += self.now - arrived;
            self.think();
            self.putpages_of_getpage(Arrivals::AfterGetpage);
        }
    }

    /// Sends the putpages of a getpage, when they are sent at this moment.
    fn putpages_of_getpage(&mut self, moment: Arrivals) {
        if let Putpages::PerGetpage(f) = self.network.putpages
            && self.setting.arrivals == moment
        {
            let whole = f.floor();
            let more = self.random.unit() < f - whole;
            for _ in 0..whole as u64 + u64::from(more) {
                self.arrive(None);
            }
        }
    }

    fn think(&mut self) {
        let seconds = self.random.exponential(self.network.think_seconds);
        self.schedule(seconds, What::Getpage);
    }

    fn schedule_putpage(&mut self) {
        if let Arrivals::Random(rate) = self.setting.arrivals
            && rate > 0.0
        {
            let seconds = self.random.exponential(1.0 / rate);
            self.schedule(seconds, What::Putpage);
        }
    }

    fn schedule(&mut self, seconds: f64, what: What) {
        debug_assert!(seconds >= 0.0 && seconds.is_finite(), "{what:?} in {seconds} s");
        self.events.push(Reverse(NetworkEvent { at: self.now + seconds, what }));
    }

    fn nothing(&self) -> NetworkResult {
        let none = Estimate { mean: 0.0, half_width: 0.0 };
        NetworkResult {
            response_seconds: none,
            getpages_per_second: none,
            utilizations: vec![0.0; self.network.servers.len()],
        }
    }
}

impl Eq for NetworkEvent {}

impl Ord for NetworkEvent {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.total_cmp(&other.at).then(self.what.cmp(&other.what))
    }
}

impl PartialOrd for NetworkEvent {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Estimate {
    /// Returns the mean of a few batches' means.
    pub fn of(batches: impl Iterator<Item = f64> + Clone) -> Self {
        let count = batches.clone().count().max(1) as f64;
        let mean = batches.clone().sum::<f64>() / count;
        let squares: f64 = batches.map(|batch| (batch - mean).powi(2)).sum();
        let variance = squares / (count - 1.0).max(1.0);
        Self { mean, half_width: STUDENT_95 * (variance / count).sqrt() }
    }

    /// Returns `true` if a value lies within `half_widths` half widths of the mean.
    pub fn covers(&self, value: f64, half_widths: f64) -> bool {
        (value - self.mean).abs() <= half_widths * self.half_width
    }
}

const BATCHES: u64 = 20;
/// Student's t for 19 degrees of freedom and 95%.
const STUDENT_95: f64 = 2.093;
