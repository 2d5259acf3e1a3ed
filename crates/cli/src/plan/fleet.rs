//! `shoal plan LOG --node LOG --ram SIZE`: the gain of nodes with these logs by shared memory.
//!
//! With measured times it also tells the time of a page from another node, simulated and by the
//! queueing model.

use super::PlanArguments;
use crate::failure::Failure;
use crate::show::{print, quoted};
use crate::trace::source::unreadable;
use shoal_core::Key;
use shoal_lab::plan::{NEIGHBOURHOOD_PERCENT, PlanOptions};
use shoal_lab::shared_memory::{
    FleetBalance, FleetForm, FleetOutcome, FleetRequest, FleetSettings, FleetSource, FleetTimes, PageTraffic,
    fleet_text, ideal_disk_reads, run_fleet,
};
use std::collections::HashMap;
use std::time::Duration;

/// Options of a plan for shared memory.
#[derive(clap::Args)]
pub(super) struct FleetArguments {
    /// With --node: load balancing rate b of shared memory, from 0 to 1, or tuned as in a node
    #[arg(long, value_name = "B|tuned", requires = "nodes")]
    balance: Option<String>,
    /// With --node: time of a page from another node that has nothing else to do, in microseconds
    #[arg(long, value_name = "US", requires_all = ["nodes", "service_us", "disk_us"])]
    page_us: Option<f64>,
    /// With --page-us: time for which a page keeps its server, in microseconds
    #[arg(long, value_name = "US", requires = "page_us")]
    service_us: Option<f64>,
    /// With --page-us: time of an object from disk, in microseconds
    #[arg(long, value_name = "US", requires = "page_us")]
    disk_us: Option<f64>,
    /// With --page-us: requests that clients send at the same time
    #[arg(long, value_name = "N", requires = "page_us", default_value_t = 1)]
    clients: u32,
}

impl FleetArguments {
    fn balance(&self) -> Result<FleetBalance, Failure> {
        let rate = |text: &str| text.parse().ok().filter(|rate| (0.0..=1.0).contains(rate));
        match self.balance.as_deref() {
            None => Ok(FleetBalance::Fixed(BALANCE)),
            Some("tuned") if self.page_us.is_some() => Ok(FleetBalance::Tuned),
            Some("tuned") => Err(Failure::Usage("--balance: tuned needs times, and so --page-us".into())),
            Some(text) => rate(text).map(FleetBalance::Fixed).ok_or_else(|| {
                Failure::Usage(format!("--balance: a number from 0 to 1, or tuned, not {}", quoted(text)))
            }),
        }
    }

    fn times(&self) -> Result<Option<FleetTimes>, Failure> {
        let (Some(page), Some(service), Some(disk)) = (self.page_us, self.service_us, self.disk_us) else {
            return Ok(None);
        };
        let is_time = |us: f64| us.is_finite() && us > 0.0 && us <= LONGEST_US;
        if ![page, service, disk].into_iter().all(is_time) || service > page {
            return Err(Failure::Usage(
                "--page-us, --service-us and --disk-us are above 0, and a page takes its server's time at least".into(),
            ));
        }
        if !(1..=CLIENTS_MAX).contains(&self.clients) {
            return Err(Failure::Usage(format!("--clients: from 1 to {CLIENTS_MAX}")));
        }
        Ok(Some(FleetTimes {
            page_seconds: page / 1e6,
            service_seconds: service / 1e6,
            disk_seconds: disk / 1e6,
        }))
    }
}

impl PlanArguments {
    /// Reads the logs, and prints the comparison.
    pub(super) fn plan_fleet(&self, wishes: &PlanOptions) -> Result<(), Failure> {
        let logs: Vec<&String> = std::iter::once(&self.log).chain(&self.nodes).collect();
        if logs.len() > NODES_MAX {
            return Err(Failure::Usage(format!("--node: {NODES_MAX} nodes at most")));
        }
        if self.html.is_some() || self.report.is_some() || self.settings.is_some() {
            return Err(Failure::Usage("--node tells of shared memory alone, and writes no file".into()));
        }
        let (balance, times) = (self.fleet.balance()?, self.fleet.times()?);
        let mut requests = Vec::new();
        for (node, log) in logs.iter().enumerate() {
            self.read_node((node, log), &mut requests)?;
        }
        // Requests of equal times keep the order of the logs.
        requests.sort_by_key(|request| request.time);
        spread(&mut requests);
        let Some(first) = requests.first().map(|request| request.time) else {
            return Err(Failure::Runtime("the logs have no request that counts".into()));
        };
        let mut largest: HashMap<Key, u64> = HashMap::new();
        for request in &requests {
            let known = largest.entry(request.object).or_default();
            *known = request.bytes.max(*known);
        }
        for request in &mut requests {
            request.time -= first;
            // A 304 or a broken transfer tells less than the object's size.
            request.bytes = largest.get(&request.object).copied().unwrap_or(request.bytes);
        }
        let settings = FleetSettings {
            nodes: logs.len(),
            // The rest is for neighbours of objects that are read from disk.
            ram_bytes: wishes.ram_bytes.unwrap_or_default() / 100 * (100 - NEIGHBOURHOOD_PERCENT),
            beside_body: wishes.footprint.ram_overhead(),
            ram_object_max: wishes.footprint.ram_object_max,
            warm_up: (requests.len() as f64 * wishes.warm_up) as usize,
            balance,
            times,
            seed: wishes.seed,
        };
        let [apart, shared, one] = [FleetForm::Apart, FleetForm::Shared, FleetForm::One]
            .map(|form| run_fleet(&requests, &settings, form));
        let ideal = ideal_disk_reads(&requests, &settings);
        let getpage = match (&shared.traffic, &settings.times) {
            (Some(traffic), Some(times)) => Some(GetpageTimes::of(traffic, times, self.fleet.clients)?),
            _ => None,
        };
        match self.json {
            true => print(&json(&settings, [&apart, &shared, &one], (ideal, getpage))),
            false => {
                let times = getpage.map_or_else(String::new, |times| times.text());
                print(&(fleet_text(&settings, [&apart, &shared, &one]) + &times))
            }
        }
    }

    /// Adds the requests of a node's log.
    fn read_node(&self, (node, log): (usize, &str), requests: &mut Vec<FleetRequest>) -> Result<(), Failure> {
        let source = self.reading.open(log)?;
        let failed = |why: &str| Failure::Runtime(format!("{log}: {why}"));
        let (mut reader, bar) = source.into_parts();
        let mut left = self.limit.unwrap_or(usize::MAX);
        while left > 0 {
            let read = reader.next(|record| {
                let is_counted = self.filter.0.refuses(record).is_none();
                is_counted
                    .then(|| (record.time_ms, Key::unkeyed(record.url.as_bytes()), record.bytes.unwrap_or(0)))
            });
            let Some(read) = read.map_err(|error| failed(&unreadable(&error)))? else { break };
            let Some((time, object, bytes)) = read else { continue };
            let time = time.ok_or_else(|| failed("a request has no time, so that logs cannot be merged"))?;
            requests.push(FleetRequest { time: Duration::from_millis(time), node, object, bytes });
            left -= 1;
        }
        bar.finish_and_clear();
        Ok(())
    }
}

/// Spreads requests that have the same millisecond in their logs over it, in their order.
fn spread(requests: &mut [FleetRequest]) {
    for together in requests.chunk_by_mut(|one, other| one.time == other.time) {
        let count = together.len() as u32;
        for (number, request) in together.iter_mut().enumerate() {
            request.time += Duration::from_millis(1) * number as u32 / count;
        }
    }
}

/// Mean times of a page from another node, in microseconds.
struct GetpageTimes {
    simulated_us: Option<f64>,
    modelled_us: Option<f64>,
    getpages: Vec<u64>,
    putpages: Vec<u64>,
}

impl GetpageTimes {
    fn of(traffic: &PageTraffic, times: &FleetTimes, clients: u32) -> Result<Self, Failure> {
        let modelled = traffic.modelled_seconds(times, clients);
        let modelled = modelled.map_err(|error| Failure::Runtime(format!("the model: {error}")))?;
        Ok(Self {
            simulated_us: traffic.simulated_seconds().map(|seconds| seconds * 1e6),
            modelled_us: modelled.map(|seconds| seconds * 1e6),
            getpages: traffic.getpages.clone(),
            putpages: traffic.putpages.clone(),
        })
    }

    fn text(&self) -> String {
        match self.simulated_us.zip(self.modelled_us) {
            Some((simulated, modelled)) => format!(
                "A page takes {simulated:.0} us as simulated, and {modelled:.0} us by the queueing model.\n"
            ),
            None => "No page came back.\n".into(),
        }
    }
}

fn json(
    settings: &FleetSettings,
    outcomes: [&FleetOutcome; 3],
    (ideal, getpage): (u64, Option<GetpageTimes>),
) -> String {
    let outcome = |of: &FleetOutcome| {
        serde_json::json!({
            "requests": of.requests,
            "ram_hit_ratio": of.ram_hit_ratio(),
            "disk_reads": of.disk_reads(),
            "pages": of.of(FleetSource::Page),
            "pages_put": of.pages_put,
            "origin_first": of.of(FleetSource::OriginFirst),
            "origin_again": of.of(FleetSource::OriginAgain),
        })
    };
    let balance = outcomes[1].balance;
    let [apart, shared, one] = outcomes.map(outcome);
    let getpage = getpage.map(|times| {
        serde_json::json!({
            "simulated_us": times.simulated_us,
            "modelled_us": times.modelled_us,
            "getpages": times.getpages,
            "putpages": times.putpages,
        })
    });
    let told = serde_json::json!({
        "nodes": settings.nodes,
        "ram_bytes": settings.ram_bytes,
        "apart": apart,
        "shared": shared,
        "one_node": one,
        "ideal_disk_reads": ideal,
        "balance": balance,
        "getpage": getpage,
    });
    format!("{told:#}\n")
}

/// Most logs.
const NODES_MAX: usize = 256;

/// Load balancing rate at which a node starts.
const BALANCE: f64 = 0.5;

/// Longest time that is believed: a minute.
const LONGEST_US: f64 = 60e6;

/// Most clients at the same time.
const CLIENTS_MAX: u32 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_a_millisecond_are_spread() {
        let request = |(number, millis): (usize, u64)| FleetRequest {
            time: Duration::from_millis(millis),
            node: number,
            object: Key::unkeyed(b"a"),
            bytes: 1,
        };
        let mut requests: Vec<_> = [5, 5, 5, 5, 6, 9, 9].into_iter().enumerate().map(request).collect();
        spread(&mut requests);
        let told: Vec<u64> = requests.iter().map(|request| request.time.as_micros() as u64).collect();
        assert_eq!(told, [5000, 5250, 5500, 5750, 6000, 9000, 9500]);
        assert!(requests.iter().enumerate().all(|(number, request)| request.node == number));
    }
}
