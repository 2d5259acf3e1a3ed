//! `shoal plan`: plans a cache for a log, or shared memory for the logs of several nodes.

mod fleet;

use crate::failure::Failure;
use crate::lab::telling;
use crate::replay::FilterRules;
use crate::show::{count, print, quoted};
use crate::trace::source::TraceInputOptions;
use crate::trace::told::{account, lost, refused, wrong_times};
use shoal_core::ByteCount;
use shoal_lab::character::{CensusTrace, Character, LoadOptions, account_json, load, reading_json};
use shoal_lab::error::LabError;
use shoal_lab::plan::{Footprint, Plan, PlanOptions, brief, json, report, settings, text, today};
use shoal_trace::ReadReport;
use std::path::PathBuf;

/// Plan a cache for an access log: RAM, disk, hit ratios, wear, a settings file
///
/// The first part of the log warms the caches and is not counted. Hit ratios are simulated with the
/// policies that Shoal runs. The disk's work is counted with the store's own code on a modelled
/// machine. A log lacks some facts (freshness, cacheability, Vary, missing sizes): these are
/// assumed, stated, and bounded.
///
/// The log's words on its cache are read: Cache-Status, $upstream_cache_status, result codes and
/// lifetimes. Ten lines tell the hits of today, the possible hits, the losses, and the RAM and disk
/// to buy; --all has the details. Answers that no cache may store are not planned for.
///
/// With --ram-price and --egress-price the cheapest pair of RAM and disk is recommended. Without
/// prices the recommended disk gives 99% of the possible hits. The recommended RAM is the knee of
/// its curve if this leaves the drive idle, else the RAM for 95% of the throughput.
#[derive(clap::Args)]
pub struct PlanArguments {
    /// The log: a file, or - for standard input, in any format that `shoal trace` reads
    log: String,
    /// Price of a GB of RAM a month
    #[arg(long, value_name = "PRICE")]
    ram_price: Option<f64>,
    /// Price of a GB of disk a month; without it the disk counts as available at no price
    #[arg(long, value_name = "PRICE")]
    disk_price: Option<f64>,
    /// Price of a GB fetched from origins, in the same currency
    #[arg(long, value_name = "PRICE")]
    egress_price: Option<f64>,
    /// Available RAM; with --node the RAM of each node
    #[arg(long, value_name = "SIZE")]
    ram: Option<ByteCount>,
    /// Log of another node of the same cluster: tells the gain by shared memory alone; repeatable
    #[arg(long = "node", value_name = "LOG", requires = "ram")]
    nodes: Vec<String>,
    #[command(flatten)]
    fleet: fleet::FleetArguments,
    /// Available disk space
    #[arg(long, value_name = "SIZE")]
    disk: Option<ByteCount>,
    /// Size of the drive that holds the disk
    #[arg(long, value_name = "SIZE", default_value = "480 GB")]
    drive: ByteCount,
    /// Full writes of the drive a day, by the maker's rating
    #[arg(long, value_name = "TIMES", default_value_t = 1.0)]
    drive_writes: f64,
    /// Years of that rating
    #[arg(long, value_name = "YEARS", default_value_t = 5.0)]
    drive_years: f64,
    /// Largest rate of drive operations at the peak, a second
    #[arg(long, value_name = "NUMBER", default_value_t = 5000.0)]
    drive_operations: f64,
    /// Size of a response's head from origins, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 280)]
    head: u64,
    /// Cost of a RAM miss for the machine, as a multiple of a RAM hit's
    #[arg(long, value_name = "TIMES", default_value_t = 5.0)]
    miss_cost: f64,
    /// Part of the requests that only warms the caches
    #[arg(long, value_name = "SHARE", default_value_t = 0.3)]
    warm_up: f64,
    /// Requests that can hit: rules separated by commas (cacheable, get, found, status200,
    /// no-query, no-cgi, http)
    #[arg(long, value_name = "RULES", default_value = FILTER)]
    filter: FilterRules,
    /// Largest number of requests read
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Size of objects without a size in any line; the median of all sizes if not given
    #[arg(long, value_name = "SIZE")]
    size_unknown: Option<ByteCount>,
    /// Seed of samples
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// File for the settings
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// File for a page with figures, which needs no other file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Folder for the page (index.html) with its figures as CSV and SVG, and summary.json
    #[arg(long, value_name = "FOLDER")]
    report: Option<PathBuf>,
    /// Print all details: sizes, prices, disk, cooperation, assumptions, settings
    #[arg(long)]
    all: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "all")]
    json: bool,
    #[command(flatten)]
    reading: TraceInputOptions,
}

impl PlanArguments {
    pub fn perform(self) -> Result<(), Failure> {
        let wishes = self.wishes()?;
        if !self.nodes.is_empty() {
            return self.plan_fleet(&wishes);
        }
        let (reader, bar) = self.reading.open(&self.log)?.into_parts();
        let options = LoadOptions {
            filter: self.filter.0,
            limit: self.limit.unwrap_or(usize::MAX),
            size_unknown: self.size_unknown.map(|bytes| bytes.0),
            versions: true,
        };
        let loaded = load(reader, &options);
        bar.finish_and_clear();
        let failed = |error: &dyn std::fmt::Display| Failure::Runtime(format!("{}: {error}", self.log));
        let loaded = loaded.map_err(|error| failed(&error))?;
        if !loaded.known().sizes && !loaded.trace.requests().is_empty() {
            return Err(failed(
                &"no request has a size, and without sizes there is nothing to plan; --size-unknown gives one",
            ));
        }
        let mut progress = telling::on_terminal();
        let character = Character::of(&loaded.trace, loaded.known(), self.seed, &mut *progress);
        let plan = Plan::of(&loaded, &character, wishes, &mut *progress);
        progress.finish();
        let plan = match plan {
            Err(error @ LabError::TooFewRequests { .. }) => {
                // The log may still tell why so little of it can be stored.
                if loaded.account.tells_hits() {
                    print(&self.render_account(&loaded))?;
                }
                return Err(failed(&format!("{error}: {}", lost(&loaded.reading, &loaded.unread))));
            }
            plan => plan.map_err(|error| failed(&error))?,
        };
        // The results are printed even if the files cannot be written.
        print(&self.render(&plan, &loaded))?;
        self.write(&plan, &character, &loaded)
    }

    fn wishes(&self) -> Result<PlanOptions, Failure> {
        let prices = [self.ram_price, self.disk_price, self.egress_price].into_iter().flatten();
        let numbers = prices.chain([self.drive_writes, self.drive_years, self.drive_operations]);
        if let Some(bad) = numbers.into_iter().find(|number| !(number.is_finite() && *number >= 0.0)) {
            return Err(Failure::Usage(format!(
                "prices, writes, years and operations are numbers from 0 on, not {bad}"
            )));
        }
        if !(0.0..=0.9).contains(&self.warm_up) {
            return Err(Failure::Usage("--warm-up: a share from 0 to 0.9 is needed, such as 0.3".into()));
        }
        if !(1.0..=1e6).contains(&self.miss_cost) {
            return Err(Failure::Usage(
                "--miss-cost: a miss costs as much as a hit at least, such as 5".into(),
            ));
        }
        if self.ram.is_some_and(|ram| ram.0 < LEAST_RAM) {
            return Err(Failure::Usage("--ram: a cache has 4 MiB of RAM at least".into()));
        }
        if self.disk.is_some_and(|disk| disk.0 < LEAST_DISK) {
            return Err(Failure::Usage("--disk: a store has 4 MB of disk at least".into()));
        }
        if self.head > HEAD_MAX {
            return Err(Failure::Usage("--head: no origin sends heads of more than 64 KiB".into()));
        }
        if self.ram_price.is_some() != self.egress_price.is_some() {
            return Err(Failure::Usage(
                "--ram-price and --egress-price go together: one weighs the other".into(),
            ));
        }
        Ok(PlanOptions {
            ram_price: self.ram_price,
            disk_price: self.disk_price,
            egress_price: self.egress_price,
            ram_bytes: self.ram.map(|bytes| bytes.0),
            disk_bytes: self.disk.map(|bytes| bytes.0),
            drive_bytes: self.drive.0,
            drive_writes_per_day: self.drive_writes,
            drive_years: self.drive_years,
            drive_operations: self.drive_operations,
            footprint: Footprint { head_bytes: self.head, ..Footprint::default() },
            miss_cost: self.miss_cost,
            warm_up: self.warm_up,
            seed: self.seed,
        })
    }

    /// Returns the log's name without its folders, which are private.
    fn name(&self) -> &str {
        match self.log.as_str() {
            "-" => "standard input",
            log => log.rsplit('/').next().unwrap_or(log),
        }
    }

    /// Returns the command for a repetition, with the options that affect the plan.
    fn command(&self) -> String {
        let log = if self.log == "-" { "-".into() } else { quoted(self.name()) };
        let mut command = format!("shoal plan {log}");
        let numbers = [
            ("ram-price", self.ram_price),
            ("disk-price", self.disk_price),
            ("egress-price", self.egress_price),
            ("drive-writes", differing(self.drive_writes, 1.0)),
            ("drive-years", differing(self.drive_years, 5.0)),
            ("drive-operations", differing(self.drive_operations, 5000.0)),
            ("miss-cost", differing(self.miss_cost, 5.0)),
            ("warm-up", differing(self.warm_up, 0.3)),
            ("limit", self.limit.map(|limit| limit as f64)),
            ("seed", differing(self.seed as f64, 1.0)),
            ("head", differing(self.head as f64, 280.0)),
        ];
        for (name, number) in numbers {
            if let Some(number) = number {
                command += &format!(" --{name} {number}");
            }
        }
        if let Some(bytes) = self.size_unknown {
            command += &format!(" --size-unknown {}", bytes.0);
        }
        let drive = Some(self.drive).filter(|drive| drive.0 != PlanOptions::default().drive_bytes);
        for (name, bytes) in [("ram", self.ram), ("disk", self.disk), ("drive", drive)] {
            if let Some(bytes) = bytes {
                command += &format!(" --{name} {}", bytes.0);
            }
        }
        let rules = self.filter.names();
        if rules != FILTER {
            command += &format!(" --filter {rules}");
        }
        command += &self.reading.render();
        command
    }

    fn write(&self, plan: &Plan, character: &Character, loaded: &CensusTrace) -> Result<(), Failure> {
        if let Some(path) = &self.settings {
            std::fs::write(path, settings(plan, self.name()))
                .map_err(|error| Failure::Runtime(format!("{}: {error}", path.display())))?;
        }
        if self.html.is_none() && self.report.is_none() {
            return Ok(());
        }
        let mut page = report(plan, character, (self.name(), &self.command(), &unread(&loaded.reading)));
        let notes = loaded.unread.notes(&loaded.reading);
        if !notes.is_empty() {
            page.facts.push(("not taken of the log".into(), notes.join("; ")));
        }
        if let Some(file) = &self.html {
            std::fs::write(file, page.html_alone())
                .map_err(|error| Failure::Runtime(format!("{}: {error}", file.display())))?;
        }
        if let Some(folder) = &self.report {
            page.write(folder).map_err(|error| Failure::Runtime(error.to_string()))?;
        }
        Ok(())
    }

    /// Returns the account of the log's cache, for a log that allows no plan.
    fn render_account(&self, loaded: &CensusTrace) -> String {
        if self.json {
            let told = serde_json::json!({
                "log": self.name(),
                "cache_that_logged": account_json(&loaded.account),
                "reading": reading_json(loaded),
            });
            return format!("{told:#}\n");
        }
        today(&loaded.account, None)
    }

    fn render(&self, plan: &Plan, loaded: &CensusTrace) -> String {
        if self.json {
            let mut told = json(plan, self.name());
            told["reading"] = reading_json(loaded);
            return format!("{told:#}\n");
        }
        if !self.all {
            return brief(plan, self.name(), &unread(&loaded.reading));
        }
        let read = account(&loaded.reading) + &wrong_times(loaded.wrong_times) + &refused(&loaded.unread);
        let first = today(&loaded.account, Some(&plan.demand));
        format!("{first}\n{read}\n{}", text(plan, self.name()))
    }
}

/// Returns words on the lines that are bad; empty if none is.
fn unread(reading: &ReadReport) -> String {
    match reading.bad {
        0 => String::new(),
        bad => format!("{} of {} lines are bad", count(bad), count(reading.lines)),
    }
}

/// Returns a number that differs from the default, else `None`.
fn differing(number: f64, default: f64) -> Option<f64> {
    (number != default).then_some(number)
}

/// Default filter of requests.
const FILTER: &str = "cacheable";
/// Smallest value of `cache.ram`.
const LEAST_RAM: u64 = 4 << 20;
/// Space for a volume's stripes and its index.
const LEAST_DISK: u64 = 4_000_000;
const HEAD_MAX: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_lab::plan::NEIGHBOURHOOD_PERCENT;
    use shoal_settings::Settings;

    #[test]
    fn plan_uses_default_settings() {
        let (settings, footprint) = (Settings::default(), Footprint::default());
        assert_eq!(footprint.ram_object_max, settings.cache.ram_object_max.0);
        assert_eq!(footprint.object_max, settings.store.object_max.0);
        assert_eq!(NEIGHBOURHOOD_PERCENT, settings.store.neighbourhood_percent);
        assert_eq!(settings.cache.ram_policy, "s3_fifo");
    }
}
