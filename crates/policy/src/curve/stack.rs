//! Stack distances in objects and in bytes, in memory proportional to the objects, not to the
//! requests.
//!
//! Mattson, Gecsei, Slutz, Traiger, *Evaluation techniques for storage hierarchies*, IBM Systems
//! Journal 1970: a request hits in an LRU cache exactly when its stack distance fits. The stack
//! distance is the objects requested since the last request for the same object, with that object
//! itself. Bennett and Kruskal (*LRU stack processing*, IBM J. Res. Dev. 1975) mark each object's
//! last use on a line of times and count marks by a tree. Here a Fenwick tree holds counts and
//! bytes side by side. When the line is full its marks are pushed together (Olken 1981), so that it
//! is never longer than twice the objects.
//!
//! O(log objects) a request; 12 bytes a place of the line, two places an object, and 8 bytes an
//! object.

/// The line of last uses.
pub struct Stack {
    /// Fenwick tree: node `n` (from 1) sums the places in `(n - lowbit(n), n]`.
    tree: Vec<SumNode>,
    /// Mark of each place, from 1.
    marks: Vec<Mark>,
    /// Place of each object, by the caller's number.
    places: Vec<u32>,
    next: u32,
    /// Marks on the line.
    live: u32,
    /// Bytes of all marks.
    live_bytes: u64,
}

#[derive(Clone, Copy, Default)]
#[repr(C, packed(4))]
struct SumNode {
    objects: u32,
    bytes: u64,
}

/// Number of an object, [`FREE`] for none, and its bytes.
#[derive(Clone, Copy)]
#[repr(C, packed(4))]
struct Mark {
    number: u32,
    bytes: u64,
}

/// Depth of an object in the stack, itself included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Distance {
    /// Distinct objects.
    pub objects: u64,
    /// Bytes of the distinct objects.
    pub bytes: u64,
}

impl Stack {
    /// Creates an empty stack.
    pub fn new() -> Self {
        let length = LEAST + 1;
        Self {
            tree: vec![SumNode::default(); length],
            marks: vec![Mark::FREE; length],
            places: Vec::new(),
            next: 1,
            live: 0,
            live_bytes: 0,
        }
    }

    /// Moves object `number` with this size to the top; numbers are small and dense. Returns its
    /// depth before, with its present size; `None` when it was not in the stack.
    pub fn touch(&mut self, number: u32, bytes: u64) -> Option<Distance> {
        if number as usize >= self.places.len() {
            self.places.resize(number as usize + 1, 0);
        }
        if self.next as usize == self.marks.len() {
            self.push_together();
        }
        let before = self.places[number as usize];
        let distance = (before > 0).then(|| {
            let Mark { number: marked, bytes: old } = self.marks[before as usize];
            debug_assert_eq!(marked, number, "the mark is of the object");
            // No mark lies behind the last place, so that the sum of all needs no walk.
            let all = (u64::from(self.live), self.live_bytes);
            let below = self.sum(before);
            debug_assert!(below.0 >= 1 && below.0 <= all.0, "the object itself is among those below");
            self.unmark(before, old);
            Distance {
                objects: all.0 - below.0 + 1,
                bytes: all.1.wrapping_sub(below.1).saturating_add(bytes),
            }
        });
        let place = self.next;
        self.next += 1;
        self.marks[place as usize] = Mark { number, bytes };
        self.places[number as usize] = place;
        self.live += 1;
        self.live_bytes = self.live_bytes.wrapping_add(bytes);
        self.add(place, 1, bytes as i64);
        distance
    }

    /// Takes an object off the stack.
    pub fn remove(&mut self, number: u32) {
        let Some(place) = self.places.get(number as usize).copied().filter(|place| *place > 0) else {
            return;
        };
        let bytes = self.marks[place as usize].bytes;
        self.unmark(place, bytes);
        self.places[number as usize] = 0;
    }

    /// Returns the number of objects on the stack.
    pub fn len(&self) -> usize {
        self.live as usize
    }

    /// Returns `true` if the stack is empty.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Returns the bytes of memory taken.
    pub fn memory_bytes(&self) -> usize {
        self.tree.capacity() * size_of::<SumNode>()
            + self.marks.capacity() * size_of::<Mark>()
            + self.places.capacity() * size_of::<u32>()
    }

    fn unmark(&mut self, place: u32, bytes: u64) {
        let number = self.marks[place as usize].number;
        debug_assert!(number != FREE && self.live > 0, "place {place} has a mark");
        self.marks[place as usize] = Mark::FREE;
        self.live -= 1;
        self.live_bytes = self.live_bytes.wrapping_sub(bytes);
        self.add(place, -1, -(bytes as i64));
    }

    fn add(&mut self, place: u32, objects: i32, bytes: i64) {
        let mut at = place as usize;
        while let Some(node) = self.tree.get_mut(at) {
            node.objects = node.objects.wrapping_add_signed(objects);
            node.bytes = node.bytes.wrapping_add_signed(bytes);
            at += at & at.wrapping_neg();
        }
    }

    fn sum(&self, place: u32) -> (u64, u64) {
        let (mut objects, mut bytes) = (0u64, 0u64);
        let mut at = place as usize;
        while at > 0 {
            let node = self.tree[at];
            objects += u64::from(node.objects);
            bytes = bytes.wrapping_add(node.bytes);
            at &= at - 1;
        }
        (objects, bytes)
    }

    /// Moves all marks, in their order, to the beginning of a line twice their number.
    #[cold]
    fn push_together(&mut self) {
        let mut kept = 0;
        for at in 1..self.marks.len() {
            let mark = self.marks[at];
            if mark.number != FREE {
                kept += 1;
                self.marks[kept] = mark;
                self.places[mark.number as usize] = kept as u32;
            }
        }
        debug_assert_eq!(kept, self.live as usize, "each object has a mark");
        let length = (kept * 2).max(LEAST) + 1;
        self.marks.truncate(kept + 1);
        self.marks.reserve_exact(length - self.marks.len());
        self.marks.resize(length, Mark::FREE);
        self.tree.clear();
        self.tree.reserve_exact(length);
        self.tree.resize(length, SumNode::default());
        for place in 1..=kept {
            self.tree[place] = SumNode { objects: 1, bytes: self.marks[place].bytes };
        }
        self.next = self.live + 1;
        // A Fenwick tree in one sweep: each node hands its sum to the next one that covers it.
        for at in 1..length {
            let (above, node) = (at + (at & at.wrapping_neg()), self.tree[at]);
            if let Some(parent) = self.tree.get_mut(above) {
                parent.objects += node.objects;
                parent.bytes = parent.bytes.wrapping_add(node.bytes);
            }
        }
    }
}

impl Mark {
    const FREE: Self = Self { number: FREE, bytes: 0 };
}

impl Default for Stack {
    fn default() -> Self {
        Self::new()
    }
}

/// Mark of a place without an object.
const FREE: u32 = u32::MAX;
/// Least number of places of the line.
const LEAST: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_a_list_moved_to_front() {
        let mut state = 1u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut stack = Stack::new();
        let mut list: Vec<(u32, u64)> = Vec::new();
        for _ in 0..20_000 {
            let number = draw(900).min(draw(900)) as u32;
            let bytes = 1 + draw(1000);
            let at = list.iter().position(|entry| entry.0 == number);
            if draw(20) == 0 {
                stack.remove(number);
                list.retain(|entry| entry.0 != number);
                continue;
            }
            let expected = at.map(|at| Distance {
                objects: at as u64 + 1,
                bytes: list[..at].iter().map(|entry| entry.1).sum::<u64>() + bytes,
            });
            assert_eq!(stack.touch(number, bytes), expected);
            list.retain(|entry| entry.0 != number);
            list.insert(0, (number, bytes));
            assert_eq!(stack.len(), list.len());
            assert_eq!(stack.live_bytes, list.iter().map(|entry| entry.1).sum::<u64>());
        }
        assert!(stack.memory_bytes() < 100_000, "{}", stack.memory_bytes());
    }
}
