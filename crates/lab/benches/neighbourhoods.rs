//! Reads that each idea about reading a volume saves, and reads that no cache could save, simulated
//! on a trace: no clock, no disk.
//!
//! `cargo bench -p shoal-lab --bench neighbourhoods -- TRACE.csv RAM_MB`, where the trace is one of
//! the yardstick (columns `time_ms,client,url,size_bytes`). The first half warms up. The disk holds
//! everything, in the order in which it was written; see docs/experiments/volume-notebook.md.

mod volume;

use shoal_policy::{BeladySize, NeighbourhoodSizer, NextUses, Replacement, ReplacementPolicy};
use std::collections::{BTreeMap, HashMap, VecDeque};
use volume::{Tier, Trace, on_disk};

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let [path, ram_mb] = arguments.as_slice() else {
        println!("usage: cargo bench -p shoal-lab --bench neighbourhoods -- TRACE.csv RAM_MB");
        return;
    };
    let trace = Trace::read(&std::fs::read_to_string(path).expect("the trace is readable"));
    let ram_bytes = (ram_mb.parse::<f64>().expect("a number of megabytes") * 1e6) as u64;
    println!("| RAM tier | order on disk | read | reads | MB read |\n|---|---|---|--:|--:|");
    for (policy, order, reading) in ROWS {
        let ram: Box<dyn Replacement<u64>> = match policy {
            "belady_size" => Box::new(BeladySize::new(NextUses::of(trace.requests.iter().copied()))),
            name => (ReplacementPolicy::named(name).expect("a policy of the table").construct)(),
        };
        let windows = if reading == Reading::Alone { 0 } else { ram_bytes / WINDOWS_SHARE };
        let (reads, bytes) =
            Disk::new(&trace, order, reading, ram_bytes).run(Tier::new(ram, ram_bytes - windows));
        println!("| {policy} | {order:?} | {reading:?} | {reads:.0} | {bytes:.1} |");
    }
}

/// Order in which objects are written.
#[derive(Clone, Copy, Debug)]
enum Order {
    /// Order of the requests.
    Trace,
    /// Order in which sixteen connections complete the objects.
    Completion,
    /// Order of completion, with the objects of a site together in each megabyte.
    Sites,
}

/// Bytes read for one object.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reading {
    Alone,
    /// The aligned window of this many KiB.
    Aligned(u64),
    /// A window of this many KiB that begins a quarter before the object.
    Around(u64),
    /// As in the store.
    Adapted,
}

const ROWS: [(&str, Order, Reading); 16] = [
    ("lru", Order::Completion, Reading::Alone),
    ("s3_fifo", Order::Completion, Reading::Alone),
    ("gdsf", Order::Completion, Reading::Alone),
    ("gdsf", Order::Completion, Reading::Aligned(64)),
    ("gdsf", Order::Trace, Reading::Aligned(64)),
    ("gdsf", Order::Sites, Reading::Aligned(64)),
    ("gdsf", Order::Sites, Reading::Around(16)),
    ("gdsf", Order::Sites, Reading::Around(32)),
    ("gdsf", Order::Sites, Reading::Around(56)),
    ("gdsf", Order::Sites, Reading::Around(64)),
    ("gdsf", Order::Sites, Reading::Around(112)),
    ("gdsf", Order::Sites, Reading::Adapted),
    ("lru", Order::Sites, Reading::Adapted),
    ("s3_fifo", Order::Sites, Reading::Adapted),
    ("belady_size", Order::Sites, Reading::Alone),
    ("belady_size", Order::Sites, Reading::Adapted),
];

/// The volume and the windows on it.
struct Disk<'a> {
    trace: &'a Trace,
    order: Order,
    reading: Reading,
    offsets: Vec<Option<u64>>,
    end: u64,
    in_flight: VecDeque<u64>,
    stripe: Vec<u64>,
    stripe_bytes: u64,
    random: u64,
    windows: BTreeMap<u64, u64>,
    oldest: VecDeque<u64>,
    window_bytes: u64,
    window_limit: u64,
    regions: NeighbourhoodSizer,
}

impl<'a> Disk<'a> {
    fn new(trace: &'a Trace, order: Order, reading: Reading, ram_bytes: u64) -> Self {
        Self {
            trace,
            order,
            reading,
            offsets: vec![None; trace.bytes.len()],
            end: 0,
            in_flight: VecDeque::new(),
            stripe: Vec::new(),
            stripe_bytes: 0,
            random: 1,
            windows: BTreeMap::new(),
            oldest: VecDeque::new(),
            window_bytes: 0,
            window_limit: ram_bytes / WINDOWS_SHARE,
            regions: NeighbourhoodSizer::new(256, shoal_policy::neighbourhood::GROUP_MAX),
        }
    }

    /// Reads and megabytes read for 1,000 requests of the second half.
    fn run(mut self, mut ram: Tier) -> (f64, f64) {
        let (mut reads, mut bytes) = (0_u64, 0_u64);
        let mut seen = vec![false; self.trace.bytes.len()];
        let half = self.trace.requests.len() / 2;
        for (at, object) in self.trace.requests.iter().copied().enumerate() {
            if at == half {
                (reads, bytes) = (0, 0);
            }
            let size = self.trace.bytes[object as usize];
            if ram.hit(object) {
                continue;
            }
            if !std::mem::replace(&mut seen[object as usize], true) {
                self.miss(object);
            } else if let Some(read) =
                self.offsets[object as usize].and_then(|from| self.read(from, on_disk(size)))
            {
                reads += 1;
                bytes += read;
            }
            ram.insert(object, size);
        }
        let thousands = (self.trace.requests.len() - half) as f64 / 1000.0;
        (reads as f64 / thousands, bytes as f64 / 1e6 / thousands)
    }

    fn miss(&mut self, object: u64) {
        self.in_flight.push_back(object);
        let most = if matches!(self.order, Order::Trace) { 0 } else { IN_FLIGHT };
        if self.in_flight.len() > most {
            self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let chosen = (self.random >> 33) as usize % self.in_flight.len();
            let completed = self.in_flight.remove(chosen).expect("it was chosen among them");
            self.stripe_bytes += on_disk(self.trace.bytes[completed as usize]);
            self.stripe.push(completed);
        }
        if self.stripe_bytes >= STRIPE_BYTES {
            self.write();
        }
    }

    fn write(&mut self) {
        let mut stripe = std::mem::take(&mut self.stripe);
        if matches!(self.order, Order::Sites) {
            let site = |object: &u64| self.trace.sites[*object as usize];
            let mut first = HashMap::new();
            for (at, object) in stripe.iter().enumerate() {
                first.entry(site(object)).or_insert(at);
            }
            stripe.sort_by_key(|object| first[&site(object)]);
        }
        for object in stripe {
            self.offsets[object as usize] = Some(self.end);
            self.end += on_disk(self.trace.bytes[object as usize]);
        }
        self.stripe_bytes = 0;
    }

    /// Returns the bytes read for an object; `None` when a window has it.
    fn read(&mut self, from: u64, bytes: u64) -> Option<u64> {
        let (to, region) = (from + bytes, (from / REGION_BYTES) as usize % 256);
        if self.windows.range(..=from).next_back().is_some_and(|(start, length)| start + length >= to) {
            self.regions.spared(region);
            return None;
        }
        self.regions.read(region);
        let pages = (from / PAGE * PAGE, to.next_multiple_of(PAGE));
        let around = |window: u64| {
            let start = from.saturating_sub(window / 4) / PAGE * PAGE;
            (start, (start + window).max(pages.1))
        };
        let (start, end) = match self.reading {
            Reading::Alone => pages,
            Reading::Aligned(kib) => (from / (kib << 10) * (kib << 10), to.next_multiple_of(kib << 10)),
            Reading::Around(kib) => around(kib << 10),
            Reading::Adapted => {
                let read = self.regions.around(region, u64::MAX / PAGE * PAGE, &(from..to), None);
                (read.start, read.end)
            }
        };
        if (start, end) != pages {
            self.keep(start, end - start);
        }
        Some(end - start)
    }

    fn keep(&mut self, start: u64, length: u64) {
        match self.windows.insert(start, length) {
            Some(before) => self.window_bytes -= before,
            None => self.oldest.push_back(start),
        }
        self.window_bytes += length;
        while self.window_bytes > self.window_limit {
            let Some(oldest) = self.oldest.pop_front() else { break };
            self.window_bytes -= self.windows.remove(&oldest).unwrap_or_default();
        }
    }
}

/// Windows take a tenth of the RAM.
const WINDOWS_SHARE: u64 = 10;
const IN_FLIGHT: usize = 16;
const STRIPE_BYTES: u64 = 1 << 20;
const REGION_BYTES: u64 = 16 << 20;
const PAGE: u64 = 4096;
