//! Pages that a node holds for others: the page-frame directory of Voelker 2000, section 3.3.
//!
//! A page belongs to the life of a process: when its owner starts again it has forgotten the page,
//! and all pages of the life before go. A message of an earlier life, such as a replayed one, is
//! refused. Each owner has its fair share of the memory. The page that was not used for longest
//! goes first: of an owner beyond its share, or else of all. Memory that the holder needs itself
//! takes pages in the same order. O(log pages) for a change, O(owners) to find the oldest.

use crate::NodeId;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

/// Pages held for other nodes.
#[derive(Debug)]
pub struct GuestPages<T> {
    owners: HashMap<NodeId, Owner<T>>,
    arrivals: u64,
    bytes: u64,
}

/// Pages of one owner.
#[derive(Debug)]
struct Owner<T> {
    life: u64,
    pages: HashMap<u128, Guest<T>>,
    /// Pages by the time of their last use, and their arrival.
    order: BTreeMap<(Duration, u64), u128>,
    bytes: u64,
    /// Pages given up that the owner has not been told of.
    gone: VecDeque<u128>,
}

/// One page.
#[derive(Debug)]
struct Guest<T> {
    value: T,
    bytes: u64,
    arrival: u64,
    /// Time of its last use at the owner.
    used: Duration,
}

/// Refusal of a page or of a question about one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuestRefusal {
    /// The message is of an earlier life of its sender.
    EarlierLife,
    /// There are too many owners.
    TooManyOwners,
}

impl<T> Default for GuestPages<T> {
    fn default() -> Self {
        Self { owners: HashMap::new(), arrivals: 0, bytes: 0 }
    }
}

impl<T> GuestPages<T> {
    /// Notes a life of an owner. Returns the pages of earlier lives, to be dropped.
    ///
    /// # Errors
    /// If the life is an earlier one, or there are too many owners.
    pub fn greet(&mut self, owner: NodeId, life: u64) -> Result<Vec<T>, GuestRefusal> {
        match self.owners.get(&owner) {
            Some(known) if known.life == life => return Ok(Vec::new()),
            Some(known) if known.life > life => return Err(GuestRefusal::EarlierLife),
            None if self.owners.len() >= OWNERS_MAX => return Err(GuestRefusal::TooManyOwners),
            _ => {}
        }
        let dropped = self.drop_owner(owner);
        let fresh = Owner::<T> {
            life,
            pages: HashMap::new(),
            order: BTreeMap::new(),
            bytes: 0,
            gone: VecDeque::new(),
        };
        self.owners.insert(owner, fresh);
        Ok(dropped)
    }

    /// Keeps a page, and replaces the same page of before. The owner was greeted.
    pub fn put(&mut self, owner: NodeId, page: u128, value: T, (bytes, used): (u64, Duration)) -> Option<T> {
        let known = self.owners.get_mut(&owner)?;
        if !known.gone.is_empty() {
            known.gone.retain(|gone| *gone != page);
        }
        self.arrivals += 1;
        known.order.insert((used, self.arrivals), page);
        let before = known.pages.insert(page, Guest { value, bytes, arrival: self.arrivals, used });
        known.bytes += bytes;
        self.bytes += bytes;
        if let Some(before) = &before {
            known.order.remove(&(before.used, before.arrival));
            debug_assert!(known.bytes >= before.bytes && self.bytes >= before.bytes);
            known.bytes -= before.bytes;
            self.bytes -= before.bytes;
        }
        debug_assert_eq!(known.order.len(), known.pages.len());
        before.map(|guest| guest.value)
    }

    /// Takes a page out, for its owner.
    pub fn take(&mut self, owner: NodeId, page: u128) -> Option<T> {
        let known = self.owners.get_mut(&owner)?;
        let guest = known.pages.remove(&page)?;
        known.order.remove(&(guest.used, guest.arrival));
        debug_assert!(known.bytes >= guest.bytes && self.bytes >= guest.bytes);
        known.bytes -= guest.bytes;
        self.bytes -= guest.bytes;
        Some(guest.value)
    }

    /// Takes out the page that makes room for one of `newcomer`, of all nodes if there is none.
    pub fn give_up(&mut self, newcomer: Option<NodeId>) -> Option<T> {
        let owners = self.owners.values().filter(|owner| owner.bytes > 0).count().max(1) as u64;
        let is_greedy = |owner: &NodeId| {
            self.owners.get(owner).is_some_and(|known| known.bytes > 0 && known.bytes >= self.bytes / owners)
        };
        let oldest = |known: &Owner<T>| known.order.first_key_value().map(|(used, page)| (*used, *page));
        let (owner, page) = match newcomer.filter(is_greedy) {
            Some(owner) => (owner, oldest(self.owners.get(&owner)?)?.1),
            None => {
                let all = self.owners.iter().filter_map(|(owner, known)| Some((oldest(known)?, *owner)));
                let ((_, page), owner) = all.min_by_key(|((used, _), _)| *used)?;
                (owner, page)
            }
        };
        let given = self.take(owner, page);
        debug_assert!(given.is_some(), "the order names pages that are there");
        if let Some(known) = self.owners.get_mut(&owner) {
            known.gone.push_back(page);
            // The owner finds the others out by asking.
            if known.gone.len() > GONE_MAX {
                known.gone.pop_front();
            }
        }
        given
    }

    /// Returns pages of an owner that were given up, at most `most`, and names them no more.
    pub fn take_gone(&mut self, owner: NodeId, most: usize) -> Vec<u128> {
        let Some(known) = self.owners.get_mut(&owner) else { return Vec::new() };
        known.gone.drain(..most.min(known.gone.len())).collect()
    }

    /// Returns the time since the last use of the oldest page; `None` if there is none.
    pub fn oldest_age(&self, now: Duration) -> Option<Duration> {
        let first = |known: &Owner<T>| known.order.first_key_value().map(|((used, _), _)| *used);
        self.owners.values().filter_map(first).min().map(|used| now.saturating_sub(used))
    }

    /// Returns the ages of the oldest pages, at most `most`, the oldest first. O(owners·most).
    pub fn oldest_ages(&self, now: Duration, most: usize) -> Vec<Duration> {
        let of_owner =
            |owner: &Owner<T>| owner.order.keys().take(most).map(|(used, _)| *used).collect::<Vec<_>>();
        let mut used: Vec<Duration> = self.owners.values().flat_map(of_owner).collect();
        used.sort_unstable();
        used.truncate(most);
        used.into_iter().map(|used| now.saturating_sub(used)).collect()
    }

    /// Forgets owners that are no members any more. Returns their pages, to be dropped.
    pub fn keep(&mut self, is_member: impl Fn(NodeId) -> bool) -> Vec<T> {
        let gone: Vec<NodeId> = self.owners.keys().copied().filter(|owner| !is_member(*owner)).collect();
        gone.into_iter().flat_map(|owner| self.drop_owner(owner)).collect()
    }

    /// Returns the number of pages and their bytes.
    pub fn usage(&self) -> (usize, u64) {
        (self.owners.values().map(|owner| owner.pages.len()).sum(), self.bytes)
    }

    /// Returns the numbers of all pages.
    pub fn pages(&self) -> impl Iterator<Item = u128> {
        self.owners.values().flat_map(|owner| owner.pages.keys().copied())
    }

    /// Returns the bytes held for a node.
    pub fn bytes_of(&self, owner: NodeId) -> u64 {
        self.owners.get(&owner).map_or(0, |known| known.bytes)
    }

    fn drop_owner(&mut self, owner: NodeId) -> Vec<T> {
        let Some(known) = self.owners.remove(&owner) else { return Vec::new() };
        debug_assert!(self.bytes >= known.bytes);
        self.bytes -= known.bytes;
        known.pages.into_values().map(|guest| guest.value).collect()
    }
}

/// Most pages of an owner that were given up and wait to be told.
const GONE_MAX: usize = 1024;

/// Most owners.
const OWNERS_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: NodeId = NodeId(1);
    const TWO: NodeId = NodeId(2);

    fn filled() -> GuestPages<u128> {
        let mut guests = GuestPages::default();
        for (owner, pages) in [(ONE, 0..9), (TWO, 20..22)] {
            assert_eq!(guests.greet(owner, 7), Ok(Vec::new()));
            for page in pages {
                let used = Duration::from_secs(page as u64);
                assert_eq!(guests.put(owner, page, page, (10, used)), None);
            }
        }
        guests
    }

    #[test]
    fn pages_are_taken_by_their_owner_once() {
        let mut guests = filled();
        assert_eq!(guests.take(TWO, 3), None, "it is another node's");
        assert_eq!((guests.take(ONE, 3), guests.take(ONE, 3)), (Some(3), None));
        assert_eq!((guests.usage(), guests.bytes_of(ONE)), ((10, 100), 80));
        assert_eq!(guests.put(NodeId(9), 1, 1, (10, Duration::ZERO)), None);
        assert_eq!(guests.usage(), (10, 100), "nobody has greeted");
    }

    #[test]
    fn greedy_owner_gives_up_its_own() {
        let mut guests = filled();
        assert_eq!(guests.give_up(Some(TWO)), Some(0), "the oldest of all");
        assert_eq!(guests.give_up(Some(ONE)), Some(1));
        assert_eq!(guests.take(TWO, 20), Some(20));
        assert_eq!((guests.take_gone(ONE, 1), guests.take_gone(TWO, 9)), (vec![0], Vec::new()));
        guests.put(ONE, 1, 1, (10, Duration::ZERO));
        assert_eq!((guests.take_gone(ONE, 9), guests.take(ONE, 1)), (Vec::new(), Some(1)));
        assert_eq!(guests.give_up(None), Some(2));
        let left: Vec<u128> = std::iter::from_fn(|| guests.give_up(Some(NodeId(5)))).collect();
        assert_eq!(left, [3, 4, 5, 6, 7, 8, 21]);
        assert_eq!((guests.usage(), guests.oldest_age(Duration::ZERO)), ((0, 0), None));
    }

    #[test]
    fn same_page_is_replaced() {
        let mut guests = filled();
        assert_eq!(guests.put(ONE, 3, 33, (20, Duration::from_secs(50))), Some(3));
        assert_eq!((guests.usage(), guests.bytes_of(ONE)), ((11, 120), 100));
        assert_eq!((guests.take(ONE, 3), guests.usage()), (Some(33), (10, 100)));
        let left: Vec<u128> = std::iter::from_fn(|| guests.give_up(None)).collect();
        assert_eq!(left, [0, 1, 2, 4, 5, 6, 7, 8, 20, 21], "the page has one place in the order");
    }

    #[test]
    fn new_life_drops_the_pages_of_the_old_one() {
        let mut guests = filled();
        assert_eq!(guests.greet(ONE, 6), Err(GuestRefusal::EarlierLife), "a replay");
        assert_eq!(guests.greet(ONE, 8).map(|pages| pages.len()), Ok(9));
        assert_eq!((guests.take(ONE, 1), guests.usage()), (None, (2, 20)));
        assert_eq!(guests.keep(|node| node == ONE).len(), 2);
        for owner in 10..10 + OWNERS_MAX as u64 - 1 {
            assert!(guests.greet(NodeId(owner), 1).is_ok());
        }
        assert_eq!(guests.greet(NodeId(5000), 1), Err(GuestRefusal::TooManyOwners));
    }

    #[test]
    fn age_is_that_of_the_oldest_page() {
        let mut guests = filled();
        assert_eq!(guests.oldest_age(Duration::from_secs(100)), Some(Duration::from_secs(100)));
        guests.give_up(None);
        assert_eq!(guests.oldest_age(Duration::from_secs(100)), Some(Duration::from_secs(99)));
        let ages: Vec<u64> =
            guests.oldest_ages(Duration::from_secs(100), 9).iter().map(Duration::as_secs).collect();
        assert_eq!(ages, [99, 98, 97, 96, 95, 94, 93, 92, 80], "pages of all owners in one order");
    }
}
