//! Warming: the files of a lockfile are fetched before clients ask for them.
//!
//! ```text
//!   list ─ parse ─ resolve ─► tasks ─► pages ─► files ─► held? ─► fetch, check
//!         in the caller's thread      └──────── a job on the first worker ─────┘
//! ```
//!
//! Every request takes the way of a client's through the cache, so that keys, promises, rules and
//! limits are the same. One job runs at a time; a few wait. A job that is started again skips the
//! files that are held, so that nothing need be remembered for a restart.

mod each;
mod files;
mod job;
mod pace;
mod pages;
mod report;
mod resolve;

pub use report::{FileCounts, NamedReason, NamedReasons, PageCounts, WarmReport, WarmState};

use crate::exchange::CacheEngine;
use bytes::Bytes;
use job::Job;
use parking_lot::Mutex;
use resolve::Resolver;
use shoal_mirrors::wanted::{Choice, Format, Wishes, parse};
use shoal_settings::Settings;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// Request for warming.
#[derive(Clone, Debug, Default)]
pub struct WarmRequest {
    /// Name of the file, for its format and for reports.
    pub file: String,
    /// Format; `None` to detect it.
    pub format: Option<Format>,
    /// Addresses of this node in the list, as clients write them.
    pub at: Vec<String>,
    /// `true` to end with the plan.
    pub is_plan: bool,
    /// `true` to take packages of registries that no mirror has from the mirror of their kind, and
    /// URLs of other hosts by forward mode.
    pub any_host: bool,
    /// `true` to hand the files over to prefetching, in the order of the list, and to end then.
    pub is_ahead: bool,
    /// `true` to read held files too, and to check them against the list.
    pub verifies: bool,
    /// Time for which the files stay on disk when space is made for others, up to
    /// `store.pin_max`.
    pub pin: Option<Duration>,
    /// Choice among platforms.
    pub choice: Choice,
    /// The list.
    pub list: Bytes,
}

/// Reason for which a job is not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WarmRefusal {
    /// The list or the request cannot be read.
    Invalid(String),
    /// Too many jobs wait.
    Full,
    /// The node is not ready.
    Starting,
}

/// The jobs of a node.
pub struct WarmJobs {
    jobs: Mutex<Jobs>,
    /// The turn of the job that runs.
    turn: Arc<Semaphore>,
}

#[derive(Default)]
struct Jobs {
    /// Running, waiting, and the last ones that ended.
    all: VecDeque<Arc<Job>>,
    last: u64,
}

impl Default for WarmJobs {
    fn default() -> Self {
        Self { jobs: Mutex::default(), turn: Arc::new(Semaphore::new(1)) }
    }
}

impl WarmJobs {
    /// Starts a job on a runtime. Reads the list in the caller's thread, which may take a second.
    ///
    /// # Errors
    /// If the list cannot be read, or too many jobs wait.
    pub fn start(
        &self,
        request: WarmRequest,
        engine: &Arc<CacheEngine>,
        (settings, bound): (&Settings, &[SocketAddr]),
        runtime: &Handle,
    ) -> Result<WarmReport, WarmRefusal> {
        if self.unfinished() >= WAITING_MAX {
            return Err(WarmRefusal::Full);
        }
        if request.pin.is_some() && settings.store.architecture != "volume" {
            return Err(WarmRefusal::Invalid(NO_PINS.to_owned()));
        }
        let (format, mut wishes) = read(&request)?;
        let not_chosen = request.choice.apply(&mut wishes);
        let live = engine.live();
        let resolver = Resolver::new(&live, (settings, bound), &request);
        let (tasks, report) = resolver.resolve(wishes);
        let mut jobs = self.jobs.lock();
        // Another request may have taken the place meanwhile.
        if jobs.unfinished() >= WAITING_MAX {
            return Err(WarmRefusal::Full);
        }
        jobs.last += 1;
        debug_assert!(jobs.find(jobs.last).is_none(), "numbers are given once");
        let report = WarmReport {
            job: jobs.last,
            file: request.file.chars().take(SHOWN_MAX).collect(),
            format: format.name().to_owned(),
            is_plan: request.is_plan,
            not_chosen: not_chosen as u64,
            ..report
        };
        let job = Arc::new(Job::new(engine, settings, &request, report));
        jobs.all.push_back(Arc::clone(&job));
        while jobs.all.len() > KEPT_MAX && jobs.all.front().is_some_and(|job| job.is_ended()) {
            jobs.all.pop_front();
        }
        debug_assert!(jobs.all.len() <= KEPT_MAX + WAITING_MAX, "old reports go");
        drop(jobs);
        let report = job.report();
        let work = job.sort(tasks);
        runtime.spawn(job.run(work, Arc::clone(&self.turn)));
        Ok(report)
    }

    /// Returns the reports of all jobs, the newest last.
    pub fn reports(&self) -> Vec<WarmReport> {
        self.jobs.lock().all.iter().map(|job| job.report()).collect()
    }

    /// Stops a job. Returns `false` if there is none of this number.
    pub fn stop(&self, number: u64) -> bool {
        self.jobs.lock().find(number).map(|job| job.stop()).is_some()
    }

    /// Stops all jobs: the node ends.
    pub fn stop_all(&self) {
        self.jobs.lock().all.iter().for_each(|job| job.stop());
    }

    fn unfinished(&self) -> usize {
        self.jobs.lock().unfinished()
    }
}

impl Jobs {
    fn unfinished(&self) -> usize {
        self.all.iter().filter(|job| !job.is_ended()).count()
    }

    fn find(&self, number: u64) -> Option<&Arc<Job>> {
        self.all.iter().find(|job| job.number == number)
    }
}

fn read(request: &WarmRequest) -> Result<(Format, Wishes), WarmRefusal> {
    let detected = || Format::of(&request.file, &request.list);
    let unknown = || {
        let names = Format::ALL.map(|(_, name)| name).join(", ");
        WarmRefusal::Invalid(format!("the format of the list is not known; name it: {names}"))
    };
    let format = request.format.or_else(detected).ok_or_else(unknown)?;
    let wishes = parse(format, &request.list);
    let wishes = wishes
        .map_err(|error| WarmRefusal::Invalid(format!("the list is not of the format {format}: {error}")))?;
    Ok((format, wishes))
}

const NO_PINS: &str = "a pin takes store.architecture = \"volume\"";
/// Most jobs that run or wait.
const WAITING_MAX: usize = 4;
/// Most reports of jobs that are kept.
const KEPT_MAX: usize = 32;
/// Most characters of a file's name that are shown.
const SHOWN_MAX: usize = 200;
