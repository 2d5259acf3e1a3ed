//! Generates SPECweb99's workload: operations against its file set, at the prescribed rate and over
//! the prescribed connections.
//!
//! Kant and Won, *Performance impact of uncached file accesses in SPECweb99*, 1999, section 2:
//!
//! - λ operations a second; the file set grows with λ ([`FileSet`]). Directory, class and file are
//!   drawn one after another.
//! - 70% static GETs, 25.2% dynamic GETs, half of them by a cookie; these add some 6 KB to the
//!   file. 4.8% POSTs, each of which appends 140 bytes to the one POSTlog. The parts of the dynamic
//!   GETs (12.45% plain, 12.6% with rotating advertisements, 0.15% by CGI) are the benchmark's.
//! - A connection carries at most 50,000 bytes a second. The next operation on a connection begins
//!   when the time for the last response at this rate has passed. λ therefore takes about λ / 3.3
//!   connections. 70% of the connections are kept alive, for 5 to 15 operations each.
//!
//! A [`Workload`] gives [`Operation`]s without end, or a [`Trace`] of its GETs, which are the
//! requests that a file cache sees. Equal values give equal operations. An operation costs a heap
//! operation of O(log connections) and a search of O(log directories). Memory: O(connections +
//! directories).

mod files;
mod parse;
#[cfg(test)]
mod tests;

pub use files::{FILES_PER_DIRECTORY, File, FileSet};

use super::Impossible;
use crate::random::Random;
use crate::record::Record;
use crate::trace::Trace;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Parameters of the workload.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Workload {
    /// Seed of all random draws.
    pub seed: u64,
    /// λ: operations a second.
    pub throughput: f64,
    /// Number of operations, POSTs included.
    pub requests: usize,
    /// Number of directories, if not derived from λ.
    pub directories: Option<u32>,
}

impl Default for Workload {
    /// The smallest of the paper's three workloads: 2500 operations a second, 525 directories.
    fn default() -> Self {
        Self { seed: 1, throughput: 2500.0, requests: 500_000, directories: None }
    }
}

/// Kinds of operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OperationKind {
    /// GET of an unchanged file.
    Static,
    /// GET of a file with an addition.
    Dynamic,
    /// GET of a file with an addition that the client's cookie selects.
    Advertisement,
    /// GET of a file with an addition, by a program that the server starts.
    Cgi,
    /// POST of a line for the POSTlog.
    Post,
}

/// One operation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Operation {
    /// Begin in milliseconds since the first operation.
    pub time_ms: u64,
    /// Number of the connection among the simultaneous ones, from 0.
    pub connection: u32,
    /// The operation opens a new TCP connection.
    pub opens: bool,
    /// Kind of the operation.
    pub kind: OperationKind,
    /// File of the operation. For a POST, its log line names this file.
    pub file: File,
}

impl OperationKind {
    /// Returns the bytes of the response beside the file's bytes.
    fn added_bytes(self) -> f64 {
        match self {
            Self::Static => 0.0,
            Self::Dynamic | Self::Advertisement | Self::Cgi => DYNAMIC_BYTES,
            Self::Post => POST_RESPONSE_BYTES,
        }
    }
}

impl Operation {
    /// Returns the size of the response's body, in bytes.
    pub fn response_bytes(&self) -> f64 {
        let file = if self.kind == OperationKind::Post { 0.0 } else { self.file.exact_bytes() };
        file + self.kind.added_bytes()
    }

    /// Returns the request as a log's record, with the file's bytes, or the response's bytes for a
    /// POST.
    pub fn record(&self) -> Record<'static> {
        let post = self.kind == OperationKind::Post;
        let bytes = if post { POST_RESPONSE_BYTES as u64 } else { self.file.bytes() };
        Record {
            time_ms: Some(self.time_ms),
            client: Some(self.connection.to_string().into()),
            method: Some(if post { "POST" } else { "GET" }.into()),
            status: Some(200),
            url: if post { POST_URL.into() } else { format!("{SITE}{}", self.file.path()).into() },
            bytes: Some(bytes),
            ..Record::default()
        }
    }
}

impl Workload {
    /// Returns the file set.
    pub fn files(&self) -> FileSet {
        self.directories.map_or_else(|| FileSet::for_throughput(self.throughput), FileSet::of)
    }

    /// Returns the number of simultaneous connections that carry λ at 50,000 bytes a second each.
    pub fn connections(&self) -> u32 {
        let gets = 1.0 - POST_SHARE;
        let mean = gets * FileSet::mean_access_bytes()
            + DYNAMIC_SHARE * DYNAMIC_BYTES
            + POST_SHARE * POST_RESPONSE_BYTES;
        (self.throughput * mean / CONNECTION_BYTES_PER_SECOND).round().max(1.0) as u32
    }

    /// Returns the operations, without end.
    ///
    /// # Errors
    /// Fails when a value makes no sense.
    pub fn operations(&self) -> Result<Operations, Impossible> {
        self.check()?;
        Ok(Operations::new(self))
    }

    /// Makes the trace of the GETs among the operations.
    ///
    /// # Errors
    /// Fails when a value makes no sense.
    pub fn make(&self) -> Result<Trace, Impossible> {
        let mut trace = Trace::default();
        let gets =
            self.operations()?.take(self.requests).filter(|operation| operation.kind != OperationKind::Post);
        for operation in gets {
            trace.push(&operation.record(), 0);
        }
        Ok(trace)
    }

    fn check(&self) -> Result<(), Impossible> {
        let within = |name: &str, value: f64, low: f64, high: f64| match (low..=high).contains(&value) {
            true => Ok(()),
            false => Err(Impossible(format!("{name} is {value} and must be from {low} to {high}"))),
        };
        within("throughput", self.throughput, 0.1, 1e6)?;
        within("requests", self.requests as f64, 1.0, 1e8)?;
        within("directories", f64::from(self.files().directories()), 1.0, 1e6)
    }
}

/// Operations of a workload, in order of time. See [`Workload::operations`].
#[derive(Clone, Debug)]
pub struct Operations {
    random: Random,
    /// Cumulative sums of the directories' weights.
    directories: Vec<f64>,
    /// Probability of each number within a class.
    numbers: [f64; 9],
    connections: Vec<Connection>,
    /// Time of each connection's next operation, in microseconds, with the connection's number.
    next: BinaryHeap<Reverse<(u64, u32)>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Connection {
    /// Operations that the TCP connection will still carry.
    left: u64,
}

impl Operations {
    fn new(workload: &Workload) -> Self {
        let mut random = Random::new(workload.seed);
        let mut sum = 0.0;
        let directories = (1..=workload.files().directories()).map(|rank| {
            sum += 1.0 / f64::from(rank);
            sum
        });
        let directories = directories.collect();
        let connections = workload.connections();
        // Connections begin anywhere within the time of one mean response.
        let spread = (f64::from(connections) / workload.throughput * 1e6) as u64;
        let next = (0..connections).map(|number| Reverse((random.below(spread), number))).collect();
        let numbers = std::array::from_fn(|number| files::within_class(number as u8));
        let connections = vec![Connection::default(); connections as usize];
        Self { random, directories, numbers, connections, next }
    }

    fn file(&mut self) -> File {
        let total = self.directories.last().copied().unwrap_or_default();
        let drawn = self.random.unit() * total;
        let directory = self.directories.partition_point(|sum| *sum <= drawn);
        File {
            directory: directory.min(self.directories.len().saturating_sub(1)) as u32,
            class: choose(&mut self.random, &files::CLASS_SHARES),
            number: choose(&mut self.random, &self.numbers),
        }
    }

    fn kind(&mut self) -> OperationKind {
        KINDS[usize::from(choose(&mut self.random, &KINDS.map(|(_, share)| share)))].0
    }
}

impl Iterator for Operations {
    type Item = Operation;

    fn next(&mut self) -> Option<Operation> {
        let Reverse((time, number)) = self.next.pop()?;
        let (kind, file) = (self.kind(), self.file());
        let fresh = match self.random.unit() < KEPT_ALIVE {
            true => 5 + self.random.below(11),
            false => 1,
        };
        let connection = &mut self.connections[number as usize];
        let opens = connection.left == 0;
        if opens {
            connection.left = fresh;
        }
        connection.left -= 1;
        let operation = Operation { time_ms: time / 1000, connection: number, opens, kind, file };
        let microseconds = operation.response_bytes() / CONNECTION_BYTES_PER_SECOND * 1e6;
        self.next.push(Reverse((time + microseconds.ceil() as u64, number)));
        Some(operation)
    }
}

/// Draws an index with the probabilities `shares`. The last index takes the rounding error.
fn choose(random: &mut Random, shares: &[f64]) -> u8 {
    let mut drawn = random.unit();
    let found = shares.iter().position(|share| {
        drawn -= share;
        drawn < 0.0
    });
    found.unwrap_or(shares.len().saturating_sub(1)) as u8
}

/// Kinds with their shares of all operations.
const KINDS: [(OperationKind, f64); 5] = [
    (OperationKind::Static, 0.7),
    (OperationKind::Dynamic, 0.1245),
    (OperationKind::Advertisement, 0.126),
    (OperationKind::Cgi, 0.0015),
    (OperationKind::Post, POST_SHARE),
];
/// Share of POSTs among all operations.
pub const POST_SHARE: f64 = 0.048;
/// Bytes that a POST appends to the POSTlog.
pub const POST_LOG_BYTES: u64 = 140;
const DYNAMIC_SHARE: f64 = 0.252;
/// Bytes added to a dynamic page: "about 6 KB".
const DYNAMIC_BYTES: f64 = 6000.0;
/// Bytes of a POST's response: "a few hundred bytes".
const POST_RESPONSE_BYTES: f64 = 300.0;
/// Rate that a setup keeps close to (section 2); the benchmark refuses less than 40,000.
const CONNECTION_BYTES_PER_SECOND: f64 = 50_000.0;
/// Share of connections that are kept alive: "at least 70%".
const KEPT_ALIVE: f64 = 0.7;
const SITE: &str = "http://specweb99.example/file_set/";
const POST_URL: &str = "http://specweb99.example/post";
