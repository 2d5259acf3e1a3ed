//! Reach of a read around an object, and the reads that the reach saves. Rules are compared in
//! simulation on a trace, with an unlimited disk or a finite one.
//!
//! `cargo bench -p shoal-lab --bench windows -- TRACE.csv RAM_MB DISK_MB`, where the trace is one
//! of the yardstick (columns `time_ms,client,url,size_bytes`). The first half warms up. RAM is an
//! S3-FIFO tier and a tenth for windows. The cursor's reads are counted as well. See
//! docs/experiments/volume-notebook.md.

mod volume;

use shoal_policy::neighbourhood::GROUP_MAX;
use shoal_policy::{GroupBorders, NeighbourhoodSizer, ReplacementPolicy};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use volume::log::{Log, PAGE, PIECE_BYTES, Record, STRIPE_BYTES, position};
use volume::{Tier, Trace, on_disk};

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let [path, ram_mb, disk_mb] = arguments.as_slice() else {
        println!("usage: cargo bench -p shoal-lab --bench windows -- TRACE.csv RAM_MB DISK_MB");
        return;
    };
    let trace = Trace::read(&std::fs::read_to_string(path).expect("the trace is readable"));
    let bytes = |megabytes: &String| (megabytes.parse::<f64>().expect("a number of megabytes") * 1e6) as u64;
    println!("| rule | reads | MB read | hit % |\n|---|--:|--:|--:|");
    for rule in RULES {
        let (reads, megabytes, hits) = Cache::new(&trace, rule, (bytes(ram_mb), bytes(disk_mb))).run();
        println!("| {rule:?} | {reads:.0} | {megabytes:.1} | {hits:.1} |");
    }
}

/// Bytes read for one object.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rule {
    Alone,
    /// A window of this many KiB that begins a quarter before the object.
    Around(u64),
    /// A window of 56 KiB, with this percentage of it before the object.
    Before(u64),
    /// A window of 56 KiB, cut at both ends to wanted objects.
    Cut(Wanted),
    /// A window of this many KiB, cut where the site's objects end.
    Site(u64),
    /// As in the store.
    Groups,
}

/// Objects worth ending a window with.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wanted {
    /// Objects that can be found and lie in the window as a whole.
    Whole,
    /// Whole objects that lie in no other window.
    New,
    /// New objects that are not in RAM. The store does not know these.
    Absent,
    /// Whole objects that have been hit on the disk.
    Hit,
}

const RULES: [Rule; 16] = [
    Rule::Alone,
    Rule::Around(24),
    Rule::Around(32),
    Rule::Around(40),
    Rule::Around(56),
    Rule::Before(10),
    Rule::Before(35),
    Rule::Before(50),
    Rule::Cut(Wanted::Whole),
    Rule::Cut(Wanted::New),
    Rule::Cut(Wanted::Absent),
    Rule::Cut(Wanted::Hit),
    Rule::Site(56),
    Rule::Site(112),
    Rule::Site(224),
    Rule::Groups,
];

struct Cache<'a> {
    trace: &'a Trace,
    rule: Rule,
    ram: Tier,
    log: Log<'a>,
    borders: GroupBorders,
    regions: NeighbourhoodSizer,
    windows: Windows,
    reads: u64,
    bytes: u64,
}

impl<'a> Cache<'a> {
    fn new(trace: &'a Trace, rule: Rule, (ram, disk): (u64, u64)) -> Self {
        let order = ReplacementPolicy::named("s3_fifo").expect("a policy of the table").construct;
        let limit = if rule == Rule::Alone { 0 } else { ram / WINDOWS_SHARE };
        let log = Log::new(trace, disk);
        Self {
            trace,
            rule,
            ram: Tier::new(order(), ram - limit),
            borders: GroupBorders::new(log.stripes.len() as u32, STRIPE_BYTES),
            log,
            regions: NeighbourhoodSizer::new(REGIONS, GROUP_MAX),
            windows: Windows { limit, ..Windows::default() },
            reads: 0,
            bytes: 0,
        }
    }

    /// Reads and megabytes for 1,000 requests of the second half, and its hits in percent.
    fn run(mut self) -> (f64, f64, f64) {
        let half = self.trace.requests.len() / 2;
        let mut hits = 0_u64;
        for (at, object) in self.trace.requests.iter().copied().enumerate() {
            if at == half {
                (hits, self.reads, self.bytes, self.log.counts) = (0, 0, 0, Default::default());
            }
            hits += u64::from(self.request(object));
        }
        let requests = (self.trace.requests.len() - half) as f64;
        let (reads, bytes) = (self.reads + self.log.counts.reads, self.bytes + self.log.counts.bytes_read);
        (reads as f64 / requests * 1e3, bytes as f64 / 1e3 / requests, hits as f64 / requests * 100.0)
    }

    fn request(&mut self, object: u64) -> bool {
        let is_stored = self.log.holds(object);
        if self.ram.hit(object) {
            let written = if is_stored { Vec::new() } else { self.log.offer(object) };
            self.written(written);
            return true;
        }
        if !is_stored {
            let written = self.log.miss(object);
            self.written(written);
        } else if !self.log.places[object as usize].is_waiting {
            self.open(object);
        }
        if self.trace.bytes[object as usize] <= RAM_OBJECT_MAX {
            self.ram.insert(object, self.trace.bytes[object as usize]);
        }
        is_stored
    }

    fn written(&mut self, stripes: Vec<usize>) {
        for stripe in stripes {
            self.windows.forget(position(stripe, 0)..position(stripe + 1, 0));
            let records = &self.log.stripes[stripe];
            let begin = records.iter().filter(|record| record.begins).map(|record| record.at);
            let end = records.last().map(|record| record.at + record.bytes);
            self.borders.clear(stripe as u32);
            self.borders.mark(stripe as u32, begin.chain(end));
        }
    }

    fn open(&mut self, object: u64) {
        let place = self.log.places[object as usize].clone();
        self.log.count_hit(object);
        let body = self.trace.bytes[object as usize];
        let own = if place.pieces.is_empty() {
            on_disk(body)
        } else {
            on_disk(1024 + 16 * place.pieces.len() as u64)
        };
        self.span(object, place.position, own, false);
        for (piece, position) in place.pieces.iter().enumerate() {
            let bytes = (body - piece as u64 * PIECE_BYTES).min(PIECE_BYTES);
            self.span(object, *position, bytes, true);
        }
    }

    /// Reads the bytes that no window has.
    fn span(&mut self, object: u64, from: u64, bytes: u64, is_piece: bool) {
        let stripe = (from / STRIPE_BYTES) as usize;
        let region = stripe * REGIONS / self.log.stripes.len();
        // The index knows sizes by class: an eighth more on average.
        let wanted = from..(from + bytes + bytes / 8).min(position(stripe + 1, 0));
        if self.windows.have(&wanted) {
            return self.regions.spared(region);
        }
        self.regions.read(region);
        let at = position(stripe, 0);
        let offsets = wanted.start - at..wanted.end - at;
        let alone = offsets.start / PAGE * PAGE..offsets.end.next_multiple_of(PAGE).min(STRIPE_BYTES);
        let certain = offsets.start..offsets.end - (offsets.end - offsets.start) / 5;
        let group = || self.borders.group_of(stripe as u32, &certain);
        let read = match self.rule {
            Rule::Alone => alone.clone(),
            Rule::Around(kib) => around(&alone, kib << 10, 25),
            Rule::Before(percent) => around(&alone, 56 << 10, percent),
            Rule::Cut(wanted) => self.cut(stripe, (object, &alone), wanted),
            Rule::Site(kib) => group().map_or(alone.clone(), |group| {
                let window = around(&alone, kib << 10, 25);
                window.start.max(group.start).min(alone.start)..window.end.min(group.end).max(alone.end)
            }),
            Rule::Groups if is_piece => self.regions.onward(STRIPE_BYTES, &offsets, group()),
            Rule::Groups => self.regions.around(region, STRIPE_BYTES, &offsets, group()),
        };
        self.reads += 1;
        self.bytes += read.end - read.start;
        if read != alone {
            self.windows.keep(at + read.start..at + read.end);
        }
    }

    fn cut(&self, stripe: usize, (object, alone): (u64, &Range<u64>), wanted: Wanted) -> Range<u64> {
        let window = around(alone, 56 << 10, 25);
        let end = |record: &Record| record.at + record.bytes;
        let is_whole = |record: &Record| record.at >= window.start && end(record) <= window.end;
        let is_worth = |record: &Record| match wanted {
            Wanted::Whole => true,
            Wanted::New | Wanted::Absent
                if self.windows.have(&(position(stripe, record.at)..position(stripe, end(record)))) =>
            {
                false
            }
            Wanted::New => true,
            Wanted::Absent => !self.ram.holds(record.object),
            Wanted::Hit => self.log.hits(record.object) > 0,
        };
        let records =
            self.log.stripes[stripe].iter().filter(|record| is_whole(record) && record.object != object);
        let records = records.filter(|record| self.log.is_live(stripe, record) && is_worth(record));
        records.fold(alone.clone(), |read, record| {
            read.start.min(record.at / PAGE * PAGE)..read.end.max(end(record).next_multiple_of(PAGE))
        })
    }
}

/// Returns a window around pages of a stripe, with `percent` of it before them.
fn around(alone: &Range<u64>, bytes: u64, percent: u64) -> Range<u64> {
    let from = alone.start.saturating_sub(bytes * percent / 100) / PAGE * PAGE;
    from..(from + bytes).max(alone.end).min(STRIPE_BYTES)
}

/// Windows in RAM.
#[derive(Default)]
struct Windows {
    /// Ends of windows by their beginnings.
    windows: BTreeMap<u64, u64>,
    order: VecDeque<u64>,
    bytes: u64,
    limit: u64,
}

impl Windows {
    fn have(&self, wanted: &Range<u64>) -> bool {
        self.windows.range(..=wanted.start).next_back().is_some_and(|(_, end)| wanted.end <= *end)
    }

    fn keep(&mut self, read: Range<u64>) {
        match self.windows.insert(read.start, read.end) {
            Some(end) => self.bytes -= end - read.start,
            None => self.order.push_back(read.start),
        }
        self.bytes += read.end - read.start;
        while self.bytes > self.limit {
            let Some(oldest) = self.order.pop_front() else { break };
            self.bytes -= self.windows.remove(&oldest).map_or(0, |end| end - oldest);
        }
    }

    fn forget(&mut self, range: Range<u64>) {
        let starts: Vec<u64> = self.windows.range(range).map(|(start, _)| *start).collect();
        for start in starts {
            self.bytes -= self.windows.remove(&start).map_or(0, |end| end - start);
            self.order.retain(|other| *other != start);
        }
    }
}

/// Windows take a tenth of the RAM.
const WINDOWS_SHARE: u64 = 10;
const REGIONS: usize = 256;
const RAM_OBJECT_MAX: u64 = 1 << 20;
