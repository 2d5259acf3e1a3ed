//! Time of a page from a peer's memory when many nodes ask few servers: the queueing model of
//! global memory.
//!
//! Voelker, *Cooperative Caching in Local-Area and Wide-Area Networks*, dissertation, University of
//! Washington, 2000, section 3.3.1 and Figure 3.1. A closed class of customers stands for the
//! global nodes. Each computes for the think time Z, sends a getpage to an idle or a local node,
//! and waits for the page. An open class stands for putpages, which no node waits for. There are f
//! of them for each getpage, so their rate λ = f·X is known only when the model is solved.
//!
//! ```text
//!              ┌────────────── think Z (N_global) ◄─────────────┐
//!              ▼                                                │
//!    getpage ──┴──► P_1 ─► [ idle 1,  D ] ─┐                    │
//!  λ = f·X ───────► P_2 ─► [ idle 2,  D ] ─┼─► getpages back ───┘
//!    putpage        P_k ─► [ local k, D ] ─┘   putpages leave
//! ```
//!
//! With λ fixed, mean value analysis treats such a mixed network as a closed one. The open class
//! has used up part of each server (Lazowska, Zahorjan, Graham, Sevcik, *Quantitative System
//! Performance*, 1984, section 7.4.2). The demand d = P·D at a server becomes d / (1 − λ·d). A
//! getpage takes that times one plus the number of getpages that it finds there. The methods differ
//! in that number:
//!
//! | [`Method`] | queue that a getpage finds | cost of N nodes and K servers |
//! |---|---|---|
//! | [`Schweitzer`](Method::Schweitzer) | (N − 1)/N of that with N | O(K) a step, some ten steps |
//! | [`Linearizer`](Method::Linearizer) | with the share's change for N − 1 | seven times that |
//! | [`Exact`](Method::Exact) | that of N − 1 nodes, by recursion | O(N·K) a step, some ten steps |
//!
//! The model fits means in the long run, when putpages come independently of getpages and service
//! times vary. The servers of a real cluster take nearly the same time for each page, and a putpage
//! follows its getpage. [`simulation`] tells the effect of these differences.

mod exact;
mod linearizer;
mod root;
mod schweitzer;
pub mod simulation;

#[cfg(test)]
mod tests;

/// Network of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// N_global: nodes that ask for pages, each with one job.
    pub global_nodes: u32,
    /// Z: computing time of a job between a page and the next getpage, in seconds.
    pub think_seconds: f64,
    /// Frequency of putpages.
    pub putpages: Putpages,
    /// The memory servers. Their probabilities sum to one.
    pub servers: Vec<MemoryServer>,
}

/// A node that serves pages from its memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryServer {
    /// Kind of the server. Its own jobs yield to pages of others, so that the model treats both
    /// kinds alike.
    pub kind: ServerKind,
    /// D: time of the node for one getpage or putpage, in seconds.
    pub demand_seconds: f64,
    /// P: share of all getpages and putpages that go to the server.
    pub probability: f64,
}

/// Other work of a memory server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerKind {
    /// No other work.
    Idle,
    /// Local jobs.
    Local,
}

/// Frequency of putpages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Putpages {
    /// f: putpages for each getpage.
    PerGetpage(f64),
    /// λ: putpages a second, at any rate of getpages.
    Rate(f64),
}

/// Methods of solving the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Schweitzer's approximation (*Approximate analysis of multiclass closed networks of queues*,
    /// 1979).
    Schweitzer,
    /// Linearizer (Chandy and Neuse, *Linearizer: a heuristic algorithm for queueing network models
    /// of computing systems*, CACM 1982).
    Linearizer,
    /// Mean value analysis (Reiser and Lavenberg, *Mean-value analysis of closed multichain
    /// queueing networks*, JACM 1980).
    Exact,
}

/// The model solved.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// X: getpages a second of all global nodes.
    pub getpages_per_second: f64,
    /// λ: putpages a second.
    pub putpages_per_second: f64,
    /// R: mean time of a getpage, in seconds.
    pub response_seconds: f64,
    /// Each server's load, in the network's order.
    pub loads: Vec<ServerLoad>,
    /// Evaluations of a server's equation: the cost of solving.
    pub operations: u64,
}

/// Load of a server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerLoad {
    /// Share of the time in which the server works for global nodes.
    pub utilization: f64,
    /// Mean number of getpages that wait there or are served.
    pub getpages: f64,
    /// Time of a getpage there, in seconds.
    pub response_seconds: f64,
}

impl Network {
    /// Creates a network of `idle` idle nodes, then `local` local ones. Each kind shares its part
    /// of the requests equally: `local_share` goes to the local ones.
    pub fn balanced(
        workload: ServerDemand,
        global_nodes: u32,
        idle: u32,
        local: u32,
        local_share: f64,
    ) -> Self {
        assert!((0.0..=1.0).contains(&local_share), "{local_share} is no share");
        let server = |kind, share: f64, count: u32| MemoryServer {
            kind,
            demand_seconds: workload.demand_seconds,
            probability: share / f64::from(count),
        };
        let mut servers = vec![server(ServerKind::Idle, 1.0 - local_share, idle); idle as usize];
        servers.extend(vec![server(ServerKind::Local, local_share, local); local as usize]);
        Self::of(workload, global_nodes, servers)
    }

    /// Creates a network of `idle` idle nodes. The first gets this share of the requests, the
    /// others the rest in equal parts.
    pub fn skewed(workload: ServerDemand, global_nodes: u32, idle: u32, first_share: f64) -> Self {
        assert!((0.0..=1.0).contains(&first_share), "{first_share} is no share");
        let others = f64::from(idle.saturating_sub(1).max(1));
        let server = |index: u32| MemoryServer {
            kind: ServerKind::Idle,
            demand_seconds: workload.demand_seconds,
            probability: if index == 0 { first_share } else { (1.0 - first_share) / others },
        };
        Self::of(workload, global_nodes, (0..idle).map(server).collect())
    }

    fn of(workload: ServerDemand, global_nodes: u32, servers: Vec<MemoryServer>) -> Self {
        let ServerDemand { think_seconds, putpages_per_getpage, .. } = workload;
        Self { global_nodes, think_seconds, putpages: Putpages::PerGetpage(putpages_per_getpage), servers }
    }

    /// Solves the model. Without global nodes there are no getpages, and the response time is that
    /// of a single getpage.
    ///
    /// # Errors
    /// When a number has no meaning, or probabilities do not sum to one. Also when a fixed rate of
    /// putpages is more than a server can take, or exact analysis would take too long.
    pub fn solve(&self, method: Method) -> Result<Solution, NetworkError> {
        self.check()?;
        let demands: Vec<f64> = self.servers.iter().map(|s| s.probability * s.demand_seconds).collect();
        let flow = match self.global_nodes {
            0 => Flow { throughput: 0.0, responses: self.alone(&demands), operations: demands.len() as u64 },
            nodes => {
                let problem = Problem { nodes, think: self.think_seconds, demands: &demands };
                match method {
                    Method::Schweitzer => schweitzer::solve(&problem, self.putpages),
                    Method::Linearizer => linearizer::solve(&problem, self.putpages),
                    Method::Exact => exact::solve(&problem, self.putpages)?,
                }
            }
        };
        Ok(self.solution(&demands, flow))
    }

    /// Checks the inputs and returns the first error.
    ///
    /// # Errors
    /// As [`Network::solve`].
    pub fn check(&self) -> Result<(), NetworkError> {
        let (what, rate) = match self.putpages {
            Putpages::PerGetpage(f) => ("the putpages for each getpage", f),
            Putpages::Rate(rate) => ("the rate of putpages", rate),
        };
        let mut quantities = vec![("the think time", self.think_seconds), (what, rate)];
        for server in &self.servers {
            quantities.push(("a service demand", server.demand_seconds));
            quantities.push(("a routing probability", server.probability));
        }
        if let Some((what, found)) = quantities.into_iter().find(|(_, q)| !q.is_finite() || *q < 0.0) {
            return Err(NetworkError::NotAQuantity { what, found });
        }
        // The sum begins at 0, since the sum of nothing is -0.
        let sum = self.servers.iter().fold(0.0, |sum, server| sum + server.probability);
        if (sum - 1.0).abs() > SUM_TOLERANCE {
            return Err(NetworkError::ProbabilitySum { found: sum });
        }
        let demand = |server: &MemoryServer| server.probability * server.demand_seconds;
        if self.think_seconds + self.servers.iter().map(demand).sum::<f64>() < LEAST_CYCLE_SECONDS {
            return Err(NetworkError::NoTime);
        }
        if let Putpages::Rate(rate) = self.putpages {
            let full = self.servers.iter().position(|server| rate * demand(server) >= 1.0);
            if let Some(server) = full {
                let utilization = rate * demand(&self.servers[server]);
                return Err(NetworkError::Saturated { server, utilization });
            }
        }
        Ok(())
    }

    /// Returns the time of one getpage at each server, weighted by its probability, when there is
    /// no other.
    fn alone(&self, demands: &[f64]) -> Vec<f64> {
        let rate = if let Putpages::Rate(rate) = self.putpages { rate } else { 0.0 };
        demands.iter().map(|demand| demand / (1.0 - rate * demand)).collect()
    }

    /// Checks Little's law: the nodes that think and those that wait are all nodes.
    fn check_littles_law(&self, flow: &Flow) {
        let cycle_seconds = self.think_seconds + flow.responses.iter().sum::<f64>();
        let (nodes, found) = (f64::from(self.global_nodes), flow.throughput * cycle_seconds);
        debug_assert!((found - nodes).abs() <= 1e-3 * nodes, "{found} of {nodes} nodes");
    }

    fn solution(&self, demands: &[f64], flow: Flow) -> Solution {
        let throughput = flow.throughput;
        let putpages = self.putpages.rate(throughput);
        debug_assert_eq!((demands.len(), flow.responses.len()), (self.servers.len(), self.servers.len()));
        self.check_littles_law(&flow);
        let load = |(index, server): (usize, &MemoryServer)| ServerLoad {
            utilization: (throughput + putpages) * demands[index],
            getpages: throughput * flow.responses[index],
            response_seconds: match server.probability {
                0.0 => server.demand_seconds,
                probability => flow.responses[index] / probability,
            },
        };
        Solution {
            getpages_per_second: throughput,
            putpages_per_second: putpages,
            response_seconds: flow.responses.iter().sum(),
            loads: self.servers.iter().enumerate().map(load).collect(),
            operations: flow.operations,
        }
    }
}

impl Putpages {
    /// Returns putpages a second at this rate of getpages.
    pub fn rate(self, getpages_per_second: f64) -> f64 {
        match self {
            Self::PerGetpage(f) => f * getpages_per_second,
            Self::Rate(rate) => rate,
        }
    }
}

impl Method {
    /// All methods.
    pub const ALL: [Self; 3] = [Self::Schweitzer, Self::Linearizer, Self::Exact];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Schweitzer => "schweitzer",
            Self::Linearizer => "linearizer",
            Self::Exact => "exact",
        }
    }
}

/// Demands of an application and a machine on a server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerDemand {
    /// Name of the application.
    pub name: &'static str,
    /// Z, in seconds (Voelker 2000, Table 3.1).
    pub think_seconds: f64,
    /// D, in seconds: 194 µs for each (section 3.3.2, after Feeley et al. 1995).
    pub demand_seconds: f64,
    /// f: 1 (section 3.3.2).
    pub putpages_per_getpage: f64,
}

impl ServerDemand {
    /// The applications of Table 3.1.
    pub const TABLE_3_1: [Self; 6] = [
        Self::new("m3", 2.7e-3),
        Self::new("ld", 0.36e-3),
        Self::new("atom", 1.5e-3),
        Self::new("render", 4.1e-3),
        Self::new("gdb", 0.17e-3),
        Self::OO7,
    ];

    /// OO7, the workload of the figures.
    pub const OO7: Self = Self::new("oo7", 5.0e-3);

    const fn new(name: &'static str, think_seconds: f64) -> Self {
        Self { name, think_seconds, demand_seconds: 194e-6, putpages_per_getpage: 1.0 }
    }

    /// Returns the workload of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::TABLE_3_1.into_iter().find(|workload| workload.name == name)
    }
}

/// The fastest page fault from disk, in seconds: the upper limit for a useful getpage (section
/// 3.3.2, after Feeley et al. 1995).
pub const DISK_FAULT_SECONDS: f64 = 3.6e-3;

/// Reason why the model has no solution.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum NetworkError {
    /// A number is negative or not finite.
    NotAQuantity {
        /// Name of the quantity.
        what: &'static str,
        /// Value of the quantity.
        found: f64,
    },
    /// The routing probabilities do not sum to one.
    ProbabilitySum {
        /// Sum of the probabilities.
        found: f64,
    },
    /// Neither thinking nor serving takes time, so that throughput has no bound.
    NoTime,
    /// Putpages alone are as much as a server can take, or more.
    Saturated {
        /// Number of the server, from 0.
        server: usize,
        /// Share of its time that putpages would take.
        utilization: f64,
    },
    /// Exact analysis would take too long.
    TooLarge {
        /// Global nodes times servers.
        found: u64,
        /// Largest product allowed.
        most: u64,
    },
}

impl std::fmt::Display for NetworkError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotAQuantity { what, found } => {
                write!(f, "{what} is {found}, where a number from 0 up is needed")
            }
            Self::ProbabilitySum { found } => write!(f, "the routing probabilities sum to {found}, not to 1"),
            Self::NoTime => {
                f.write_str("neither thinking nor serving takes time, so that nothing bounds the throughput")
            }
            Self::Saturated { server, utilization } => {
                let percent = utilization * 100.0;
                write!(f, "putpages alone would use {percent:.0}% of server {}", server + 1)
            }
            Self::TooLarge { found, most } => {
                write!(
                    f,
                    "exact analysis of {found} global nodes times servers would take too long, at most {most} are possible"
                )
            }
        }
    }
}

impl std::error::Error for NetworkError {}

/// Numbers of the methods' input. There is at least one node.
struct Problem<'a> {
    nodes: u32,
    think: f64,
    /// P·D of each server, in seconds.
    demands: &'a [f64],
}

/// Result of a method.
struct Flow {
    throughput: f64,
    /// P·R of each server, in seconds.
    responses: Vec<f64>,
    operations: u64,
}

/// Tolerance of the probabilities' sum: the rounding of printed ones.
const SUM_TOLERANCE: f64 = 1e-6;
/// Shortest cycle of thinking and serving that counts as taking time.
const LEAST_CYCLE_SECONDS: f64 = 1e-12;
