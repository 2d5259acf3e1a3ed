//! `shoal trace info`.

use super::source::TraceInputOptions;
use super::told::{account, lost, refused, row, wrong_times};
use crate::failure::Failure;
use crate::lab::telling;
use crate::replay::FilterRules;
use crate::show::{count, duration, print, quoted, size};
use shoal_core::ByteCount;
use shoal_lab::character::{Census, CensusTrace, Character, LoadOptions, json, load, report};
use std::path::PathBuf;

/// Describe a trace: popularity, sizes, reuse, hosts, hits of an infinite cache
#[derive(clap::Args)]
pub struct TraceInfoOptions {
    /// The trace
    trace: String,
    /// Requests that count: none, or rules separated by commas (http, get, found for 200 and 304,
    /// status200, cacheable, no-query, no-cgi)
    #[arg(long, value_name = "RULES", default_value = "none")]
    filter: FilterRules,
    /// Largest number of requests read
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Size of objects without a size in any line; the median of all sizes if not given
    #[arg(long, value_name = "SIZE")]
    size_unknown: Option<ByteCount>,
    /// Folder for a report with figures (index.html)
    #[arg(long, value_name = "FOLDER")]
    html: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reading: TraceInputOptions,
}

impl TraceInfoOptions {
    pub fn perform(self) -> Result<(), Failure> {
        let (reader, bar) = self.reading.open(&self.trace)?.into_parts();
        let options = LoadOptions {
            filter: self.filter.0,
            limit: self.limit.unwrap_or(usize::MAX),
            size_unknown: self.size_unknown.map(|bytes| bytes.0),
            ..LoadOptions::default()
        };
        let loaded = load(reader, &options);
        bar.finish_and_clear();
        let failed = |why: String| Failure::Runtime(format!("{}: {why}", self.trace));
        let loaded = loaded.map_err(|error| failed(error.to_string()))?;
        if loaded.trace.requests().is_empty() {
            return Err(failed(format!("no request is left: {}", lost(&loaded.reading, &loaded.unread))));
        }
        let mut progress = telling::on_terminal();
        let character = Character::of(&loaded.trace, loaded.known(), 1, &mut *progress);
        progress.finish();
        if self.json {
            print(&format!("{:#}\n", json(&character, &loaded)))?;
        } else {
            print(&text(&character, &loaded))?;
        }
        if let Some(folder) = &self.html {
            let name = self.trace.rsplit('/').next().unwrap_or(&self.trace);
            let page = report(&character, &loaded, name, &self.command(name));
            page.write(folder).map_err(|error| Failure::Runtime(error.to_string()))?;
        }
        Ok(())
    }
}

impl TraceInfoOptions {
    /// Returns the command for a repetition, with the options that affect the result.
    fn command(&self, name: &str) -> String {
        let mut command = format!("shoal trace info {}", quoted(name));
        let rules = self.filter.names();
        if rules != "none" {
            command += &format!(" --filter {rules}");
        }
        if let Some(limit) = self.limit {
            command += &format!(" --limit {limit}");
        }
        if let Some(bytes) = self.size_unknown {
            command += &format!(" --size-unknown {}", bytes.0);
        }
        command + &self.reading.render()
    }
}

fn text(character: &Character, loaded: &CensusTrace) -> String {
    let mut text = account(&loaded.reading);
    text += &wrong_times(loaded.wrong_times);
    text += &refused(&loaded.unread);
    text += &census(&loaded.census);
    if let Some(ratio) = loaded.account.hit_ratio() {
        row(&mut text, "hits, as logged", &share(ratio));
    }
    let Character { known, popularity, locality, .. } = character;
    let mut line = |name: &str, value: String| row(&mut text, name, &value);
    line("requests", format!("{}{}", count(character.requests), span(character)));
    line(
        "objects",
        format!("{}, asked for once: {}", count(character.objects), share(popularity.one_hit_objects)),
    );
    line("hosts, clients", format!("{}, {}", count(character.hosts), count(character.clients)));
    infinite(character, &mut line);
    let error = 2.0 * popularity.alpha_error;
    line("Zipf exponent", format!("{:.2} ± {error:.2}, R² {:.3}", popularity.alpha, popularity.fit));
    for (objects, requests) in &popularity.concentration {
        line(
            &format!("  top {}%", objects * 100.0),
            format!("of objects draw {} of requests", share(*requests)),
        );
    }
    let distances = character.reuse.distances();
    let told = |found: Vec<Option<u64>>, show: fn(u64) -> String| {
        let shown = |at: usize| found[at].map_or("-".into(), show);
        format!("median {}, 90% {}", shown(0), shown(1))
    };
    let how = if character.reuse.rate < 1.0 { " (sampled)" } else { "" };
    line("reuse distance, objects", told(distances.quantiles_by_objects(&[0.5, 0.9]), count) + how);
    if known.sizes {
        line("reuse distance, bytes", told(distances.quantiles(&[0.5, 0.9]), size) + how);
    }
    if character.hosts > 1 {
        let (next, client) = (share(locality.same_host), share(locality.same_host_per_client));
        line("same host next", format!("{next}; of one client {client}"));
        let between = format!("median {}, 90% {}", locality.collapsed_p50, locality.collapsed_p90);
        line("hosts in between", between);
    }
    text
}

/// Writes bytes, sizes and changes, if the trace has them.
fn infinite(character: &Character, line: &mut dyn FnMut(&str, String)) {
    let Character { known, infinite, sizes, change, .. } = character;
    if !known.sizes {
        line("sizes", "not told".into());
        line("an infinite cache hits", format!("{} of requests", share(infinite.hit_ratio)));
        return;
    }
    line(
        "bytes",
        format!("{} asked for, {} of all objects", size(character.bytes), size(character.unique_bytes)),
    );
    let pair =
        |requests: f64, bytes: f64| format!("{} of requests, {} of bytes", share(requests), share(bytes));
    line("an infinite cache hits", pair(infinite.hit_ratio, infinite.byte_hit_ratio));
    let version = pair(infinite.version_hit_ratio, infinite.version_byte_hit_ratio);
    line("  another size a miss", version);
    for (name, spread) in [("sizes of requests", &sizes.of_requests), ("sizes of objects", &sizes.of_objects)]
    {
        let [_, median, p90, p99, max] = spread.quantiles.map(size);
        line(
            name,
            format!(
                "mean {}, median {median}, 90% {p90}, 99% {p99}, largest {max}",
                size(spread.mean as u64)
            ),
        );
    }
    for (name, class) in [("top 0.3% of objects", &change.popular), ("other objects", &change.others)] {
        if known.times {
            let rate = class
                .per_day()
                .map_or(String::new(), |rate| format!(", {rate:.2} an object and day at most"));
            line(name, format!("{} of repeats have another size{rate}", share(class.of_repeats())));
        }
    }
}

fn share(share: f64) -> String {
    assert!((0.0..=1.0 + 1e-9).contains(&share), "{share} is no share");
    format!("{:.1}%", share * 100.0)
}

/// Returns statistics of all lines of the log, including requests that do not count.
fn census(census: &Census) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| row(&mut text, name, &value);
    let told = census.statuses.iter().sum::<u64>() - census.statuses[0];
    if told > 0 {
        let class = |digit: usize| format!("{digit}xx {}", count(census.statuses[digit]));
        let classes: Vec<String> = (1..6).filter(|digit| census.statuses[*digit] > 0).map(class).collect();
        line("statuses", format!("{}; 304 {}", classes.join(", "), count(census.not_modified)));
    }
    if census.gets + census.heads + census.other_methods > 0 {
        let methods = [census.gets, census.heads, census.other_methods].map(count);
        line("methods", format!("GET {}, HEAD {}, other {}", methods[0], methods[1], methods[2]));
    }
    if census.without_size > 0 {
        line("without a size", format!("{} (304, HEAD or none logged)", count(census.without_size)));
    }
    text
}

fn span(character: &Character) -> String {
    match character.seconds {
        seconds if seconds < 1.0 => String::new(),
        seconds => format!(" in {}, {:.2} a second", duration(seconds as u64), character.rate()),
    }
}
