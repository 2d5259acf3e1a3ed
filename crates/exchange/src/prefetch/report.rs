//! Reports about prefetching, for the operator.

use super::hint::{AccountKey, Hint, HintPlace, HintRefusal};
use super::list::HintLines;
use super::place::{HintAuthor, place_of};
use super::state::LIST_SECONDS;
use super::{Prefetcher, now_seconds};
use crate::CacheEngine;
use serde::{Deserialize, Serialize};
use shoal_cooperation::prefetch::{HintSource, SourceAccount, SourceHold};
use std::sync::Arc;

/// Report about a list that was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HintsReport {
    /// Number of the list.
    pub list: u64,
    /// Hints taken.
    pub accepted: u64,
    /// Hints refused.
    pub refused: u64,
    /// The first refusals, each with its reason.
    pub first: Vec<String>,
    /// Reason for which the source is held back now; empty if it is not.
    #[serde(default)]
    pub held_back: String,
}

/// State of prefetching.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PrefetchStatus {
    /// Hints that wait.
    pub waiting: u64,
    /// Fetches on their way.
    pub in_flight: u64,
    /// Answers fetched that no client has used yet.
    pub unused: u64,
    /// Bytes of these.
    pub unused_bytes: u64,
    /// Lists in use.
    #[serde(default)]
    pub lists: Vec<ListStatus>,
    /// Sources that have hinted anything.
    pub sources: Vec<SourceStatus>,
}

/// List of hints in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListStatus {
    /// Number, as the report about the list has it.
    pub list: u64,
    /// Name of its source.
    pub source: String,
    /// Hints that clients have not passed yet.
    pub left: u64,
}

/// Account of one source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SourceStatus {
    /// Name of the source.
    pub source: String,
    /// Hints received.
    pub received: u64,
    /// Hints refused.
    pub refused: u64,
    /// Hints for answers that the cache had.
    pub held: u64,
    /// Hints that another node of the cluster took.
    pub placed: u64,
    /// Prefetches begun.
    pub prefetched: u64,
    /// Prefetches without a usable answer.
    pub failed: u64,
    /// Prefetches that a client used.
    pub used: u64,
    /// Prefetches that nobody used in time.
    pub wasted: u64,
    /// Bytes prefetched.
    pub prefetched_bytes: u64,
    /// Bytes that clients used.
    pub used_bytes: u64,
    /// Bytes wasted.
    pub wasted_bytes: u64,
    /// Times that the source was muted.
    pub mutes: u64,
    /// Share of recent prefetches that were used, in thousandths; absent before enough are known.
    pub precision_permille: Option<u64>,
    /// Seconds until the source may hint again; absent if it is not muted.
    pub muted_seconds: Option<u64>,
}

impl SourceStatus {
    /// Joins the accounts of one source: counts are added. Precision is the lower one, and the mute
    /// the longer one.
    fn joined(self, other: Self) -> Self {
        debug_assert_eq!(self.source, other.source, "accounts of one source");
        let precision = [self.precision_permille, other.precision_permille];
        Self {
            source: self.source,
            received: self.received + other.received,
            refused: self.refused + other.refused,
            held: self.held + other.held,
            placed: self.placed + other.placed,
            prefetched: self.prefetched + other.prefetched,
            failed: self.failed + other.failed,
            used: self.used + other.used,
            wasted: self.wasted + other.wasted,
            prefetched_bytes: self.prefetched_bytes + other.prefetched_bytes,
            used_bytes: self.used_bytes + other.used_bytes,
            wasted_bytes: self.wasted_bytes + other.wasted_bytes,
            mutes: self.mutes + other.mutes,
            precision_permille: precision.into_iter().flatten().min(),
            muted_seconds: self.muted_seconds.max(other.muted_seconds),
        }
    }
}

/// File of a lockfile, at its place.
#[derive(Clone, Debug)]
pub enum HintedFile {
    /// Path below a mirror of this name.
    Mirror {
        /// Name of the mirror.
        mirror: String,
        /// Path with its query.
        path: String,
    },
    /// URL of a site, or of a host of forward mode.
    Url(String),
}

/// Takes files of a lockfile as a list of hints. Must run within a worker's runtime.
///
/// # Errors
/// If lists are switched off, or too many are in use.
pub fn take_files(
    engine: &Arc<CacheEngine>,
    files: Vec<HintedFile>,
    source: HintSource,
) -> Result<HintsReport, HintRefusal> {
    let live = engine.live();
    let mut report = HintsReport::default();
    let mut hints = Vec::with_capacity(files.len());
    for file in files {
        let place = match file {
            HintedFile::Mirror { mirror, path } => Ok(HintPlace::Mirror { mirror, path }),
            HintedFile::Url(url) => place_of(&live, &url, HintAuthor::Operator),
        };
        match place {
            Ok(place) => hints.push((Hint::new(source, place), None)),
            Err(refusal) => {
                report.refused += 1;
                if report.first.len() < FIRST_MAX {
                    report.first.push(refusal.why().to_owned());
                }
            }
        }
    }
    take(engine, hints, (source, None), report)
}

/// Takes a list of hints. Must run within a worker's runtime.
///
/// # Errors
/// If lists are switched off, or too many are in use.
pub fn take_list(
    engine: &Arc<CacheEngine>,
    lines: HintLines,
    source: HintSource,
) -> Result<HintsReport, HintRefusal> {
    let live = engine.live();
    let mut report = HintsReport { refused: lines.malformed, ..HintsReport::default() };
    report.first.extend(lines.first_fault.map(|(line, why)| format!("line {line}: {why}")));
    let mut hints = Vec::with_capacity(lines.lines.len());
    for line in lines.lines {
        match place_of(&live, &line.url, HintAuthor::Operator) {
            Ok(place) => {
                let hint = Hint { fields: line.fields, ..Hint::new(source, place) };
                hints.push((hint, line.deadline_seconds));
            }
            Err(refusal) => {
                report.refused += 1;
                if report.first.len() < FIRST_MAX {
                    report.first.push(format!("{}: {}", line.url, refusal.why()));
                }
            }
        }
    }
    take(engine, hints, (source, lines.pace_seconds), report)
}

fn take(
    engine: &Arc<CacheEngine>,
    hints: Vec<(Hint, Option<f64>)>,
    (source, pace_seconds): (HintSource, Option<f64>),
    mut report: HintsReport,
) -> Result<HintsReport, HintRefusal> {
    let live = engine.live();
    if !live.prefetch.lists {
        return Err(HintRefusal::Off);
    }
    report.accepted = hints.len() as u64;
    debug_assert!(report.first.len() <= FIRST_MAX + 1, "few refusals are told");
    let now = now_seconds();
    let paced = pace_seconds.unwrap_or(0.0) * hints.len() as f64;
    let last_deadline = hints.iter().filter_map(|(_, deadline)| *deadline).fold(0.0, f64::max);
    let ends = now + LIST_SECONDS.max(paced).max(last_deadline);
    {
        let mut state = engine.prefetcher.state.lock();
        // A list for forward mode is judged by the account of forward mode.
        let is_own = hints.first().is_none_or(|(hint, _)| hint.place.is_own());
        let account = AccountKey { source, is_own };
        state.account(account).refused(report.refused);
        report.list = state.add_list(source, hints, (pace_seconds, ends), now)?;
        let demand = engine.metrics.upstream_body_bytes.value();
        report.held_back =
            state.hold_of(account, &live.prefetch, (now, demand)).map_or_else(String::new, hold_text);
    }
    Prefetcher::begin(engine);
    Ok(report)
}

/// Returns the state of prefetching.
pub fn status(engine: &CacheEngine) -> PrefetchStatus {
    let state = engine.prefetcher.state.lock();
    let [waiting, in_flight, unused, unused_bytes] = state.sizes();
    let now = now_seconds();
    let of_account = |source: HintSource, account: &SourceAccount| {
        let counts = account.counts();
        SourceStatus {
            source: source.name().to_owned(),
            received: counts.received,
            refused: counts.refused,
            held: counts.held,
            placed: counts.placed,
            prefetched: counts.prefetched,
            failed: counts.failed,
            used: counts.used,
            wasted: counts.wasted,
            prefetched_bytes: counts.prefetched_bytes,
            used_bytes: counts.used_bytes,
            wasted_bytes: counts.wasted_bytes,
            mutes: counts.muted,
            precision_permille: account.precision().map(|precision| (precision * 1000.0) as u64),
            muted_seconds: account.muted_until(now).map(|until| (until - now).ceil() as u64),
        }
    };
    let source = |source: HintSource| {
        let accounts = state.accounts_of(source).map(|account| of_account(source, account));
        accounts.reduce(SourceStatus::joined)
    };
    let list = |(list, source, left): (u64, HintSource, usize)| ListStatus {
        list,
        source: source.name().to_owned(),
        left: left as u64,
    };
    PrefetchStatus {
        lists: state.lists().into_iter().map(list).collect(),
        waiting,
        in_flight,
        unused,
        unused_bytes,
        sources: HintSource::ALL.into_iter().filter_map(source).collect(),
    }
}

/// Notes the share of the processors that this process uses, in percent.
pub fn note_cpu(engine: &CacheEngine, percent: u32) {
    engine.prefetcher.note_cpu(percent);
}

fn hold_text(hold: SourceHold) -> String {
    match hold {
        SourceHold::Muted { .. } => "the source is muted: clients used too little of what it hinted",
        SourceHold::Window => "as many fetches wait for a client as the source may have",
        SourceHold::Allowance => "the source has wasted as many bytes as it may",
    }
    .to_owned()
}

/// Most refusals that are told.
const FIRST_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_of_a_source_are_joined() {
        let status = |used, precision_permille, muted_seconds| SourceStatus {
            source: "link".into(),
            used,
            precision_permille,
            muted_seconds,
            ..SourceStatus::default()
        };
        let joined = status(3, Some(900), None).joined(status(2, Some(100), Some(9)));
        assert_eq!(joined, status(5, Some(100), Some(9)));
        assert_eq!(status(1, None, None).joined(status(0, Some(5), None)), status(1, Some(5), None));
    }
}
