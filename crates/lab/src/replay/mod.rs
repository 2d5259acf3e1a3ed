//! The disk workload generator: drives a store over a trace, without a network.
//!
//! Maltzahn, Richardson, Grunwald (Reducing the Disk I/O of Web Proxy Server Caches, USENIX 1999,
//! section 4): "a workload generator sequentially processes each trace entry -- the generator first
//! determines whether a cached object exists and then either misses the object into the cache by
//! writing data of the specified size to the appropriate location or hits the object by reading the
//! corresponding data." The first part of the trace warms the cache up; the second is measured.
//!
//! The store is an argument and so is the clock: the same driver runs on a real disk and on a
//! modelled one. The disk's owner reads its counters when [`Driver::run`] says that a part begins
//! or ends. [`TimingFs`] in front of the store's door measures its calls.

mod body;
mod counts;
mod keeper;
mod latency;
#[cfg(test)]
mod tests;
mod timed;

pub use counts::{End, ReplayCounts, ReplayResult};
pub use keeper::DriverReplacement;
pub use latency::{Latencies, Latency};
pub use timed::{CallKind, Clock, FailedCall, TimingFs};

use body::BodyGenerator;
use shoal_core::ObjectKey;
use shoal_store::{Error, InsertRefusal, Store};
use shoal_trace::{Request, SizeChange, Trace};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Plan of a replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplayPlan {
    /// Number of requests, from the first, that only warm the cache.
    pub warm_up: usize,
    /// Requests under way at once, each on a thread of its own; the paper has 1.
    pub in_flight: usize,
    /// Meaning of the trace's sizes.
    pub sizes: SizeMeaning,
    /// Meaning of a repeat with another size.
    pub size_change: SizeChange,
    /// `true` if the bytes of hits are compared with the bytes written.
    pub verify: bool,
}

/// Meaning of the trace's sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SizeMeaning {
    /// Sizes of the object in the store, with its header and checksums: the papers' plain files had
    /// none.
    #[default]
    Stored,
    /// Sizes of the body alone.
    Body,
}

/// A part of the trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TracePart {
    /// The first, which warms the cache.
    WarmUp,
    /// The second, which is measured.
    Measured,
}

/// Everything that a run needs.
pub struct Driver<'a> {
    /// The store that is driven.
    pub store: &'a dyn Store,
    /// The requests.
    pub trace: &'a Trace,
    /// Plan of the run.
    pub plan: ReplayPlan,
    /// Replacement by the driver, as in the paper's generators; `None` leaves replacement to the
    /// store.
    pub keeper: Option<Mutex<DriverReplacement>>,
    /// The door in front of the store, where there is one: it knows failures below the store.
    pub door: Option<&'a TimingFs>,
}

impl Driver<'_> {
    /// Runs the trace. `ended` is called after each part, before the next begins. `go_on` is called
    /// before every request, from any thread, with the number of requests begun; the run stops when
    /// it returns `false`.
    pub fn run(
        &self,
        mut ended: impl FnMut(TracePart),
        go_on: impl Fn(usize) -> bool + Sync,
    ) -> ReplayResult {
        let total = self.trace.requests().len();
        let warm_up = self.plan.warm_up.min(total);
        let mut outcome = ReplayResult::default();
        for (part, from, to) in [(TracePart::WarmUp, 0, warm_up), (TracePart::Measured, warm_up, total)] {
            let (counts, end) = self.part(from, to, &go_on);
            match part {
                TracePart::WarmUp => outcome.warm_up = counts,
                TracePart::Measured => outcome.measured = counts,
            }
            ended(part);
            if end != End::Done {
                outcome.end = end;
                break;
            }
        }
        outcome
    }

    /// Runs one part, with one thread for each request that may be under way.
    fn part(&self, from: usize, to: usize, go_on: &(impl Fn(usize) -> bool + Sync)) -> (ReplayCounts, End) {
        let next = AtomicUsize::new(from);
        let stopped = AtomicBool::new(false);
        let end = Mutex::new(End::Done);
        let work = || {
            let mut worker =
                Worker { driver: self, bodies: BodyGenerator::default(), counts: ReplayCounts::default() };
            while !stopped.load(Relaxed) {
                let at = next.fetch_add(1, Relaxed);
                let Some(request) = self.trace.requests()[..to].get(at) else { break };
                let reached = match go_on(at) {
                    true => worker.perform(request),
                    false => Err(End::Stopped),
                };
                if let Err(reason) = reached {
                    // The first reason counts.
                    if !stopped.swap(true, Relaxed) {
                        *end.lock().unwrap_or_else(PoisonError::into_inner) = reason;
                    }
                    break;
                }
            }
            worker.counts
        };
        let counts = match self.plan.in_flight.max(1) {
            1 => work(),
            threads => std::thread::scope(|scope| {
                let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
                let counts = workers.into_iter().map(|worker| worker.join().unwrap_or_default());
                counts.fold(ReplayCounts::default(), ReplayCounts::plus)
            }),
        };
        (counts, end.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One thread of a run.
struct Worker<'a> {
    driver: &'a Driver<'a>,
    bodies: BodyGenerator,
    counts: ReplayCounts,
}

impl Worker<'_> {
    /// Serves one request: reads a hit, writes a miss. The error ends the run.
    fn perform(&mut self, request: &Request) -> Result<(), End> {
        let url = self.driver.trace.url(request);
        let key = ObjectKey::new(url.as_bytes());
        let outcome = self.hit(&key, request).and_then(|is_hit| match is_hit {
            true => Ok(true),
            false => self.miss(&key, request).map(|()| false),
        });
        self.counts.requests += 1;
        self.counts.bytes += request.bytes;
        match outcome {
            Ok(is_hit) => {
                self.counts.hits += u64::from(is_hit);
                self.counts.hit_bytes += if is_hit { request.bytes } else { 0 };
                self.failed_below()
            }
            Err(error) => Err(End::Failed(self.error_text(&error))),
        }
    }

    /// Reads the whole object when the store has it with the expected size.
    fn hit(&mut self, key: &ObjectKey, request: &Request) -> Result<bool, Error> {
        let Driver { store, plan, .. } = self.driver;
        if !store.may_contain(key) {
            return Ok(false);
        }
        let Some(stored) = store.open(key)? else { return Ok(false) };
        let length = stored.body.length();
        if plan.size_change == SizeChange::Version && length != self.body_bytes(key, request) {
            self.counts.changed += 1;
            return Ok(false);
        }
        let mut offset = 0;
        while offset < length {
            let bytes = match stored.body.read(offset, READ_BYTES) {
                Ok(bytes) if bytes.is_empty() => break,
                Ok(bytes) => bytes,
                Err(Error::Corrupt { .. }) => {
                    self.counts.corrupt += 1;
                    return Ok(false);
                }
                Err(error) => return Err(error),
            };
            if plan.verify && !self.bodies.is_of(request.object, offset, &bytes) {
                self.counts.wrong += 1;
            }
            offset += bytes.len() as u64;
        }
        self.counts.body_bytes_read += offset;
        if let Some(keeper) = &self.driver.keeper {
            keeper.lock().unwrap_or_else(PoisonError::into_inner).hit(request.object);
        }
        Ok(true)
    }

    /// Writes the object, which the store may decline.
    fn miss(&mut self, key: &ObjectKey, request: &Request) -> Result<(), Error> {
        match self.write(key, request) {
            Ok(bytes) => {
                self.counts.written += 1;
                self.counts.body_bytes_written += bytes;
                Ok(())
            }
            Err(Error::Declined(why)) => {
                *match why {
                    InsertRefusal::TooLarge => &mut self.counts.declined_too_large,
                    InsertRefusal::OutOfService => &mut self.counts.declined_out_of_service,
                    _ => &mut self.counts.declined_no_space,
                } += 1;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn write(&mut self, key: &ObjectKey, request: &Request) -> Result<u64, Error> {
        let store = self.driver.store;
        let length = self.body_bytes(key, request);
        if let Some(keeper) = &self.driver.keeper {
            // The lock is held over the removals, so that no two workers make room for the same
            // bytes.
            let mut keeper = keeper.lock().unwrap_or_else(PoisonError::into_inner);
            let victims = keeper.insert(request.object, request.bytes.max(length));
            let Some(victims) = victims else { return Err(Error::Declined(InsertRefusal::TooLarge)) };
            for victim in victims {
                let url = self.driver.trace.objects().name(victim);
                store.remove(&ObjectKey::new(url.as_bytes()))?;
                self.counts.evicted += 1;
            }
        }
        let mut insert = store.insert(key, &[], Some(length))?;
        for piece in self.bodies.of(request.object, length) {
            insert.append(piece)?;
        }
        insert.commit(None)?;
        Ok(length)
    }

    fn body_bytes(&self, key: &ObjectKey, request: &Request) -> u64 {
        match self.driver.plan.sizes {
            SizeMeaning::Body => request.bytes,
            SizeMeaning::Stored => {
                self.driver.store.largest_body_within(request.bytes, key.full().len() as u32, 0)
            }
        }
    }

    /// Returns the text of a store's error, with the file where it came from one.
    fn error_text(&self, error: &Error) -> String {
        let is_disk = matches!(error, Error::Disk { .. });
        let failed = self.driver.door.filter(|_| is_disk).and_then(TimingFs::latest_failed);
        failed.map_or_else(|| error.to_string(), |failed| failed.to_string())
    }

    /// Ends the run for a failure below the store, even where the store survives it, as with a full
    /// disk.
    fn failed_below(&self) -> Result<(), End> {
        match self.driver.door.and_then(TimingFs::failed) {
            Some(failed) => Err(End::Failed(failed.to_string())),
            None => Ok(()),
        }
    }
}

/// Bytes of one read of a hit.
const READ_BYTES: usize = 1 << 20;
