//! Output of a replay: two columns for people, JSON for programs.

use super::device::{Activity, Device};
use super::options::ReplayOptions;
use super::source::ReplaySource;
use super::usage::Usage;
use crate::failure::Failure;
use crate::show::{count, counted, size};
use crate::trace::told::left_out;
use serde_json::{Value, json};
use shoal_lab::replay::{CallKind, End, Latencies, ReplayCounts, ReplayPlan, ReplayResult, SizeMeaning};
use shoal_store::Store;
use shoal_trace::{Problem, ReadReport};

/// Readings of the meters over one part.
pub struct PartReadings {
    /// Wall time of the requests, in seconds.
    pub seconds: f64,
    /// Wall time of the sync after the requests, in seconds.
    pub sync_seconds: f64,
    /// Resources that the process used, without the sync.
    pub usage: Usage,
    /// Calls of the store's door.
    pub calls: Latencies,
    /// Activity of the device, with the sync.
    pub activity: Option<Activity>,
    /// Number of objects that the store evicted.
    pub evictions: u64,
}

/// Facts of a report.
pub struct ReportInput<'a> {
    pub options: &'a ReplayOptions,
    pub source: &'a ReplaySource,
    pub device: &'a Result<Device, String>,
    pub store: &'a dyn Store,
    /// Usage of the store at the beginning.
    pub held: &'a shoal_store::Usage,
    pub plan: &'a ReplayPlan,
    pub outcome: &'a ReplayResult,
    /// Readings of each part that was begun.
    pub sides: Vec<PartReadings>,
}

/// Report of a replay.
pub struct Report<'a> {
    facts: ReportInput<'a>,
    usage: shoal_store::Usage,
}

/// Row of the table: its name, and the function that makes its cell.
type Row = (&'static str, fn(&ReplayCounts, &PartReadings) -> String);

impl<'a> Report<'a> {
    /// Makes a report of these facts.
    pub fn new(facts: ReportInput<'a>) -> Self {
        let usage = facts.store.usage();
        for counts in [&facts.outcome.warm_up, &facts.outcome.measured] {
            assert!(counts.hits <= counts.requests, "{} hits of {}", counts.hits, counts.requests);
            assert!(counts.hit_bytes <= counts.bytes, "bytes of hits are among all");
        }
        Self { facts, usage }
    }

    /// Returns the report for people.
    pub fn text(&self) -> String {
        let mut text = self.head();
        let columns: Vec<_> = self.parts().collect();
        let mut line = |name: &str, cells: Vec<String>| {
            text += &format!("{name:<24}");
            text += &cells.iter().map(|cell| format!("{cell:>16}")).collect::<String>();
            text.push('\n');
        };
        line("", columns.iter().map(|(name, ..)| (*name).replace('_', " ")).collect());
        for (name, cell) in ROWS {
            let cells: Vec<_> = columns.iter().map(|(_, counts, side)| cell(counts, side)).collect();
            if !(cells.iter().all(|cell| cell == "0") && RARE.contains(name)) {
                line(name, cells);
            }
        }
        if let Some((_, counts, side)) = columns.last() {
            text += &calls(counts, side);
        }
        text
    }

    /// Returns the report for programs.
    ///
    /// # Errors
    /// No failure is known: every value has a form in JSON.
    pub fn json(&self) -> Result<String, Failure> {
        let ReportInput { options, source, device, plan, outcome, .. } = &self.facts;
        let parts: serde_json::Map<String, Value> =
            self.parts().map(|(name, counts, side)| (name.to_owned(), part_as_json(counts, side))).collect();
        let (end, error) = match &outcome.end {
            End::Done => ("done", None),
            End::Stopped => ("stopped", None),
            End::Failed(why) => ("failed", Some(format!("{}: {why}", options.dir.display()))),
        };
        let value = json!({
            "architecture": self.facts.store.name(),
            "policy": options.policy,
            "segment_policy": options.segment_policy.name(),
            "segment_access": options.segment_access.name(),
            "directory": options.dir,
            "device": device.as_ref().ok(),
            "no_device": device.as_ref().err(),
            "trace": {
                "name": options.trace,
                "requests": source.trace.requests().len(),
                "objects": source.trace.objects().len(),
                "hosts": source.trace.hosts().len(),
                "assumed": source.assumed,
                "reading": source.reading.as_ref().map(reading_as_json),
                "left_out": left_out(&source.unread),
            },
            "plan": {
                "warm_up_requests": plan.warm_up,
                "in_flight": plan.in_flight,
                "sizes": if plan.sizes == SizeMeaning::Stored { "stored" } else { "body" },
                "size_change": plan.size_change.name(),
                "drop_caches": options.drop_caches,
            },
            "parts": parts,
            "store": {
                "objects": self.usage.objects,
                "objects_at_start": self.facts.held.objects,
                "objects_max": self.usage.objects_max,
                "bytes": self.usage.bytes,
                "bytes_max": self.usage.bytes_max,
            },
            "end": end,
            "error": error,
        });
        let text =
            serde_json::to_string_pretty(&value).map_err(|error| Failure::Runtime(error.to_string()))?;
        Ok(text + "\n")
    }

    /// Returns the parts that were begun.
    fn parts(&self) -> impl Iterator<Item = (&'static str, &ReplayCounts, &PartReadings)> {
        let ReplayResult { warm_up, measured, .. } = self.facts.outcome;
        let named = [("warm_up", warm_up), ("measured", measured)].into_iter();
        named.zip(&self.facts.sides).map(|((name, counts), side)| (name, counts, side))
    }

    fn head(&self) -> String {
        let ReportInput { options, source, device, held, plan, .. } = &self.facts;
        let trace = &source.trace;
        let mut text = format!(
            "trace      {}: {}, {}, {}\n",
            options.trace,
            counted(trace.requests().len() as u64, "request"),
            counted(trace.objects().len() as u64, "object"),
            counted(trace.hosts().len() as u64, "host"),
        );
        if let Some(reading) = &source.reading {
            text += &format!("           {}; {}\n", reading.compression, source.assumed.join("; "));
        } else {
            text += &format!("           {}\n", source.assumed.join("; "));
        }
        if let Some(told) = left_out(&source.unread) {
            text += &format!("left out   {told}\n");
        }
        if let Some(reading) = source.reading.as_ref().filter(|reading| reading.bad > 0) {
            text += &format!("bad lines  {} of {}\n", count(reading.bad), count(reading.lines));
            text +=
                &reading.problems.iter().map(|problem| format!("           {problem}\n")).collect::<String>();
        }
        let store = format!("{}, replacement {}", self.facts.store.name(), options.policy);
        text += &format!(
            "store      {store}, {} of {} used, {} ({} at the beginning)\n",
            size(self.usage.bytes),
            size(self.usage.bytes_max),
            counted(self.usage.objects, "object"),
            count(held.objects),
        );
        text += &match device {
            Ok(device) => format!("device     {}\n", device.described()),
            Err(why) => format!("device     none: {why}\n"),
        };
        if plan.in_flight > 1 {
            text += &format!("in flight  {}\n", plan.in_flight);
        }
        text.push('\n');
        text
    }
}

/// Formats the latencies of the door's calls, and the remaining CPU time above the calls.
fn calls(counts: &ReplayCounts, side: &PartReadings) -> String {
    let mut text =
        String::from("\ncalls (µs)       number     mean      p50      p90      p99    p99.9      max\n");
    for call in CallKind::ALL {
        let latency = side.calls.of(call);
        if latency.calls == 0 {
            continue;
        }
        debug_assert!(latency.p50_ns <= latency.p99_ns, "quantiles rise");
        debug_assert!(latency.p99_ns <= latency.max_ns, "the longest call is the longest");
        let micros = |nanos: u64| format!("{:>9.1}", nanos as f64 / 1000.0);
        text += &format!("{:<12}{:>11}", call.name(), count(latency.calls));
        text += &micros(latency.total_ns / latency.calls);
        for nanos in [latency.p50_ns, latency.p90_ns, latency.p99_ns, latency.p999_ns, latency.max_ns] {
            text += &micros(nanos);
        }
        text.push('\n');
    }
    if counts.requests > 0 {
        let micros = side.usage.user_seconds * 1e6 / counts.requests as f64;
        text += &format!("CPU above system calls: {micros:.1} µs a request\n");
    }
    text
}

fn part_as_json(counts: &ReplayCounts, side: &PartReadings) -> Value {
    let calls: serde_json::Map<String, Value> = CallKind::ALL
        .into_iter()
        .map(|call| {
            let latency = side.calls.of(call);
            let value = json!({
                "calls": latency.calls,
                "total_ns": latency.total_ns,
                "p50_ns": latency.p50_ns,
                "p90_ns": latency.p90_ns,
                "p99_ns": latency.p99_ns,
                "p999_ns": latency.p999_ns,
                "max_ns": latency.max_ns,
            });
            (call.name().to_owned(), value)
        })
        .collect();
    json!({
        "requests": counts.requests,
        "hits": counts.hits,
        "hit_ratio": counts.hit_ratio(),
        "bytes": counts.bytes,
        "hit_bytes": counts.hit_bytes,
        "byte_hit_ratio": counts.byte_hit_ratio(),
        "changed": counts.changed,
        "corrupt": counts.corrupt,
        "wrong": counts.wrong,
        "written": counts.written,
        "evicted_by_driver": counts.evicted,
        "evicted_by_store": side.evictions,
        "declined_too_large": counts.declined_too_large,
        "declined_no_space": counts.declined_no_space,
        "declined_out_of_service": counts.declined_out_of_service,
        "body_bytes_read": counts.body_bytes_read,
        "body_bytes_written": counts.body_bytes_written,
        "file_bytes_read": side.calls.bytes_read,
        "file_bytes_written": side.calls.bytes_written,
        "seconds": side.seconds,
        "sync_seconds": side.sync_seconds,
        "device": side.activity,
        "process": side.usage,
        "system_calls": calls,
    })
}

fn reading_as_json(reading: &ReadReport) -> Value {
    json!({
        "format": reading.format.name(),
        "compression": reading.compression,
        "lines": reading.lines,
        "requests": reading.requests,
        "browser_hits_left_out": reading.left_out,
        "bad_lines": reading.bad,
        "problems": reading.problems.iter().map(Problem::to_string).collect::<Vec<_>>(),
    })
}

fn device(side: &PartReadings, of: impl Fn(&Activity) -> String) -> String {
    side.activity.as_ref().map_or_else(|| "-".into(), of)
}

/// Rows of the table, top to bottom.
const ROWS: &[Row] = &[
    ("requests", |counts, _| count(counts.requests)),
    ("hits", |counts, _| count(counts.hits)),
    ("hit ratio", |counts, _| format!("{:.2}%", counts.hit_ratio() * 100.0)),
    ("byte hit ratio", |counts, _| format!("{:.2}%", counts.byte_hit_ratio() * 100.0)),
    ("bytes asked for", |counts, _| size(counts.bytes)),
    ("changed objects", |counts, _| count(counts.changed)),
    ("corrupt objects", |counts, _| count(counts.corrupt)),
    ("wrong bytes", |counts, _| count(counts.wrong)),
    ("objects written", |counts, _| count(counts.written)),
    ("objects declined", |counts, _| count(counts.declined())),
    ("evicted by the driver", |counts, _| count(counts.evicted)),
    ("evicted by the store", |_, side| count(side.evictions)),
    ("device reads", |_, side| device(side, |device| count(device.reads))),
    ("device writes", |_, side| device(side, |device| count(device.writes))),
    ("device bytes read", |_, side| device(side, |device| size(device.bytes_read))),
    ("device bytes written", |_, side| device(side, |device| size(device.bytes_written))),
    ("device read time", |_, side| device(side, |device| format!("{:.2} s", device.read_ms as f64 / 1000.0))),
    ("device write time", |_, side| {
        device(side, |device| format!("{:.2} s", device.write_ms as f64 / 1000.0))
    }),
    ("device busy", |_, side| device(side, |device| format!("{:.2} s", device.busy_ms as f64 / 1000.0))),
    ("wall time", |_, side| format!("{:.2} s", side.seconds)),
    ("sync after it", |_, side| format!("{:.2} s", side.sync_seconds)),
    ("requests a second", |counts, side| count((counts.requests as f64 / side.seconds.max(1e-9)) as u64)),
    ("CPU user", |_, side| format!("{:.2} s", side.usage.user_seconds)),
    ("CPU system", |_, side| format!("{:.2} s", side.usage.system_seconds)),
    ("minor page faults", |_, side| count(side.usage.minor_faults)),
    ("major page faults", |_, side| count(side.usage.major_faults)),
    ("resident memory", |_, side| size(side.usage.resident_bytes)),
];

/// Rows that are left out if their count is 0.
const RARE: &[&str] = &[
    "changed objects",
    "corrupt objects",
    "wrong bytes",
    "objects declined",
    "evicted by the driver",
    "evicted by the store",
];
