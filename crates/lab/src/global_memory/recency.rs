//! Numbered things in the order of their last use, each in at most one list. Every operation is
//! O(1); 8 bytes a thing.

/// Lists of things numbered from 0. A list is a ring through a head of its own, with the newest
/// after the head.
#[derive(Clone)]
pub(super) struct Recency {
    /// The next older and the next newer thing of each thing, then of each list's head.
    older: Vec<u32>,
    newer: Vec<u32>,
    things: u32,
    lengths: Vec<usize>,
}

impl Recency {
    /// Creates `lists` empty lists for `things` things.
    pub fn new(things: usize, lists: usize) -> Self {
        let ring: Vec<u32> = (0..(things + lists) as u32).collect();
        Self { older: ring.clone(), newer: ring, things: things as u32, lengths: vec![0; lists] }
    }

    /// Returns the number of things in a list.
    pub fn len(&self, list: usize) -> usize {
        self.lengths[list]
    }

    /// Puts a thing that is in no list at the new end of one.
    pub fn push(&mut self, list: usize, thing: u32) {
        let head = self.things + list as u32;
        let second = self.older[head as usize];
        self.join(head, thing);
        self.join(thing, second);
        self.lengths[list] += 1;
    }

    /// Takes a thing out of its list.
    pub fn remove(&mut self, list: usize, thing: u32) {
        self.join(self.newer[thing as usize], self.older[thing as usize]);
        self.older[thing as usize] = thing;
        self.newer[thing as usize] = thing;
        self.lengths[list] -= 1;
    }

    /// Returns the oldest thing of a list.
    pub fn oldest(&self, list: usize) -> Option<u32> {
        let oldest = self.newer[self.things as usize + list];
        (oldest < self.things).then_some(oldest)
    }

    fn join(&mut self, newer: u32, older: u32) {
        self.older[newer as usize] = older;
        self.newer[older as usize] = newer;
    }
}
