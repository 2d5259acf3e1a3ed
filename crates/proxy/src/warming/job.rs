//! One job: its pages, its plan, its files.

use super::WarmRequest;
use super::each::each;
use super::files::{FilePlace, FileTask};
use super::pace::WarmPace;
use super::pages::{ImageTask, PageTask};
use super::report::{WarmReport, WarmState};
use super::resolve::{EntryTask, TaskPlace};
use crate::exchange::CacheEngine;
use crate::exchange::prefetch::{HintSource, HintedFile, take_files};
use parking_lot::Mutex;
use shoal_clock as clock;
use shoal_mirrors::wanted::{Choice, IndexPage, Search};
use shoal_settings::Settings;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{Notify, Semaphore};

/// ListedWork that the list itself names.
pub(super) struct ListedWork {
    pages: Vec<PageTask>,
    images: Vec<ImageTask>,
}

/// Files, each place once.
#[derive(Default)]
struct FoundFiles {
    files: Vec<FileTask>,
    seen: HashSet<FilePlace>,
}

impl FoundFiles {
    fn push(&mut self, file: FileTask) {
        if self.files.len() < FILES_MAX && self.seen.insert(file.place.clone()) {
            self.files.push(file);
        }
        debug_assert_eq!(self.files.len(), self.seen.len(), "each place once");
    }
}

/// A job.
pub(super) struct Job {
    pub number: u64,
    pub engine: Arc<CacheEngine>,
    pub choice: Choice,
    pub verifies: bool,
    pub pace: WarmPace,
    /// Time until which the files stay on disk, in seconds since 1970.
    pub pinned_until: Option<u64>,
    connections: usize,
    is_plan: bool,
    is_ahead: bool,
    report: Mutex<WarmReport>,
    /// Files of the list, and those that pages have added.
    found: Mutex<FoundFiles>,
    missing: Mutex<Vec<FileTask>>,
    is_stopped: AtomicBool,
    stopped: Notify,
}

impl Job {
    /// Makes a job that does nothing yet.
    pub fn new(
        engine: &Arc<CacheEngine>,
        settings: &Settings,
        request: &WarmRequest,
        report: WarmReport,
    ) -> Self {
        Self {
            number: report.job,
            engine: Arc::clone(engine),
            choice: request.choice.clone(),
            verifies: request.verifies,
            pace: WarmPace::new(settings.warm.rate.0),
            pinned_until: request.pin.map(|time| clock::date_at(clock::now()).plus(time).seconds()),
            connections: settings.warm.connections,
            is_plan: request.is_plan,
            is_ahead: request.is_ahead,
            report: Mutex::new(report),
            found: Mutex::default(),
            missing: Mutex::default(),
            is_stopped: AtomicBool::new(false),
            stopped: Notify::new(),
        }
    }

    /// Returns the report.
    pub fn report(&self) -> WarmReport {
        self.report.lock().clone()
    }

    /// Returns `true` if the job does no more.
    pub fn is_ended(&self) -> bool {
        self.report.lock().state.is_end()
    }

    /// Changes the report.
    pub fn note(&self, change: impl FnOnce(&mut WarmReport)) {
        change(&mut self.report.lock());
    }

    /// Ends the job before its time.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
        self.stopped.notify_one();
    }

    /// Does the work once the job has its turn.
    pub async fn run(self: Arc<Self>, work: ListedWork, turn: Arc<Semaphore>) {
        let working = async {
            let _turn = turn.acquire().await;
            self.work(work).await;
        };
        tokio::select! {
            () = working => {}
            () = self.stopped.notified() => {}
        }
        let is_stopped = self.is_stopped.load(Ordering::Acquire);
        self.note(|report| {
            report.state = match report.state {
                state if state.is_end() => state,
                _ if is_stopped => WarmState::Stopped,
                _ if self.is_plan => WarmState::Planned,
                _ => WarmState::Done,
            };
        });
        let report = self.report();
        tracing::info!(
            file = report.file,
            fetched = report.files.fetched,
            held = report.files.held,
            failures = report.failures.count,
            "warming ended"
        );
    }

    async fn work(self: &Arc<Self>, mut listed: ListedWork) {
        if self.is_ahead {
            // A client may ask for them the next moment: they wait for no page.
            let known = self.take_found();
            self.hand_over(known);
            listed.pages.retain(|page| page.leads() || !page.searches.is_empty());
        }
        self.read_listed(listed).await;
        let files = self.take_found();
        if self.is_ahead {
            return self.hand_over(files);
        }
        each(self, self.connections, files, |job, file| async move { job.look_for(file).await }).await;
        let missing = std::mem::take(&mut *self.missing.lock());
        debug_assert!(self.report().pages.done == self.report().pages.total, "each page was asked for");
        if self.is_plan {
            return;
        }
        self.note(|report| report.state = WarmState::Fetching);
        each(self, self.connections, missing, |job, file| async move { job.fetch(file).await }).await;
    }

    /// Reads the pages and images of the list, which lead to files.
    async fn read_listed(self: &Arc<Self>, ListedWork { pages, images }: ListedWork) {
        self.note(|report| {
            report.state = WarmState::Planning;
            report.pages.total = (pages.len() + images.len()) as u64;
        });
        let (first, rest): (Vec<_>, Vec<_>) = pages.into_iter().partition(PageTask::leads);
        for pages in [first, rest] {
            each(self, self.connections, pages, |job, page| async move { job.read_page(page).await }).await;
        }
        each(self, self.connections, images, |job, image| async move { job.read_image(image).await }).await;
    }

    /// Takes the files that are known by now.
    fn take_found(&self) -> Vec<FileTask> {
        let files = std::mem::take(&mut *self.found.lock()).files;
        self.note(|report| {
            report.files.total += files.len() as u64;
            if files.len() == FILES_MAX {
                report.failures.add("the rest", "the list leads to more than 200,000 files");
            }
        });
        files
    }

    /// Hands the files over to prefetching: clients will ask for them soon, about in this order.
    fn hand_over(&self, files: Vec<FileTask>) {
        if files.is_empty() {
            return;
        }
        let places = files.into_iter().map(|file| match file.place {
            FilePlace::Mirror(mirror, path) => HintedFile::Mirror { mirror, path },
            FilePlace::Url(url, _) => HintedFile::Url(url),
        });
        match take_files(&self.engine, places.collect(), HintSource::Lockfile) {
            Ok(taken) => self.note(|report| {
                report.hinted += taken.accepted;
                taken.first.iter().for_each(|what| report.failures.add(what, "it is not hinted"));
            }),
            Err(refusal) => self.note(|report| report.failures.add("the list", refusal.why())),
        }
    }

    /// Sorts the needs: pages, each with its searches; images; files, which are kept here. Takes a
    /// while for a long list, so that no worker does it.
    pub fn sort(&self, tasks: Vec<EntryTask>) -> ListedWork {
        let mut pages: BTreeMap<(String, IndexPage), Vec<(String, Search)>> = BTreeMap::new();
        let (mut images, mut found) = (Vec::new(), self.found.lock());
        for EntryTask { what, place } in tasks {
            let (mirror, need) = match place {
                TaskPlace::Mirror(mirror, need) => (mirror, need),
                TaskPlace::Url(url, listener) => {
                    found.push(FileTask::at_url(what, url, listener));
                    continue;
                }
            };
            for page in need.pages {
                pages.entry((mirror.clone(), page)).or_default();
            }
            for file in need.files {
                found.push(FileTask::at_mirror(&what, &mirror, file));
            }
            match need.search {
                Some(Search::Image { repository, reference }) => {
                    images.push(ImageTask { what, mirror, repository, reference });
                }
                Some(search @ (Search::Project { .. } | Search::Crate { .. })) => {
                    let page = search.page().cloned().unwrap_or_default();
                    pages.entry((mirror, page)).or_default().push((what, search));
                }
                None => {}
            }
        }
        let pages = pages.into_iter().map(|((mirror, page), searches)| PageTask { mirror, page, searches });
        ListedWork { pages: pages.collect(), images }
    }

    /// Adds files that a page has named.
    pub fn add_files(&self, files: impl IntoIterator<Item = FileTask>) {
        let mut found = self.found.lock();
        files.into_iter().for_each(|file| found.push(file));
    }

    /// Remembers a file that is to be fetched.
    pub fn add_missing(&self, file: FileTask) {
        self.missing.lock().push(file);
    }
}

/// Most files of one job.
const FILES_MAX: usize = 200_000;
