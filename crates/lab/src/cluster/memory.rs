//! One memory: objects in the order of their last use, found by number. Every operation is O(1).

/// A memory with a fixed number of frames.
#[derive(Clone, Debug)]
pub struct NodeMemory {
    capacity: usize,
    /// Frames in use; frame 0 is the head of the ring, with the newest after it.
    frames: Vec<MemoryFrame>,
    free: Vec<u32>,
    /// The frame of each object, 0 for none.
    frame_of: Vec<u32>,
}

/// Contents of a frame.
#[derive(Clone, Copy, Debug, Default)]
struct MemoryFrame {
    object: u32,
    last_used: u32,
    newer: u32,
    older: u32,
    /// Note that a system keeps about this copy.
    mark: u8,
    /// `true` if the copy was changed and is newer than the disk's.
    is_changed: bool,
}

impl NodeMemory {
    /// Creates an empty memory of `capacity` frames, for objects numbered below `objects`.
    pub fn new(capacity: usize, objects: usize) -> Self {
        Self { capacity, frames: vec![MemoryFrame::default()], free: Vec::new(), frame_of: vec![0; objects] }
    }

    /// Returns the number of objects that the memory may hold.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the number of objects that the memory holds.
    pub fn len(&self) -> usize {
        self.frames.len() - 1 - self.free.len()
    }

    /// Returns `true` if the memory holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns `true` if the memory has no room for one more object.
    pub fn is_full(&self) -> bool {
        self.len() >= self.capacity
    }

    /// Returns `true` if the memory holds an object.
    pub fn has(&self, object: u32) -> bool {
        self.frame_of[object as usize] != 0
    }

    /// Marks an object as used now and clears its mark. Returns `false` if the memory does not hold
    /// it.
    pub fn touch(&mut self, object: u32, now: u32) -> bool {
        let frame = self.frame_of[object as usize];
        if frame == 0 {
            return false;
        }
        self.frames[frame as usize].last_used = now;
        self.frames[frame as usize].mark = 0;
        self.unlink(frame);
        self.link(frame);
        true
    }

    /// Puts an absent object at the new end, with any time of last use.
    pub fn insert(&mut self, object: u32, last_used: u32) {
        debug_assert!(!self.has(object), "object {object} is here already");
        let new = MemoryFrame { object, last_used, ..MemoryFrame::default() };
        let frame = match self.free.pop() {
            Some(frame) => {
                self.frames[frame as usize] = new;
                frame
            }
            None => {
                self.frames.push(new);
                (self.frames.len() - 1) as u32
            }
        };
        self.frame_of[object as usize] = frame;
        self.link(frame);
    }

    /// Puts an absent object at the new end, and evicts the oldest when there is no room. A memory
    /// without frames evicts the object itself.
    pub fn take_in(&mut self, object: u32, now: u32) -> Option<u32> {
        debug_assert!(!self.has(object), "object {object} is here already");
        if self.capacity == 0 {
            return Some(object);
        }
        let gone = if self.is_full() { self.oldest() } else { None };
        if let Some(gone) = gone {
            self.remove(gone);
        }
        self.insert(object, now);
        debug_assert!(self.len() <= self.capacity, "{} of {} frames", self.len(), self.capacity);
        gone
    }

    /// Takes an object out. Returns `false` when the memory does not hold it.
    pub fn remove(&mut self, object: u32) -> bool {
        let frame = std::mem::take(&mut self.frame_of[object as usize]);
        if frame == 0 {
            return false;
        }
        self.unlink(frame);
        self.free.push(frame);
        true
    }

    /// Returns the object used longest ago.
    pub fn oldest(&self) -> Option<u32> {
        let oldest = self.frames[0].newer;
        (oldest != 0).then(|| self.frames[oldest as usize].object)
    }

    /// Returns objects with the time of their last use, from the oldest.
    pub fn from_oldest(&self) -> impl Iterator<Item = (u32, u32)> {
        let mut at = self.frames[0].newer;
        std::iter::from_fn(move || {
            let frame = self.frames[at as usize];
            (at != 0).then(|| {
                at = frame.newer;
                (frame.object, frame.last_used)
            })
        })
    }

    /// Returns the `most` oldest objects in runs of `length`: the time of last use of each run's
    /// first object, and the number of its objects. Fewer are in the last run.
    pub fn runs_from_oldest(&self, most: usize, length: usize) -> impl Iterator<Item = (u32, usize)> {
        let mut at = self.frames[0].newer as usize;
        let mut left = most.min(self.len());
        std::iter::from_fn(move || {
            let objects = left.min(length);
            let last_used = self.frames[at].last_used;
            left -= objects;
            for _ in 0..objects {
                at = self.frames[at].newer as usize;
            }
            (objects > 0).then_some((last_used, objects))
        })
    }

    /// Returns the mark of an object's copy; 0 when it has none.
    pub fn mark(&self, object: u32) -> u8 {
        self.frames[self.frame_of[object as usize] as usize].mark
    }

    /// Sets the mark of an object's copy, if it is there.
    pub fn set_mark(&mut self, object: u32, mark: u8) {
        let frame = self.frame_of[object as usize];
        if frame != 0 {
            self.frames[frame as usize].mark = mark;
        }
    }

    /// Returns `true` if an object's copy was changed since it was put here.
    pub fn is_changed(&self, object: u32) -> bool {
        self.frames[self.frame_of[object as usize] as usize].is_changed
    }

    /// Marks an object's copy as changed, if it is there.
    pub fn change(&mut self, object: u32) {
        let frame = self.frame_of[object as usize];
        if frame != 0 {
            self.frames[frame as usize].is_changed = true;
        }
    }

    /// Returns the number of an object's frame, below the capacity.
    pub fn frame(&self, object: u32) -> Option<usize> {
        (self.frame_of[object as usize] as usize).checked_sub(1)
    }

    /// Returns the time of an object's last use; 0 when it is not there.
    pub fn last_used(&self, object: u32) -> u32 {
        self.frames[self.frame_of[object as usize] as usize].last_used
    }

    /// Checks that the ring is closed in both directions and has each object once, in the frame
    /// that the object names. O(objects).
    pub(super) fn invariants(&self) {
        let (mut at, mut frames) = (0, 0);
        loop {
            let next = self.frames[at as usize].newer;
            assert_eq!(self.frames[next as usize].older, at, "the ring is broken behind frame {at}");
            at = next;
            if at == 0 {
                break;
            }
            frames += 1;
            assert!(frames <= self.len(), "the ring has more frames than are in use");
            assert_eq!(self.frame_of[self.frames[at as usize].object as usize], at, "the object's frame");
        }
        assert_eq!(frames, self.len(), "frames in the ring and in use");
        assert_eq!(frames, self.frame_of.iter().filter(|frame| **frame != 0).count(), "objects held");
    }

    fn link(&mut self, frame: u32) {
        let newest = self.frames[0].older;
        self.frames[frame as usize].older = newest;
        self.frames[frame as usize].newer = 0;
        self.frames[newest as usize].newer = frame;
        self.frames[0].older = frame;
    }

    fn unlink(&mut self, frame: u32) {
        let MemoryFrame { newer, older, .. } = self.frames[frame as usize];
        self.frames[older as usize].newer = newer;
        self.frames[newer as usize].older = older;
    }
}
