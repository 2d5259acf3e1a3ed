//! One memory: objects in the order of their last use, found by number. O(1) for everything.

/// A memory of so many frames.
#[derive(Clone, Debug)]
pub struct Memory {
    capacity: usize,
    /// Frames in use; frame 0 is the head of the ring, with the newest after it.
    frames: Vec<Frame>,
    free: Vec<u32>,
    /// The frame of each object, 0 for none.
    frame_of: Vec<u32>,
}

/// What stands in a frame.
#[derive(Clone, Copy, Debug, Default)]
struct Frame {
    object: u32,
    last_used: u32,
    newer: u32,
    older: u32,
    /// What a system wants to remember of this copy.
    mark: u8,
    /// Whether the copy was changed and is newer than what stands on disk.
    is_changed: bool,
}

impl Memory {
    /// An empty memory of so many frames, for objects numbered below `objects`.
    pub fn new(capacity: usize, objects: usize) -> Self {
        Self { capacity, frames: vec![Frame::default()], free: Vec::new(), frame_of: vec![0; objects] }
    }

    /// How many objects it may hold.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// How many it holds.
    pub fn len(&self) -> usize {
        self.frames.len() - 1 - self.free.len()
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether one more would be too many.
    pub fn is_full(&self) -> bool {
        self.len() >= self.capacity
    }

    /// Whether it holds an object.
    pub fn has(&self, object: u32) -> bool {
        self.frame_of[object as usize] != 0
    }

    /// Whether it holds an object; then it has been used now, and its mark is cleared.
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

    /// Puts an object that it does not hold at the new end, whenever it was last used.
    pub fn insert(&mut self, object: u32, last_used: u32) {
        let new = Frame { object, last_used, ..Frame::default() };
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

    /// Puts an object that it does not hold at the new end, and gives up the oldest when there is
    /// no room. A memory without frames gives up the object itself.
    pub fn take_in(&mut self, object: u32, now: u32) -> Option<u32> {
        if self.capacity == 0 {
            return Some(object);
        }
        let gone = if self.is_full() { self.oldest() } else { None };
        if let Some(gone) = gone {
            self.remove(gone);
        }
        self.insert(object, now);
        gone
    }

    /// Takes an object out; false when it does not hold it.
    pub fn remove(&mut self, object: u32) -> bool {
        let frame = std::mem::take(&mut self.frame_of[object as usize]);
        if frame == 0 {
            return false;
        }
        self.unlink(frame);
        self.free.push(frame);
        true
    }

    /// The object used longest ago.
    pub fn oldest(&self) -> Option<u32> {
        let oldest = self.frames[0].newer;
        (oldest != 0).then(|| self.frames[oldest as usize].object)
    }

    /// Objects with the time of their last use, from the oldest.
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

    /// One step of a walk from the oldest, for those who walk several memories at once: the frame
    /// after this one (0 to begin), its object and the time of its last use. `None` at the end.
    pub(super) fn step_from_oldest(&self, frame: u32) -> Option<(u32, u32, u32)> {
        let next = self.frames[frame as usize].newer;
        let Frame { object, last_used, .. } = self.frames[next as usize];
        (next != 0).then_some((next, object, last_used))
    }

    /// What was remembered of an object's copy; 0 when nothing was.
    pub fn mark(&self, object: u32) -> u8 {
        self.frames[self.frame_of[object as usize] as usize].mark
    }

    /// Remembers something of an object's copy, if it is there.
    pub fn set_mark(&mut self, object: u32, mark: u8) {
        let frame = self.frame_of[object as usize];
        if frame != 0 {
            self.frames[frame as usize].mark = mark;
        }
    }

    /// Whether an object's copy was changed since it was put here.
    pub fn is_changed(&self, object: u32) -> bool {
        self.frames[self.frame_of[object as usize] as usize].is_changed
    }

    /// An object's copy, if it is there, is changed.
    pub fn change(&mut self, object: u32) {
        let frame = self.frame_of[object as usize];
        if frame != 0 {
            self.frames[frame as usize].is_changed = true;
        }
    }

    /// The number of the frame that an object stands in, below the capacity.
    pub fn frame(&self, object: u32) -> Option<usize> {
        (self.frame_of[object as usize] as usize).checked_sub(1)
    }

    /// When an object was last used; 0 when it is not there.
    pub fn last_used(&self, object: u32) -> u32 {
        self.frames[self.frame_of[object as usize] as usize].last_used
    }

    fn link(&mut self, frame: u32) {
        let newest = self.frames[0].older;
        self.frames[frame as usize].older = newest;
        self.frames[frame as usize].newer = 0;
        self.frames[newest as usize].newer = frame;
        self.frames[0].older = frame;
    }

    fn unlink(&mut self, frame: u32) {
        let Frame { newer, older, .. } = self.frames[frame as usize];
        self.frames[older as usize].newer = newer;
        self.frames[newer as usize].older = older;
    }
}
