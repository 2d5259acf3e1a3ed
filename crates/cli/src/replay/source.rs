//! Source of the requests: a file, standard input, or the generator.

use super::ReplayOptions;
use crate::failure::Failure;
use crate::show::count;
use crate::trace::source::unreadable;
use crate::trace::told::lost;
use shoal_trace::generate::{Impossible, Traffic, specweb99};
use shoal_trace::{Input, ReadOptions, ReadReport, Trace, Unread};
use std::path::Path;

/// Trace with its origin.
pub struct ReplaySource {
    /// Requests of the trace.
    pub trace: Trace,
    /// The reader's account; `None` for generated traffic.
    pub reading: Option<ReadReport>,
    /// Requests that were left out.
    pub unread: Unread,
    /// Assumptions about the trace.
    pub assumed: Vec<String>,
}

/// Reads or generates the trace that the options name.
pub fn load(options: &ReplayOptions) -> Result<ReplaySource, Failure> {
    let name = &options.trace;
    if let Some(values) = name.strip_prefix(MADE).filter(|rest| rest.is_empty() || rest.starts_with(':')) {
        return made(options, values.trim_start_matches(':'));
    }
    if let Some(values) = name.strip_prefix(SPECWEB99).filter(|rest| rest.is_empty() || rest.starts_with(':'))
    {
        return operations(options, values.trim_start_matches(':'));
    }
    let failed = |why: String| Failure::Runtime(format!("{name}: {why}"));
    let input = match name.as_str() {
        "-" => Input::new(std::io::stdin()),
        file => Input::open(Path::new(file)),
    };
    let input = input.map_err(|error| failed(error.to_string()))?;
    let read_options = ReadOptions {
        format: options.format.map(|name| name.0),
        columns: options.columns.clone(),
        separator: options.separator.map(|name| name.0),
        bad_lines_max: options.bad_lines,
        strict: options.strict,
        ..ReadOptions::default()
    };
    let limit = options.limit.unwrap_or(usize::MAX);
    let read = Trace::read(input, &read_options, &options.filter(), limit, options.size_unknown.0);
    let (trace, reading, unread) = read.map_err(|error| failed(unreadable(&error)))?;
    if trace.requests().is_empty() {
        return Err(failed(format!("no request is left to replay: {}", lost(&reading, &unread))));
    }
    let assumed = assumed(options, &reading, &unread);
    Ok(ReplaySource { trace, reading: Some(reading), unread, assumed })
}

/// Generates traffic. A file of the same name is available as `./synthetic`.
fn made(options: &ReplayOptions, values: &str) -> Result<ReplaySource, Failure> {
    let wrong = |error: Impossible| Failure::Usage(format!("{}: {error}", options.trace));
    let traffic: Traffic = values.parse().map_err(wrong)?;
    let trace = traffic.make().map_err(wrong)?;
    Ok(ReplaySource {
        trace,
        reading: None,
        unread: Unread::default(),
        assumed: vec![format!("made: {traffic}")],
    })
}

/// Generates the GETs of SPECweb99's operations. A file of the same name is available as
/// `./specweb99`.
fn operations(options: &ReplayOptions, values: &str) -> Result<ReplaySource, Failure> {
    let wrong = |error: Impossible| Failure::Usage(format!("{}: {error}", options.trace));
    let workload: specweb99::Workload = values.parse().map_err(wrong)?;
    let trace = workload.make().map_err(wrong)?;
    let assumed = vec![format!("made: GETs of specweb99:{workload}")];
    Ok(ReplaySource { trace, reading: None, unread: Unread::default(), assumed })
}

fn assumed(options: &ReplayOptions, reading: &ReadReport, unread: &Unread) -> Vec<String> {
    let mut assumed = reading.assumed.clone();
    if unread.without_size > 0 {
        let (requests, bytes) = (count(unread.without_size), options.size_unknown);
        assumed.push(format!("{requests} requests without a size count as {bytes}"));
    }
    assumed.push(format!("a repeat of another size: {}", options.size_change.0.name()));
    assumed
}

/// Returns disk space for every object of a trace at its largest size, with folders and index.
pub fn room_for_all(trace: &Trace) -> u64 {
    let mut largest = vec![0u64; trace.objects().len()];
    for request in trace.requests() {
        let known = &mut largest[request.object as usize];
        *known = (*known).max(request.bytes);
    }
    let files: u64 = largest.iter().map(|bytes| (bytes + HEAD_BYTES).div_ceil(4096) * 4096).sum();
    files + files / 10 + trace.objects().len() as u64 * BYTES_FOR_EACH + OTHER_BYTES
}

/// Name of generated traffic.
const MADE: &str = "synthetic";
/// Name of SPECweb99's operations.
const SPECWEB99: &str = "specweb99";
/// Upper bound for a head with a long URL, in bytes.
const HEAD_BYTES: u64 = 4096;
/// Bytes of an index entry and of an object's part of a folder.
const BYTES_FOR_EACH: u64 = 200;
/// Bytes for empty folders and similar overhead.
const OTHER_BYTES: u64 = 512 << 20;
