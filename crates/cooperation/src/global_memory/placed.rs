//! Directory of the pages that this node has put into other nodes' memory.
//!
//! GMS keeps three directories (Feeley et al., SOSP 1995). The page-frame directory lists the pages
//! that a node holds. The page-ownership directory names the node of a page's entry, and the
//! global-cache directory has the page's holder. Here the node that puts a page is the only one
//! that asks for it: its home, or the node with the copy on its disk. Ownership is therefore the
//! identity, and each node has the global-cache entries of its own pages, this table. It costs no
//! message and has no false hit but for pages that their holder gave up. The page-frame directory
//! is [`GuestPages`](super::GuestPages).
//!
//! **A page is never older than its object.** Each entry of RAM begins with a turn. A removal, such
//! as a purge, and a newer object end all turns before it. A page that leaves RAM is on its way
//! until a node has taken it, and is recorded only if its turn has not ended. A removal is recorded
//! by slot of the key; keys of one slot end together, which costs a put and nothing else. All steps
//! are O(1).

use crate::NodeId;
use shoal_core::Key;
use std::collections::{HashMap, VecDeque};

/// Directory of placed pages.
#[derive(Debug)]
pub struct PlacedPages {
    places: HashMap<Key, Place>,
    /// Turns of objects that have left RAM, and are not placed yet.
    on_their_way: HashMap<Key, u64>,
    /// Keys in the order of their puts, with their turns; some are gone already.
    order: VecDeque<(Key, u64)>,
    /// Latest turn that has ended, by slot.
    ended: Box<[u64]>,
    turns: u64,
    bytes: u64,
    most: usize,
}

/// Place of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Node that holds the page.
    pub node: NodeId,
    /// Turn of the object in RAM that became the page.
    pub turn: u64,
    /// Keyed hash of the page's bytes.
    pub sum: u64,
    /// Length of the page.
    pub bytes: u32,
}

impl PlacedPages {
    /// Creates an empty directory of at most `most` pages.
    pub fn new(most: usize) -> Self {
        let ended = vec![0; SLOTS].into_boxed_slice();
        Self {
            places: HashMap::new(),
            on_their_way: HashMap::new(),
            order: VecDeque::new(),
            ended,
            turns: 0,
            bytes: 0,
            most,
        }
    }

    /// Begins the turn of an object that comes into RAM. Forgets the page of an older one, and
    /// returns its place.
    pub fn begin(&mut self, key: Key) -> (u64, Option<Place>) {
        self.on_their_way.remove(&key);
        self.turns += 1;
        (self.turns, self.take(key))
    }

    /// Ends all turns of a key, since its object is removed or replaced. Returns the place of its
    /// page.
    pub fn end(&mut self, key: Key) -> Option<Place> {
        self.on_their_way.remove(&key);
        self.turns += 1;
        self.ended[slot(key)] = self.turns;
        self.take(key)
    }

    /// Notes that the object of this turn has left RAM. Returns `false` if its turn has ended, or
    /// too many are on their way.
    pub fn leaves(&mut self, key: Key, turn: u64) -> bool {
        let is_later = |known: Option<u64>| known.is_none_or(|known| known < turn);
        let is_current = turn > self.ended[slot(key)]
            && is_later(self.places.get(&key).map(|place| place.turn))
            && is_later(self.on_their_way.get(&key).copied())
            && self.on_their_way.len() < self.most;
        if is_current {
            debug_assert!(turn <= self.turns, "a turn that has begun");
            self.on_their_way.insert(key, turn);
        }
        is_current
    }

    /// Returns `true` if the object of this turn is on its way.
    pub fn is_on_its_way(&self, key: Key, turn: u64) -> bool {
        self.on_their_way.get(&key) == Some(&turn)
    }

    /// Notes that no node takes the object of this turn.
    pub fn stays_away(&mut self, key: Key, turn: u64) {
        if self.is_on_its_way(key, turn) {
            self.on_their_way.remove(&key);
        }
    }

    /// Records a page that a node has taken. Returns `false` if its turn has ended: the page must
    /// never be asked for. Forgets the oldest page if there are too many.
    pub fn placed(&mut self, key: Key, place: Place) -> bool {
        if !self.is_on_its_way(key, place.turn) {
            return false;
        }
        self.on_their_way.remove(&key);
        self.take(key);
        self.bytes += u64::from(place.bytes);
        self.places.insert(key, place);
        self.order.push_back((key, place.turn));
        while self.places.len() > self.most {
            self.forget_oldest();
        }
        if self.order.len() > 2 * self.places.len() + ORDER_SLACK {
            let places = &self.places;
            self.order.retain(|(key, turn)| places.get(key).is_some_and(|place| place.turn == *turn));
        }
        debug_assert!(self.places.len() <= self.most && self.order.len() >= self.places.len());
        true
    }

    /// Returns the place of a page.
    pub fn find(&self, key: Key) -> Option<Place> {
        self.places.get(&key).copied()
    }

    /// Takes the page out of the directory, to ask for it or to forget it.
    pub fn take(&mut self, key: Key) -> Option<Place> {
        let place = self.places.remove(&key)?;
        debug_assert!(self.bytes >= u64::from(place.bytes));
        self.bytes -= u64::from(place.bytes);
        Some(place)
    }

    /// Forgets a page that a node says it has given up, unless another node holds it.
    pub fn gone(&mut self, key: Key, node: NodeId) -> bool {
        self.find(key).is_some_and(|place| place.node == node) && self.take(key).is_some()
    }

    /// Forgets the pages of nodes that are gone. Returns their number.
    pub fn keep(&mut self, is_member: impl Fn(NodeId) -> bool) -> usize {
        let before = self.places.len();
        self.places.retain(|_, place| is_member(place.node));
        self.bytes = self.places.values().map(|place| u64::from(place.bytes)).sum();
        before - self.places.len()
    }

    /// Returns the number of pages and their bytes.
    pub fn usage(&self) -> (usize, u64) {
        (self.places.len(), self.bytes)
    }

    /// Returns the number of pages at a node and their bytes. O(pages).
    pub fn usage_at(&self, node: NodeId) -> (usize, u64) {
        let there = self.places.values().filter(|place| place.node == node);
        there.fold((0, 0), |(count, bytes), place| (count + 1, bytes + u64::from(place.bytes)))
    }

    fn forget_oldest(&mut self) {
        while let Some((key, turn)) = self.order.pop_front() {
            if self.places.get(&key).is_some_and(|place| place.turn == turn) {
                self.take(key);
                return;
            }
        }
    }
}

fn slot(key: Key) -> usize {
    key.low() as usize % SLOTS
}

/// Slots of ended turns.
const SLOTS: usize = 1 << 16;

/// Keys in the order beyond twice the pages before gone ones are dropped.
const ORDER_SLACK: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(number: u64) -> Key {
        Key::unkeyed(&number.to_le_bytes())
    }

    fn place(turn: u64, node: u64) -> Place {
        Place { node: NodeId(node), turn, sum: turn, bytes: 10 }
    }

    #[test]
    fn removal_ends_pages_on_their_way() {
        let mut placed = PlacedPages::new(10);
        let (turn, _) = placed.begin(key(1));
        assert!(placed.leaves(key(1), turn));
        assert_eq!(placed.end(key(1)), None, "it is on its way");
        assert!(!placed.placed(key(1), place(turn, 5)), "it was purged meanwhile");
        assert!(!placed.leaves(key(1), turn), "as one that was late");
        let (turn, _) = placed.begin(key(1));
        assert!(placed.leaves(key(1), turn) && placed.placed(key(1), place(turn, 5)));
        assert_eq!(placed.end(key(1)), Some(place(turn, 5)));
        assert_eq!(placed.find(key(1)), None);
    }

    #[test]
    fn newer_object_replaces_the_page_of_an_older_one() {
        let mut placed = PlacedPages::new(10);
        let (older, _) = placed.begin(key(1));
        assert!(placed.leaves(key(1), older));
        let (newer, _) = placed.begin(key(1));
        assert!(!placed.placed(key(1), place(older, 6)), "a newer one has come");
        assert!(placed.leaves(key(1), newer) && !placed.leaves(key(1), older));
        placed.stays_away(key(1), older);
        assert!(placed.placed(key(1), place(newer, 5)));
        assert!(!placed.leaves(key(1), older), "the older one was late");
        assert_eq!(placed.take(key(1)), Some(place(newer, 5)));
        assert_eq!((placed.take(key(1)), placed.usage()), (None, (0, 0)));
    }

    #[test]
    fn directory_is_bounded_and_forgets_nodes() {
        let mut placed = PlacedPages::new(100);
        for number in 0..5000 {
            let (turn, _) = placed.begin(key(number));
            assert!(placed.leaves(key(number), turn));
            assert!(placed.placed(key(number), place(turn, number % 2)));
            if number % 3 == 0 {
                placed.take(key(number));
            }
            assert!(placed.order.len() <= 2 * 100 + ORDER_SLACK + 1);
        }
        assert!(placed.usage().0 <= 100 && placed.find(key(4999)).is_some());
        let (there, bytes) = placed.usage_at(NodeId(1));
        assert_eq!(placed.keep(|node| node == NodeId(1)), 100 - there);
        assert_eq!(placed.usage(), (there, bytes));
        let some = (0..5000).map(key).find(|key| placed.find(*key).is_some()).expect("one is left");
        assert!(
            !placed.gone(some, NodeId(0)) && placed.gone(some, NodeId(1)) && !placed.gone(some, NodeId(1))
        );
    }

    proptest! {
        /// Against the obvious: a page is found only if it is that of the latest version.
        #[test]
        fn found_pages_are_of_the_latest_version(
            steps in proptest::collection::vec((0..4u64, 0..6u8), 0..200),
        ) {
            let mut placed = PlacedPages::new(3);
            // Versions in RAM, and versions on their way to a node.
            let (mut in_ram, mut leaving) = (HashMap::new(), Vec::new());
            let mut latest: HashMap<u64, u64> = HashMap::new();
            for (number, step) in steps {
                match step {
                    0 => {
                        let (turn, _) = placed.begin(key(number));
                        in_ram.insert(number, turn);
                        latest.insert(number, turn);
                    }
                    1 => {
                        in_ram.remove(&number);
                        placed.end(key(number));
                        latest.remove(&number);
                    }
                    2 => drop(placed.take(key(number))),
                    3 => if let Some(turn) = in_ram.remove(&number) {
                        placed.leaves(key(number), turn);
                        leaving.push((number, turn));
                    },
                    4 => if let Some((number, turn)) = leaving.pop() {
                        let is_kept = placed.placed(key(number), place(turn, 1));
                        prop_assert!(!is_kept || latest.get(&number) == Some(&turn));
                    },
                    _ => if let Some(found) = placed.find(key(number)) {
                        prop_assert_eq!(latest.get(&number), Some(&found.turn));
                        prop_assert!(!in_ram.contains_key(&number), "RAM has it, and no page is known");
                    },
                }
                prop_assert!(placed.usage().0 <= 3 && placed.on_their_way.len() <= 3);
            }
        }
    }
}
