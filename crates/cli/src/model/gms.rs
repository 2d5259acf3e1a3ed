//! `shoal model gms`: the queueing model of global memory.

use crate::failure::Failure;
use crate::show::print;
use serde_json::{Value, json};
use shoal_lab::model::gms::simulation::{Arrivals, Estimate, NetworkResult, NetworkSetup, Service, simulate};
use shoal_lab::model::gms::{MemoryServer, Method, Network, Putpages, ServerDemand, ServerKind, Solution};
use std::fmt::Write;

/// Response times of pages from peers' memory, when many nodes share few memory servers
///
/// Global nodes run a job that needs more memory than they have. A global node computes for the
/// think time and asks a memory server for a page. A memory server is an idle node, or a local node
/// with jobs of its own, which yield. The global node waits for the page and sends an evicted page
/// in turn. The model is that of Voelker 2000, section 3.3.1: getpages are a closed class of
/// requests, putpages an open one at f times their rate. The input is a number of global nodes, or
/// a range. The output is the response time of a getpage, the throughput, and the utilization of
/// the busiest idle and local nodes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ModelGmsOptions {
    /// N_global: nodes that request pages, a number or a range FIRST-LAST or FIRST-LAST:STEP
    #[arg(long, value_name = "N", default_value = "1-36:5")]
    global_nodes: String,
    /// N_idle: idle nodes that serve pages
    #[arg(long, value_name = "N", default_value_t = 8)]
    idle: u32,
    /// N_local: local nodes that serve pages, while jobs of their own yield
    #[arg(long, value_name = "N", default_value_t = 0)]
    local: u32,
    /// P_local: share of the requests that goes to the local nodes, in equal parts
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    local_share: f64,
    /// P_idle,0: share of the requests that goes to the first idle node. The other idle nodes share
    /// the rest. Without it all idle nodes get equal shares
    #[arg(long, value_name = "SHARE", conflicts_with_all = ["local", "probabilities"])]
    skew: Option<f64>,
    /// P of every server, idle ones first; the sum must be 1
    #[arg(long, value_name = "P", num_args = 1.., value_delimiter = ',', conflicts_with = "local_share")]
    probabilities: Vec<f64>,
    /// Z and D of an application of Table 3.1: m3, ld, atom, render, gdb, oo7
    #[arg(long, value_name = "NAME", default_value = "oo7")]
    application: String,
    /// Z: time between a page and the next getpage of a global node, in milliseconds [default: the
    /// application's]
    #[arg(long, value_name = "MS")]
    think_ms: Option<f64>,
    /// D: work of a server for one getpage or putpage, in microseconds; one value for all servers,
    /// or one for each [default: 194]
    #[arg(long, value_name = "US", num_args = 1.., value_delimiter = ',')]
    demand_us: Vec<f64>,
    /// f: putpages for each getpage
    #[arg(long, value_name = "F", default_value_t = 1.0)]
    putpages: f64,
    /// Method of solution: schweitzer, linearizer or exact
    #[arg(long, value_name = "METHOD", default_value = "linearizer")]
    method: String,
    /// Also simulate this number of getpages of the same cluster, with constant service times and
    /// putpages that follow getpages
    #[arg(long, value_name = "GETPAGES")]
    simulate: Option<u64>,
    /// Seed of the simulation
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  shoal model gms --global-nodes 60 --idle 8            eight balanced servers for sixty nodes (Figure 3.4)
  shoal model gms --global-nodes 1-36 --idle 11 --skew 0.75   a newly idle node draws most requests (Figure 3.3)
  shoal model gms --idle 1 --local 1 --local-share 0.3  what a local node is worth, and bears (Figure 3.8)";

/// The model at one number of global nodes.
struct ModelGmsRow {
    network: Network,
    solution: Solution,
    measured: Option<NetworkResult>,
}

impl ModelGmsOptions {
    pub fn perform(self) -> Result<(), Failure> {
        let method = Method::ALL.into_iter().find(|method| method.name() == self.method);
        let method = method.ok_or_else(|| {
            Failure::Usage(format!("--method: {:?} is none of schweitzer, linearizer, exact", self.method))
        })?;
        let rows = self.counts()?.into_iter().map(|nodes| self.row(nodes, method));
        let rows: Vec<ModelGmsRow> = rows.collect::<Result<_, _>>()?;
        print(&if self.json { json_of(method, &rows) } else { table_of(&rows) })
    }

    fn row(&self, global_nodes: u32, method: Method) -> Result<ModelGmsRow, Failure> {
        let wrong = |error: shoal_lab::model::gms::NetworkError| Failure::Usage(error.to_string());
        let network = self.network(global_nodes)?;
        let solution = network.solve(method).map_err(wrong)?;
        let measured = self.simulate.map(|getpages| {
            let setting = NetworkSetup {
                arrivals: Arrivals::AfterGetpage,
                service: Service::Constant,
                getpages,
                seed: self.seed,
            };
            simulate(&network, &setting).map_err(wrong)
        });
        assert_eq!(solution.loads.len(), network.servers.len(), "each server has its load");
        Ok(ModelGmsRow { network, solution, measured: measured.transpose()? })
    }

    fn network(&self, global_nodes: u32) -> Result<Network, Failure> {
        let workload = ServerDemand::named(&self.application).ok_or_else(|| {
            let known: Vec<&str> = ServerDemand::TABLE_3_1.iter().map(|workload| workload.name).collect();
            Failure::Usage(format!("--application: {:?} is none of {}", self.application, known.join(", ")))
        })?;
        let servers = u64::from(self.idle) + u64::from(self.local);
        if servers > MOST_SERVERS {
            return Err(Failure::Usage(format!(
                "--idle and --local: at most {MOST_SERVERS} servers together"
            )));
        }
        let mut network = match self.skew {
            Some(share) => Network::skewed(workload, global_nodes, self.idle, share),
            None => Network::balanced(workload, global_nodes, self.idle, self.local, self.local_share),
        };
        for (what, given) in [("--probabilities", &self.probabilities), ("--demand-us", &self.demand_us)] {
            let one_for_all = what == "--demand-us" && given.len() == 1;
            if !given.is_empty() && !one_for_all && given.len() as u64 != servers {
                let count = given.len();
                return Err(Failure::Usage(format!("{what}: {count} values for {servers} servers")));
            }
        }
        self.adjust(&mut network);
        Ok(network)
    }

    fn adjust(&self, network: &mut Network) {
        let each = |server: &mut MemoryServer, index: usize| {
            if let Some(probability) = self.probabilities.get(index) {
                server.probability = *probability;
            }
            if let Some(demand) = self.demand_us.get(index).or(self.demand_us.first()) {
                server.demand_seconds = demand / 1e6;
            }
        };
        network.servers.iter_mut().enumerate().for_each(|(index, server)| each(server, index));
        network.putpages = Putpages::PerGetpage(self.putpages);
        if let Some(think) = self.think_ms {
            network.think_seconds = think / 1e3;
        }
    }

    /// Parses the numbers of global nodes.
    fn counts(&self) -> Result<Vec<u32>, Failure> {
        let text = &self.global_nodes;
        let counts = || {
            let (range, step) = text.split_once(':').unwrap_or((text, "1"));
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            let step: usize = step.trim().parse().ok().filter(|step| *step > 0)?;
            Some((first..=last).step_by(step).take(MOST_ROWS).collect::<Vec<u32>>())
        };
        counts().filter(|counts| !counts.is_empty()).ok_or_else(|| {
            Failure::Usage(format!("--global-nodes: {text:?} is no number and no range such as 1-36:5"))
        })
    }
}

impl ModelGmsRow {
    /// Returns the utilization of the busiest server of a kind.
    fn busiest(&self, kind: ServerKind) -> Option<f64> {
        let loads = self.network.servers.iter().zip(&self.solution.loads);
        loads.filter(|(server, _)| server.kind == kind).map(|(_, load)| load.utilization).reduce(f64::max)
    }

    fn json(&self) -> Value {
        let servers = self.network.servers.iter().zip(&self.solution.loads).map(|(server, load)| {
            json!({
                "kind": if server.kind == ServerKind::Idle { "idle" } else { "local" },
                "probability": server.probability,
                "demand_seconds": server.demand_seconds,
                "utilization": load.utilization,
                "getpages_queued": load.getpages,
                "response_seconds": load.response_seconds,
            })
        });
        let measured = self.measured.as_ref().map(|found| {
            json!({
                "response_seconds": found.response_seconds.mean,
                "response_seconds_half_width": found.response_seconds.half_width,
                "getpages_per_second": found.getpages_per_second.mean,
                "utilizations": found.utilizations,
            })
        });
        json!({
            "global_nodes": self.network.global_nodes,
            "think_seconds": self.network.think_seconds,
            "response_seconds": self.solution.response_seconds,
            "getpages_per_second": self.solution.getpages_per_second,
            "putpages_per_second": self.solution.putpages_per_second,
            "servers": servers.collect::<Vec<Value>>(),
            "simulated": measured,
        })
    }
}

fn table_of(rows: &[ModelGmsRow]) -> String {
    let simulated = rows.iter().any(|row| row.measured.is_some());
    let mut text = format!(
        "{:>12} {:>12} {:>12} {:>10} {:>10}",
        "global nodes", "getpage ms", "getpages/s", "idle busy", "local busy"
    );
    text += if simulated { "   simulated ms\n" } else { "\n" };
    let share = |share: Option<f64>| share.map_or("-".into(), |share| format!("{:.1}%", share * 100.0));
    for row in rows {
        let _ = write!(
            text,
            "{:>12} {:>12.3} {:>12.0} {:>10} {:>10}",
            row.network.global_nodes,
            row.solution.response_seconds * 1e3,
            row.solution.getpages_per_second,
            share(row.busiest(ServerKind::Idle)),
            share(row.busiest(ServerKind::Local)),
        );
        if let Some(found) = &row.measured {
            let Estimate { mean, half_width } = found.response_seconds;
            let _ = write!(text, "  {:>6.3} ± {:.3}", mean * 1e3, half_width * 1e3);
        }
        text.push('\n');
    }
    text
}

fn json_of(method: Method, rows: &[ModelGmsRow]) -> String {
    let rows: Vec<Value> = rows.iter().map(ModelGmsRow::json).collect();
    let mut text =
        serde_json::to_string_pretty(&json!({ "method": method.name(), "rows": rows })).unwrap_or_default();
    text.push('\n');
    text
}

/// Largest number of servers, more than any cluster has.
const MOST_SERVERS: u64 = 10_000;
/// Largest number of rows. A longer table would be unreadable.
const MOST_ROWS: usize = 1000;
