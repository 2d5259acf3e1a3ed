//! `shoal plan LOG --node LOG --ram SIZE`: the gain of nodes with these logs by shared memory.

use super::PlanArguments;
use crate::failure::Failure;
use crate::show::print;
use crate::trace::source::unreadable;
use shoal_core::Key;
use shoal_lab::plan::{NEIGHBOURHOOD_PERCENT, PlanOptions};
use shoal_lab::shared_memory::{
    FleetForm, FleetOutcome, FleetRequest, FleetSettings, FleetSource, fleet_text, run_fleet,
};
use std::collections::HashMap;
use std::time::Duration;

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
        let mut requests = Vec::new();
        for (node, log) in logs.iter().enumerate() {
            self.read_node((node, log), &mut requests)?;
        }
        // Requests of equal times keep the order of the logs.
        requests.sort_by_key(|request| request.time);
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
            balance: BALANCE,
            seed: wishes.seed,
        };
        let [apart, shared, one] = [FleetForm::Apart, FleetForm::Shared, FleetForm::One]
            .map(|form| run_fleet(&requests, &settings, form));
        match self.json {
            true => print(&json(&settings, [&apart, &shared, &one])),
            false => print(&fleet_text(&settings, [&apart, &shared, &one])),
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

fn json(settings: &FleetSettings, outcomes: [&FleetOutcome; 3]) -> String {
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
    let [apart, shared, one] = outcomes.map(outcome);
    let told = serde_json::json!({
        "nodes": settings.nodes,
        "ram_bytes": settings.ram_bytes,
        "apart": apart,
        "shared": shared,
        "one_node": one,
    });
    format!("{told:#}\n")
}

/// Most logs.
const NODES_MAX: usize = 256;

/// Load balancing rate at which a node starts.
const BALANCE: f64 = 0.5;
