//! Purges of cache groups, each confined to the origin that asked for it (RFC 9875, section 2.1).
//!
//! An origin chooses the names of its groups. It could try to hit others' objects, to fill the
//! table, or to wear the disk. A group is therefore identified by a keyed hash of its origin and
//! name, compared in all bits. A place in the table alone never purges anything.
//!
//! The table has [`PLACES`]. An origin that exceeds its share of places, or of purges per second,
//! purges all its groups at once instead, which takes one place. If all places are taken, the
//! origin with the most is reduced to one. If each origin has one place, a further origin is
//! ignored and counted, which RFC 9875 allows ("MAY invalidate"). In this case an operator's purge
//! purges all groups of all origins.
//!
//! Cost: a comparison for objects without groups; a hash lookup for each group of others.

use super::Sequence;
use parking_lot::RwLock;
use shoal_core::{Key, Timestamp};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Purged groups and the times of their purges.
pub(super) struct Groups {
    table: RwLock<GroupTable>,
    /// Number of the latest purge of any group.
    latest: AtomicU64,
    ignored: AtomicU64,
}

#[derive(Default)]
struct GroupTable {
    /// Places up to the last one that was ever taken.
    places: Vec<Option<Entry>>,
    found: HashMap<Key, u16>,
    origins: HashMap<Key, OriginShare>,
}

/// One purged group, or all groups of an origin; in this case both keys are the origin's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub group: Key,
    pub origin: Key,
    /// Number of the group's latest purge.
    pub time: u64,
}

/// An origin's share of the table.
#[derive(Default)]
struct OriginShare {
    places: usize,
    /// Marks in the second `second`.
    marks: usize,
    second: u64,
}

/// The groups of one origin to purge.
pub(super) struct Wish<'a> {
    pub origin: Key,
    pub groups: &'a [Key],
    /// An operator's request is never ignored.
    pub is_operators: bool,
}

/// Returns the key of an origin: scheme, host and port.
pub fn origin_key(origin: &str) -> Key {
    Key::of(&[b"origin\0", origin.as_bytes()].concat())
}

/// Returns the key of one of the origin's groups.
pub fn group_key(origin: &str, group: &str) -> Key {
    Key::of(&[b"group\0", origin.as_bytes(), b"\0", group.as_bytes()].concat())
}

impl Groups {
    /// Creates a table without purges.
    pub fn new() -> Self {
        Self { table: RwLock::default(), latest: AtomicU64::new(0), ignored: AtomicU64::new(0) }
    }

    /// Purges objects of these groups that were requested at the number `time` or before. Returns
    /// the changed places. `now` is the time by which an origin's share is counted.
    pub fn purge(&self, wish: &Wish<'_>, time: u64, now: Timestamp) -> Vec<u16> {
        let mut changed = Vec::new();
        let mut table = self.table.write();
        for group in table.within_share(wish, now.seconds()) {
            let entry = Entry { group, origin: wish.origin, time };
            if !table.put(entry, wish.is_operators, &mut changed) {
                self.ignored.fetch_add(1, SeqCst);
            }
        }
        drop(table);
        self.latest.fetch_max(time, SeqCst);
        changed
    }

    /// Returns `true` if an object in these groups, requested at `requested`, was purged since.
    pub fn purged(&self, groups: &[Key], requested: Sequence) -> bool {
        if groups.is_empty() || self.latest.load(SeqCst) < requested.number() {
            return false;
        }
        let table = self.table.read();
        let is_purged = |key: &Key| table.entry(key).is_some_and(|entry| entry.time >= requested.number());
        is_purged(&everything()) || groups.iter().any(is_purged)
    }

    /// Returns the bytes of a place: group, origin, number, check. An empty place has zeros and
    /// their check.
    pub fn encode(&self, place: u16, id: u64) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        assert!(usize::from(place) < PLACES);
        if let Some(Some(entry)) = self.table.read().places.get(usize::from(place)) {
            bytes[..16].copy_from_slice(&entry.group.to_bytes());
            bytes[16..32].copy_from_slice(&entry.origin.to_bytes());
            bytes[32..40].copy_from_slice(&entry.time.to_le_bytes());
        }
        let check = check(&bytes[..40], place, id);
        bytes[40..].copy_from_slice(&check.to_le_bytes());
        debug_assert!(decode(&bytes, place, id).is_ok(), "a place that would not be read");
        bytes
    }

    /// Adds the purges of a file. A damaged place may stand for any group. All groups then count as
    /// purged at the number `by`, which costs hits once. With `lifts`, purges of this process count
    /// at that number too. Returns the places to write to the file.
    pub fn take_up(&self, stored: &[Result<Option<Entry>, ()>], by: u64, lifts: bool) -> Vec<u16> {
        let (mut changed, mut found) = (Vec::new(), 0);
        let mut table = self.table.write();
        let known: Vec<Entry> = table.places.iter().flatten().copied().collect();
        *table = GroupTable::default();
        for (at, place) in stored.iter().enumerate() {
            let entry = match place {
                Ok(None) => continue,
                Ok(Some(entry)) => *entry,
                Err(()) => {
                    changed.extend(u16::try_from(at).ok().filter(|place| usize::from(*place) < PLACES));
                    Entry { group: everything(), origin: everything(), time: by }
                }
            };
            found = found.max(entry.time);
            let mut put = Vec::new();
            table.put(entry, true, &mut put);
            // The entry is already at this place in the file.
            put.retain(|place| usize::from(*place) != at);
            changed.extend(put);
        }
        for entry in known {
            let time = if lifts { by } else { entry.time };
            found = found.max(time);
            table.put(Entry { time, ..entry }, true, &mut changed);
        }
        drop(table);
        self.latest.fetch_max(found, SeqCst);
        changed
    }

    /// Returns the number of origins' purges that were ignored, since start.
    pub fn ignored(&self) -> u64 {
        self.ignored.load(SeqCst)
    }
}

impl GroupTable {
    fn entry(&self, key: &Key) -> Option<&Entry> {
        self.found.get(key).and_then(|place| self.places[usize::from(*place)].as_ref())
    }

    /// Returns the requested groups. If they exceed the origin's marks per second, returns the
    /// origin as a whole.
    fn within_share(&mut self, wish: &Wish<'_>, second: u64) -> Vec<Key> {
        let share = self.origins.entry(wish.origin).or_default();
        if share.second != second {
            (share.second, share.marks) = (second, 0);
        }
        share.marks += wish.groups.len();
        let is_within = wish.is_operators || share.marks <= MARKS_A_SECOND;
        if share.places == 0 && self.origins.len() > PLACES {
            self.origins.retain(|_, share| share.places > 0);
        }
        if is_within { wish.groups.to_vec() } else { vec![wish.origin] }
    }

    /// Puts an entry in its place. Returns `false` if there is none for it.
    fn put(&mut self, entry: Entry, is_operators: bool, changed: &mut Vec<u16>) -> bool {
        if let Some(place) = self.found.get(&entry.group).copied() {
            let known = self.places[usize::from(place)].as_mut().expect("a place that is found is taken");
            known.time = known.time.max(entry.time);
            changed.push(place);
            return true;
        }
        let is_whole = entry.group == entry.origin;
        let used = self.origins.get(&entry.origin).map_or(0, |share| share.places);
        if !is_whole && used >= PLACES_OF_ORIGIN {
            return self.put(Entry { group: entry.origin, ..entry }, is_operators, changed);
        }
        if is_whole {
            self.forget(entry.origin, changed);
        }
        let Some(place) = self.free_place(is_operators, changed) else { return false };
        let before = self.places[usize::from(place)].replace(entry);
        assert!(before.is_none(), "a place that was taken");
        let known = self.found.insert(entry.group, place);
        assert!(known.is_none(), "a group in two places");
        self.origins.entry(entry.origin).or_default().places += 1;
        changed.push(place);
        debug_assert!(self.found.len() <= PLACES);
        if cfg!(debug_assertions) && self.found.len().is_power_of_two() {
            self.invariants();
        }
        true
    }

    /// Checks that places, groups and shares agree.
    fn invariants(&self) {
        assert!(self.places.len() <= PLACES);
        assert_eq!(self.places.iter().flatten().count(), self.found.len());
        for (group, place) in &self.found {
            let entry = self.places[usize::from(*place)];
            assert!(entry.is_some_and(|entry| entry.group == *group), "a group of another place");
        }
        let of_origins: usize = self.origins.values().map(|share| share.places).sum();
        assert_eq!(of_origins, self.found.len(), "places of all origins");
    }

    /// Frees all places of an origin.
    fn forget(&mut self, origin: Key, changed: &mut Vec<u16>) {
        if self.origins.get(&origin).is_none_or(|share| share.places == 0) {
            return;
        }
        for (place, entry) in (0u16..).zip(&mut self.places) {
            if let Some(gone) = entry.take_if(|entry| entry.origin == origin) {
                self.found.remove(&gone.group);
                changed.push(place);
            }
        }
        if let Some(share) = self.origins.get_mut(&origin) {
            share.places = 0;
        }
    }

    /// Returns an empty place, freed if necessary.
    fn free_place(&mut self, is_operators: bool, changed: &mut Vec<u16>) -> Option<u16> {
        if self.found.len() == PLACES {
            let largest = self.origins.iter().max_by_key(|(_, share)| share.places)?;
            let (origin, places) = (*largest.0, largest.1.places);
            match (places > 1, is_operators) {
                (true, _) => self.fold(origin, changed),
                (false, true) => self.fold_all(changed),
                (false, false) => return None,
            }
        }
        let free = self.places.iter().position(Option::is_none).unwrap_or(self.places.len());
        if free == self.places.len() {
            assert!(free < PLACES, "a place is free, or was freed");
            self.places.push(None);
        }
        Some(u16::try_from(free).expect("a place has a number"))
    }

    /// Makes one place stand for all groups of an origin.
    fn fold(&mut self, origin: Key, changed: &mut Vec<u16>) {
        let own = self.places.iter().flatten().filter(|entry| entry.origin == origin);
        let time = own.map(|entry| entry.time).max().unwrap_or(0);
        self.put(Entry { group: origin, origin, time }, false, changed);
    }

    /// Makes one place stand for all groups of all origins.
    fn fold_all(&mut self, changed: &mut Vec<u16>) {
        let time = self.places.iter().flatten().map(|entry| entry.time).max().unwrap_or(0);
        changed.extend(0..PLACES as u16);
        *self = Self::default();
        self.put(Entry { group: everything(), origin: everything(), time }, true, changed);
    }
}

/// Returns the key for all groups of all origins. A name hashes to it with a chance of 2^-64.
fn everything() -> Key {
    Key::from_bytes([0xff; 16])
}

/// Reads a place of the table with this number, which is 0 in earlier versions.
pub(super) fn decode(bytes: &[u8], place: u16, id: u64) -> Result<Option<Entry>, ()> {
    let (fields, own_check) = bytes.split_at(ENTRY_BYTES - 8);
    let is_nothing = fields.iter().all(|byte| *byte == 0);
    // Earlier versions had no check in an empty place.
    if is_nothing && id == 0 && own_check == [0; 8] {
        return Ok(None);
    }
    if own_check != check(fields, place, id).to_le_bytes() {
        return Err(());
    }
    let key = |bytes: &[u8]| Key::from_bytes(bytes.try_into().expect("sixteen bytes"));
    let time = u64::from_le_bytes(fields[32..].try_into().expect("eight bytes"));
    Ok((!is_nothing).then(|| Entry { group: key(&fields[..16]), origin: key(&fields[16..32]), time }))
}

fn check(fields: &[u8], place: u16, id: u64) -> u64 {
    xxh3_64_with_seed(fields, u64::from(place) ^ id)
}

/// Maximum groups in the table.
pub(super) const PLACES: usize = 16_000;
/// Maximum groups in the table for one origin.
const PLACES_OF_ORIGIN: usize = 1024;
/// Maximum groups that an origin may purge one by one in a second.
const MARKS_A_SECOND: usize = 256;
/// Bytes of a place in the file.
pub(super) const ENTRY_BYTES: usize = 48;

const _: () = {
    // Places are numbered by 16 bits.
    assert!(PLACES <= u16::MAX as usize + 1);
    assert!(PLACES_OF_ORIGIN < PLACES && MARKS_A_SECOND <= PLACES_OF_ORIGIN);
    assert!(ENTRY_BYTES == 16 + 16 + 8 + 8);
};

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(0);

    fn at(number: u64) -> Sequence {
        Sequence::new(number)
    }

    /// Purges one group of an origin, at the origin's request.
    fn purge(groups: &Groups, origin: &str, group: &str, time: u64) -> Vec<u16> {
        let key = group_key(origin, group);
        let wish = Wish { origin: origin_key(origin), groups: &[key], is_operators: false };
        // Each purge has its own second, so that only places count.
        groups.purge(&wish, time, Timestamp::from_seconds(time))
    }

    fn is_purged(groups: &Groups, origin: &str, group: &str, requested: u64) -> bool {
        groups.purged(&[origin_key(origin), group_key(origin, group)], at(requested))
    }

    #[test]
    fn purge_reaches_one_group_of_one_origin() {
        let groups = Groups::new();
        purge(&groups, "http://a", "g", 10);
        assert!(is_purged(&groups, "http://a", "g", 10) && !is_purged(&groups, "http://a", "g", 11));
        assert!(!is_purged(&groups, "http://a", "h", 5) && !is_purged(&groups, "http://b", "g", 5));
        assert!(!groups.purged(&[], at(5)));
    }

    #[test]
    fn many_groups_of_one_origin_purge_that_origin_alone() {
        let groups = Groups::new();
        purge(&groups, "http://b", "g", 1);
        for number in 0..=PLACES_OF_ORIGIN {
            purge(&groups, "http://a", &number.to_string(), 10);
        }
        assert!(is_purged(&groups, "http://a", "never named", 10));
        assert!(is_purged(&groups, "http://b", "g", 1), "another origin's purge holds");
        assert!(!is_purged(&groups, "http://b", "h", 1) && !is_purged(&groups, "http://b", "g", 2));
        assert_eq!(groups.table.read().found.len(), 2);
    }

    #[test]
    fn purges_beyond_share_purge_whole_origin() {
        let groups = Groups::new();
        let keys: Vec<Key> = (0..=MARKS_A_SECOND).map(|n| group_key("http://a", &n.to_string())).collect();
        let wish = Wish { origin: origin_key("http://a"), groups: &keys, is_operators: false };
        assert_eq!(groups.purge(&wish, 10, NOW).len(), 1);
        assert!(is_purged(&groups, "http://a", "never named", 10));
        assert!(!is_purged(&groups, "http://b", "0", 0));
    }

    #[test]
    fn full_table_heeds_operators_and_no_further_origin() {
        let groups = Groups::new();
        for number in 0..PLACES {
            purge(&groups, &format!("http://{number}"), "g", 10);
        }
        assert!(purge(&groups, "http://a", "g", 11).is_empty() && groups.ignored() == 1);
        assert!(!is_purged(&groups, "http://a", "g", 5));
        assert!(is_purged(&groups, "http://0", "g", 10), "what was purged before holds");
        let key = group_key("http://a", "g");
        let wish = Wish { origin: origin_key("http://a"), groups: &[key], is_operators: true };
        groups.purge(&wish, 12, NOW);
        assert!(is_purged(&groups, "http://a", "g", 12) && is_purged(&groups, "http://0", "g", 10));
    }

    #[test]
    fn largest_origin_makes_room_for_others() {
        let groups = Groups::new();
        for number in 0..PLACES_OF_ORIGIN {
            purge(&groups, "http://large", &number.to_string(), 10);
        }
        for number in PLACES_OF_ORIGIN..=PLACES {
            purge(&groups, &format!("http://{number}"), "g", 11);
        }
        assert!(is_purged(&groups, "http://large", "0", 10));
        assert!(is_purged(&groups, &format!("http://{PLACES}"), "g", 11) && groups.ignored() == 0);
    }

    fn stored(groups: &Groups, id: u64) -> Vec<Result<Option<Entry>, ()>> {
        (0..PLACES as u16).map(|place| decode(&groups.encode(place, id), place, id)).collect()
    }

    #[test]
    fn file_reads_back_and_damage_purges_all_groups_once() {
        let groups = Groups::new();
        purge(&groups, "http://a", "g", 10);
        purge(&groups, "http://a", "h", 20);
        let again = Groups::new();
        again.take_up(&stored(&groups, 7), 50, false);
        assert!(is_purged(&again, "http://a", "g", 10) && !is_purged(&again, "http://a", "g", 11));
        assert!(is_purged(&again, "http://a", "h", 20) && !is_purged(&again, "http://b", "g", 1));
        for place in [0, 2] {
            let mut bytes = groups.encode(place, 7);
            for bit in 0..ENTRY_BYTES * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                let damaged = Groups::new();
                damaged.take_up(&[decode(&bytes, place, 7)], 50, false);
                assert!(
                    is_purged(&damaged, "http://b", "g", 50) && !is_purged(&damaged, "http://b", "g", 51)
                );
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            assert!(decode(&bytes, place, 8).is_err(), "another table's does not pass");
        }
        assert!(decode(&[0; ENTRY_BYTES], 3, 7).is_err() && decode(&[0; ENTRY_BYTES], 3, 0) == Ok(None));
    }

    #[test]
    fn later_file_gets_purges_made_meanwhile() {
        for (lifts, time) in [(false, 20), (true, 50)] {
            let (groups, earlier) = (Groups::new(), Groups::new());
            purge(&earlier, "http://a", "g", 10);
            purge(&groups, "http://b", "g", 20);
            let changed = groups.take_up(&stored(&earlier, 7), 50, lifts);
            assert!(changed.contains(&1), "{changed:?}");
            assert!(is_purged(&groups, "http://a", "g", 10) && is_purged(&groups, "http://b", "g", time));
            assert!(!is_purged(&groups, "http://b", "g", time + 1));
        }
    }
}
