//! Rules for keeping objects when a finite volume's cursor comes round, and for admitting objects,
//! compared in simulation on a trace.
//!
//! `cargo bench -p shoal-lab --bench keeping -- TRACE.csv RAM_MB DISK_MB`, where the trace is one
//! of the yardstick (columns `time_ms,client,url,size_bytes`). The first half warms up. RAM is an
//! S3-FIFO tier. The disk is written in order, and to keep an object means to write it again.
//! Orders in which an object's place costs nothing are there for comparison. Their victims lie
//! anywhere. A volume would have to write in small pieces, or to copy the data between victims. See
//! docs/experiments/volume-notebook.md.

mod volume;

use shoal_core::Key;
use shoal_policy::reinsertion::{HITS_MAX, ReinsertionDecision, decide};
use shoal_policy::{Handle, Probation, Replacement, ReplacementPolicy};
use std::collections::{HashMap, VecDeque};
use volume::{Tier, Trace, on_disk};

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let [path, ram_mb, disk_mb] = arguments.as_slice() else {
        println!("usage: cargo bench -p shoal-lab --bench keeping -- TRACE.csv RAM_MB DISK_MB");
        return;
    };
    let trace = Trace::read(&std::fs::read_to_string(path).expect("the trace is readable"));
    let bytes = |megabytes: &String| (megabytes.parse::<f64>().expect("a number of megabytes") * 1e6) as u64;
    let (ram_bytes, disk_bytes) = (bytes(ram_mb), bytes(disk_mb));
    println!("| enters | kept | hit % | byte hit % | hits on disk | MB written | MB of these kept |");
    println!("|---|---|--:|--:|--:|--:|--:|");
    for admission in [Admission::Always, Admission::Probation] {
        for keeping in KEEPINGS {
            let counts = Cache::new(&trace, admission, keeping, (ram_bytes, disk_bytes)).run();
            println!("| {admission:?} | {keeping:?} | {counts} |");
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Admission {
    Always,
    /// Admission at the second request, as in the store.
    Probation,
}

/// Rule for the objects that the cursor passes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Keeping {
    /// The cursor keeps nothing.
    Nothing,
    /// Objects hit since they were written stay (CLOCK; FIFO with reinsertion).
    Hit,
    /// FBC: objects with C_max references or more stay; counts are halved when their mean exceeds
    /// A_max.
    Fbc(u32, u32),
    /// As in the store: hits weighed against size.
    Weighed,
    /// S3-FIFO in two logs. A tenth of the disk is for newcomers; those hit more than once move to
    /// the other log. The other log keeps objects that were hit, up to three times. Ghosts enter
    /// the other log at once.
    S3Fifo,
    /// Any order, as if places cost nothing.
    Order(&'static str),
}

const KEEPINGS: [Keeping; 11] = [
    Keeping::Nothing,
    Keeping::Hit,
    Keeping::Fbc(2, 100),
    Keeping::Fbc(3, 100),
    Keeping::Fbc(2, 2),
    Keeping::Weighed,
    Keeping::S3Fifo,
    Keeping::Order("lru"),
    Keeping::Order("s3_fifo"),
    Keeping::Order("gdsf"),
    Keeping::Order("lfu_da"),
];

/// Counts of the second half.
#[derive(Default)]
struct Counts {
    requests: u64,
    bytes: u64,
    hits: u64,
    hit_bytes: u64,
    disk_hits: u64,
    written: u64,
    kept: u64,
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let thousands = self.requests as f64 / 1000.0;
        write!(
            f,
            "{:.1} | {:.1} | {:.0} | {:.2} | {:.2}",
            self.hits as f64 / self.requests as f64 * 100.0,
            self.hit_bytes as f64 / self.bytes as f64 * 100.0,
            self.disk_hits as f64 / thousands,
            self.written as f64 / 1e6 / thousands,
            self.kept as f64 / 1e6 / thousands,
        )
    }
}

struct Cache<'a> {
    trace: &'a Trace,
    admission: Admission,
    probation: Probation,
    is_full: bool,
    ram: Tier,
    disk: Disk,
}

impl<'a> Cache<'a> {
    fn new(trace: &'a Trace, admission: Admission, keeping: Keeping, (ram, disk): (u64, u64)) -> Self {
        let order = ReplacementPolicy::named("s3_fifo").expect("a policy of the table").construct;
        let (ram, disk) = (Tier::new(order(), ram), Disk::new(trace.bytes.len(), keeping, disk));
        Self { trace, admission, probation: Probation::default(), is_full: false, ram, disk }
    }

    fn run(mut self) -> Counts {
        let half = self.trace.requests.len() / 2;
        let mut counts = Counts::default();
        for (at, object) in self.trace.requests.iter().copied().enumerate() {
            if at == half {
                counts = Counts::default();
                (self.disk.written, self.disk.kept) = (0, 0);
            }
            let bytes = self.trace.bytes[object as usize];
            let in_ram = self.ram.hit(object);
            let on_disk = self.disk.holds(object);
            if !in_ram && on_disk {
                self.disk.hit(object);
                counts.disk_hits += 1;
            }
            if !on_disk && self.admits(object) {
                self.disk.insert(object, bytes);
            }
            if !in_ram {
                self.ram.insert(object, bytes);
            }
            counts.requests += 1;
            counts.bytes += bytes;
            counts.hits += u64::from(in_ram || on_disk);
            counts.hit_bytes += if in_ram || on_disk { bytes } else { 0 };
        }
        Counts { written: self.disk.written, kept: self.disk.kept, ..counts }
    }

    fn admits(&mut self, object: u64) -> bool {
        self.is_full |= self.disk.bytes + LARGEST > self.disk.limit;
        self.admission == Admission::Always
            || !self.is_full
            || self.probation.admits(Key::unkeyed(&object.to_le_bytes()), self.disk.objects.max(1024))
    }
}

/// The finite disk.
struct Disk {
    keeping: Keeping,
    limit: u64,
    bytes: u64,
    objects: usize,
    /// States by object number.
    states: Vec<State>,
    /// Objects in the order of their writes: newcomers, and the objects that S3-FIFO moved.
    logs: [VecDeque<u64>; 2],
    log_bytes: [u64; 2],
    /// Sum of FBC's reference counts.
    counts_sum: u64,
    ghosts: Ghosts,
    order: Option<Box<dyn Replacement<u64>>>,
    handles: HashMap<u64, Handle>,
    written: u64,
    kept: u64,
}

#[derive(Clone, Copy, Default)]
struct State {
    is_in: bool,
    count: u32,
    bytes: u64,
}

/// Keys given up lately, in order.
#[derive(Default)]
struct Ghosts {
    order: VecDeque<u64>,
    known: HashMap<u64, u64>,
    turn: u64,
}

impl Ghosts {
    fn remember(&mut self, object: u64, limit: usize) {
        self.turn += 1;
        self.known.insert(object, self.turn);
        self.order.push_back(object);
        while self.order.len() > limit {
            let oldest = self.order.pop_front().expect("it is not empty");
            if self.known.get(&oldest).is_some_and(|turn| turn + limit as u64 <= self.turn) {
                self.known.remove(&oldest);
            }
        }
    }
}

impl Disk {
    fn new(objects: usize, keeping: Keeping, limit: u64) -> Self {
        let order = match keeping {
            Keeping::Order(name) => {
                Some((ReplacementPolicy::named(name).expect("a policy of the table").construct)())
            }
            _ => None,
        };
        Self {
            keeping,
            limit,
            bytes: 0,
            objects: 0,
            states: vec![State::default(); objects],
            logs: Default::default(),
            log_bytes: [0; 2],
            counts_sum: 0,
            ghosts: Ghosts::default(),
            order,
            handles: HashMap::new(),
            written: 0,
            kept: 0,
        }
    }

    fn holds(&self, object: u64) -> bool {
        self.states[object as usize].is_in
    }

    fn hit(&mut self, object: u64) {
        self.states[object as usize].count += 1;
        self.counts_sum += 1;
        if let Keeping::Fbc(_, a_max) = self.keeping
            && self.counts_sum > u64::from(a_max) * self.objects as u64
        {
            self.states.iter_mut().filter(|state| state.is_in).for_each(|state| {
                self.counts_sum -= u64::from(state.count / 2);
                state.count = state.count.div_ceil(2);
            });
        }
        if let (Some(order), Some(handle)) = (&mut self.order, self.handles.get(&object)) {
            order.hit(*handle);
        }
    }

    fn insert(&mut self, object: u64, bytes: u64) {
        let bytes = on_disk(bytes);
        if bytes > self.limit / 4 {
            return;
        }
        let mut passed = 0;
        while self.bytes + bytes > self.limit {
            // The cursor has come round once, and every object was to be kept.
            self.pass(passed > self.objects);
            passed += 1;
        }
        self.written += bytes;
        self.bytes += bytes;
        self.objects += 1;
        self.counts_sum += 1;
        // FBC counts references, of which this is one; others count hits.
        let count = u32::from(matches!(self.keeping, Keeping::Fbc(..)));
        self.states[object as usize] = State { is_in: true, count, bytes };
        if let Some(order) = &mut self.order {
            self.handles.insert(object, order.insert(object, bytes));
            return;
        }
        let is_ghost = self.keeping == Keeping::S3Fifo && self.ghosts.known.remove(&object).is_some();
        self.append(object, usize::from(is_ghost));
    }

    fn append(&mut self, object: u64, log: usize) {
        self.logs[log].push_back(object);
        self.log_bytes[log] += self.states[object as usize].bytes;
    }

    /// Moves the cursor over the oldest object, which is evicted or written again.
    fn pass(&mut self, must_go: bool) {
        if let Some(order) = &mut self.order {
            let victim = order.evict().expect("a disk that is full holds something");
            self.handles.remove(&victim.key);
            return self.leave(victim.key);
        }
        let log = match self.keeping {
            Keeping::S3Fifo => usize::from(self.log_bytes[0] < self.limit / NEWCOMERS_SHARE),
            _ => 0,
        };
        let object = self.logs[log].pop_front().expect("a disk that is full holds something");
        let State { count, bytes, .. } = self.states[object as usize];
        self.log_bytes[log] -= bytes;
        let kept = match self.keeping {
            Keeping::Hit => (count > 0).then_some((0, 0)),
            Keeping::Fbc(c_max, _) => (count >= c_max).then_some((count, 0)),
            Keeping::Weighed => match decide(count.min(u32::from(HITS_MAX)) as u8, bytes) {
                ReinsertionDecision::Reinsert(hits) => Some((u32::from(hits), 0)),
                ReinsertionDecision::Evict => None,
            },
            Keeping::S3Fifo if log == 0 => (count > 1).then_some((0, 1)),
            Keeping::S3Fifo => count.min(3).checked_sub(1).map(|left| (left, 1)),
            Keeping::Nothing | Keeping::Order(_) => None,
        };
        match kept.filter(|_| !must_go) {
            Some((count, log)) => {
                self.states[object as usize].count = count;
                self.written += bytes;
                self.kept += bytes;
                self.append(object, log);
            }
            None => {
                if self.keeping == Keeping::S3Fifo && log == 0 {
                    self.ghosts.remember(object, self.objects);
                }
                self.leave(object);
            }
        }
    }

    fn leave(&mut self, object: u64) {
        let state = std::mem::take(&mut self.states[object as usize]);
        self.bytes -= state.bytes;
        self.objects -= 1;
        self.counts_sum -= u64::from(state.count).min(self.counts_sum);
    }
}

/// Largest object. A newcomer might not find more unused space than this.
const LARGEST: u64 = 1 << 20;
/// Divisor of the disk's size for the newcomers of S3-FIFO.
const NEWCOMERS_SHARE: u64 = 10;
