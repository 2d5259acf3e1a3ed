//! Reports of jobs, for `GET /warm` and `shoal warm`.

use serde::{Deserialize, Serialize};

/// State and counts of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarmReport {
    /// Number of the job.
    pub job: u64,
    /// Name of the file.
    pub file: String,
    /// Format of the list.
    pub format: String,
    /// State.
    pub state: WarmState,
    /// `true` if the job ends with the plan.
    pub is_plan: bool,
    /// Entries of the list that mirrors or sites serve.
    pub entries: u64,
    /// Files left out by the choice of platforms.
    pub not_chosen: u64,
    /// Index pages, each asked for once.
    pub pages: PageCounts,
    /// Files.
    pub files: FileCounts,
    /// Bytes of the missing files of known length.
    pub missing_bytes: u64,
    /// Missing files of unknown length.
    pub missing_unsized: u64,
    /// Files handed over to prefetching.
    #[serde(default)]
    pub hinted: u64,
    /// Bytes of files fetched.
    pub fetched_bytes: u64,
    /// Entries of hosts that are no mirror's, and packages that mirrors refuse.
    pub refused: NamedReasons,
    /// Entries that come from no registry.
    pub left_out: NamedReasons,
    /// Pages and files that could not be fetched, checked or kept.
    pub failures: NamedReasons,
}

/// State of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WarmState {
    /// Another job runs.
    #[default]
    Waiting,
    /// Asking for index pages, and looking for held files.
    Planning,
    /// The plan stands, and nothing more was asked for.
    Planned,
    /// Fetching files.
    Fetching,
    /// All files were tried.
    Done,
    /// Stopped before its end.
    Stopped,
}

impl WarmState {
    /// Returns `true` if the job does no more.
    pub fn is_end(self) -> bool {
        matches!(self, Self::Planned | Self::Done | Self::Stopped)
    }

    /// Returns `true` if the numbers of held and missing files are known.
    pub fn has_plan(self) -> bool {
        !matches!(self, Self::Waiting | Self::Planning)
    }
}

/// Counts of index pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageCounts {
    /// Pages to ask for.
    pub total: u64,
    /// Pages asked for.
    pub done: u64,
}

/// Counts of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileCounts {
    /// Files of the plan.
    pub total: u64,
    /// Files held before.
    pub held: u64,
    /// Files that were missing.
    pub missing: u64,
    /// Missing files fetched and kept.
    pub fetched: u64,
    /// Files that their registry lacks, and need not have.
    pub absent: u64,
    /// Files that failed.
    pub failed: u64,
}

/// Names with reasons. The first 1,000 are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedReasons {
    /// All of them.
    pub count: u64,
    /// The first ones.
    pub first: Vec<NamedReason>,
}

/// A name with a reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedReason {
    /// Name of an entry, page or file.
    pub what: String,
    /// The reason in a line.
    pub why: String,
}

impl NamedReasons {
    /// Adds one.
    pub fn add(&mut self, what: &str, why: impl Into<String>) {
        debug_assert!(self.count >= self.first.len() as u64, "the first ones are counted");
        self.count += 1;
        if self.first.len() < NAMES_MAX {
            self.first.push(NamedReason { what: what.to_owned(), why: why.into() });
        }
    }
}

/// Most names of one list of a report.
const NAMES_MAX: usize = 1000;
