//! Walk through the tree: counts it after an unclean stop, and evicts objects when space runs
//! short.
//!
//! CERN httpd collected garbage by walking its tree and looking at the time of last access. Common
//! mount options no longer write that time at every read, and this store keeps no state of single
//! objects. A table of bits, addressed by the key's hash, therefore tells which objects had a hit
//! since the walk last passed. The walk evicts the others, as CLOCK does; objects without any hit
//! since their insert go first. The walk resumes where it stopped. A walk begins when free space
//! falls below 1/32 of the limit, or below the last declined charge, and stops at 1/16.
//!
//! Cost: one listing for each folder, and one metadata file read for each object passed.

use super::info::{self, MetadataFile, MetadataLookup};
use super::path::ROOT;
use super::{LOCK, NAMES_MAX, UrlTree, body_sequence};
use crate::architectures::maintenance::StepResult;
use shoal_core::{Key, ObjectKey};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tracing::info;

/// Bits of recently used objects.
pub(super) struct RecentUses(Box<[AtomicU64]>);

impl RecentUses {
    pub(super) fn new() -> Self {
        Self((0..ASKED_WORDS).map(|_| AtomicU64::new(0)).collect())
    }

    /// Records a hit on the object.
    pub(super) fn note(&self, key: Key) {
        let (word, bit) = self.place(key);
        if word.load(Relaxed) & bit == 0 {
            word.fetch_or(bit, Relaxed);
        }
    }

    /// Returns `true` if the object had a hit since the previous call, and clears its bit. Objects
    /// that share a bit count as one.
    fn take(&self, key: Key) -> bool {
        let (word, bit) = self.place(key);
        word.fetch_and(!bit, Relaxed) & bit != 0
    }

    fn place(&self, key: Key) -> (&AtomicU64, u64) {
        let bit = key.low() % (ASKED_WORDS as u64 * 64);
        (&self.0[bit as usize / 64], 1 << (bit % 64))
    }
}

/// Position of the walk: the folders from the root down, each with its names still to visit.
#[derive(Default)]
pub(super) struct Walk {
    levels: Vec<FolderLevel>,
    /// Rounds begun since the walk was last idle.
    rounds: u32,
}

struct FolderLevel {
    folder: String,
    names: Vec<String>,
}

impl UrlTree {
    /// Does one bounded piece of the work that is due.
    pub(super) fn walk_on(&self) -> StepResult {
        let is_counting = self.totals.now().counting;
        if !is_counting && !self.is_short_of_space() {
            self.walk.lock().rounds = 0;
            return StepResult::Idle;
        }
        let mut walk = self.walk.lock();
        let mut visited = 0;
        while visited < FOLDERS_MAX {
            visited += 1;
            let Some(level) = walk.levels.last_mut() else {
                if self.end_round(&mut walk, is_counting) {
                    return if is_counting { StepResult::Worked(visited) } else { StepResult::Idle };
                }
                continue;
            };
            match level.names.pop() {
                Some(name) => {
                    let folder = format!("{}/{name}", level.folder);
                    walk.levels.extend(self.visit(folder, is_counting));
                }
                None => {
                    let folder = walk.levels.pop().map(|level| level.folder).filter(|folder| folder != ROOT);
                    // Removes an empty folder that a killed process left; this call fails for other
                    // folders.
                    if let Some(folder) = folder.filter(|_| is_counting)
                        && self.files.remove_folder(&folder).is_ok()
                    {
                        self.totals.lost(self.folder_bytes(&folder));
                    }
                }
            }
            if !is_counting && self.has_enough_space() {
                self.wanted.store(0, Relaxed);
                break;
            }
        }
        StepResult::Worked(visited)
    }

    /// Begins a round at the root, or returns `true` if no further round is due.
    fn end_round(&self, walk: &mut Walk, is_counting: bool) -> bool {
        let enough = if is_counting { 1 } else { ROUNDS_MAX };
        if walk.rounds == enough {
            walk.rounds = 0;
            if is_counting {
                self.totals.counted();
                info!(objects = self.totals.now().objects, "the store is counted");
            } else {
                // All objects are in use. The next declined charge wakes the walk again.
                self.wanted.store(0, Relaxed);
            }
            return true;
        }
        walk.rounds += 1;
        let names = self.files.list(ROOT, NAMES_MAX).unwrap_or_default();
        walk.levels.push(FolderLevel { folder: ROOT.to_owned(), names });
        false
    }

    /// Visits one folder. Returns the folders in it, to be visited next.
    fn visit(&self, folder: String, is_counting: bool) -> Option<FolderLevel> {
        // Skips a file, and a folder that is gone.
        let names = self.files.list(&folder, NAMES_MAX).ok()?;
        let (own, names): (Vec<String>, Vec<String>) =
            names.into_iter().partition(|name| name.starts_with('#'));
        if is_counting {
            self.totals.found(self.folder_bytes(&folder), 0);
            self.count(&folder, &own);
        } else if own.iter().any(|name| name == info::NAME) {
            self.collect(&folder);
        }
        Some(FolderLevel { folder, names })
    }

    /// Counts the object of a folder, and removes files that a killed process left there. No insert
    /// runs during a count.
    fn count(&self, folder: &str, own: &[String]) {
        let _alone = self.folder_lock(folder).write();
        let Ok(read) = self.read_info(folder) else { return };
        let mut body = None;
        if let MetadataLookup::Info(info) = &read {
            let path = super::body_path(folder, info.sequence);
            if self.files.length(&path).is_ok_and(|length| length == info.file_bytes) {
                body = Some(info.sequence);
                self.totals.found(self.in_blocks(info.bytes()) + self.in_blocks(info.file_bytes), 1);
            }
        }
        for name in own {
            let sequence = body_sequence(name);
            self.sequence.fetch_max(sequence.unwrap_or(0), Relaxed);
            let is_ours = sequence.is_some() || [LOCK, info::NAME, info::UNFINISHED].contains(&name.as_str());
            let is_wanted = body.is_some() && (sequence == body || name == info::NAME);
            if is_ours && !is_wanted {
                // A failed removal has been logged.
                let _ = self.unlink(&format!("{folder}/{name}"));
            }
        }
    }

    /// Evicts the object of a folder unless it had a hit.
    pub(super) fn collect(&self, folder: &str) {
        if self.begin_change().is_err() {
            return;
        }
        let is_whole = {
            let _alone = self.folder_lock(folder).write();
            // A failed removal has been logged.
            match MetadataFile::read(&*self.files, folder) {
                Ok(MetadataLookup::Info(info)) => {
                    let is_wanted = self.asked.take(ObjectKey::new(info.full_key.to_vec()).hash());
                    if is_wanted || self.take_away(folder, &info).is_err() {
                        return;
                    }
                    true
                }
                Ok(MetadataLookup::Damaged) => {
                    if self.take_away_damaged(folder, "metadata file").is_err() {
                        return;
                    }
                    false
                }
                _ => return,
            }
        };
        self.evictions.fetch_add(u64::from(is_whole), Relaxed);
        self.prune(folder);
    }

    fn is_short_of_space(&self) -> bool {
        self.is_above(BEGIN_BELOW)
    }

    fn has_enough_space(&self) -> bool {
        !self.is_above(STOP_BELOW)
    }

    /// Returns `true` if less than 1/`part` of the limits is free, or less than the largest
    /// declined charge.
    fn is_above(&self, part: u64) -> bool {
        let (now, limits, room) = (self.totals.now(), self.totals.limits(), self.totals.room());
        let free = room.saturating_sub(now.bytes);
        let objects_free = limits.objects.saturating_sub(now.objects);
        free < (room / part).max(self.wanted.load(Relaxed)) || objects_free < (limits.objects / part).max(1)
    }
}

/// 128 KiB: a million bits.
const ASKED_WORDS: usize = 1 << 14;
/// Folders visited in one step.
const FOLDERS_MAX: usize = 64;
/// Rounds that meet an object without hits twice.
const ROUNDS_MAX: u32 = 3;
/// The walk begins when less than 1/32 of the limits is free.
const BEGIN_BELOW: u64 = 32;
/// The walk stops when at least 1/16 of the limits is free.
const STOP_BELOW: u64 = 16;
