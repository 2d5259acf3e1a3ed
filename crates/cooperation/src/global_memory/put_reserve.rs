//! Memory for pages on their way to other nodes: as much as is needed, within bounds.
//!
//! A fixed share would be lost to all objects. An eighth of the RAM costs about two points of hit
//! ratio where popularity falls as the reciprocal of the rank. So the reserve follows the need. It
//! doubles when pages are dropped for want of it, and shrinks to twice the peak of late. Bursts
//! come seconds apart, so that the peak is forgotten slowly. A node that puts nothing has none. A
//! thread that may wait changes the reserve, not an eviction. O(1).

/// Size of the reserve, in bytes of pages.
#[derive(Clone, Copy, Debug)]
pub struct PutReserve {
    size: u64,
    first: u64,
    most: u64,
    /// Most bytes in use of late, decayed.
    peak: u64,
    /// `true` if a page was dropped since the last change.
    is_short: bool,
}

impl PutReserve {
    /// Makes the reserve of a node with this memory: none before the first page.
    pub fn of(memory_bytes: u64) -> Self {
        let most = (memory_bytes / MOST_PART).min(MOST_BYTES);
        let first = (memory_bytes / FIRST_PART).clamp(FIRST_BYTES_MIN, FIRST_BYTES_MAX).min(most);
        Self { size: 0, first, most, peak: 0, is_short: false }
    }

    /// Returns the bytes of pages that may be on their way.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Notes the bytes in use after a page has come.
    pub fn used(&mut self, bytes: u64) {
        self.peak = self.peak.max(bytes);
    }

    /// Notes a page that was dropped for want of memory.
    pub fn dropped(&mut self) {
        self.is_short = self.size < self.most;
    }

    /// Returns the size for the time until the next call. [`Self::set`] puts it into force. The
    /// peak decays by a part if `is_over`: a second has passed.
    pub fn adapt(&mut self, is_over: bool) -> u64 {
        let wanted = match self.is_short {
            true => (2 * self.size).max(self.first),
            false if is_over => 2 * self.peak,
            false => self.size,
        };
        if is_over {
            self.peak = self.peak * DECAY / (DECAY + 1);
        }
        self.is_short = false;
        wanted.min(self.most)
    }

    /// Returns the most bytes of pages that leave together: those of a full message, or fewer if
    /// they would take much of the memory. A longer page leaves alone.
    pub fn round(&self, message_bytes: u64) -> u64 {
        message_bytes.min(self.most / TOGETHER_PART)
    }

    /// Returns the bytes of waiting pages with which a round begins. To wait for more would need a
    /// larger reserve.
    pub fn together(&self, message_bytes: u64) -> u64 {
        self.round(message_bytes).min(self.size / 2)
    }

    /// Puts a size into force.
    pub fn set(&mut self, size: u64) {
        debug_assert!(size <= self.most);
        self.size = size;
    }
}

/// Part of the memory for pages on their way at most, and their most bytes.
const MOST_PART: u64 = 16;
const MOST_BYTES: u64 = 16 << 20;

/// Part of the memory after the first page that found no room, and its bounds.
const FIRST_PART: u64 = 256;
const FIRST_BYTES_MIN: u64 = 64 << 10;
const FIRST_BYTES_MAX: u64 = 1 << 20;

/// Part of the most bytes that leave together at most.
const TOGETHER_PART: u64 = 8;

/// The peak is halved in about 22 seconds.
const DECAY: u64 = 31;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserve_follows_the_need() {
        let mut reserve = PutReserve::of(64 << 20);
        assert_eq!((reserve.size(), reserve.adapt(true)), (0, 0), "nothing was put yet");
        for _ in 0..20 {
            reserve.dropped();
            let size = reserve.adapt(false);
            reserve.set(size);
            reserve.used(reserve.size());
        }
        assert_eq!((reserve.size(), reserve.adapt(false)), (4 << 20, 4 << 20), "an end of growth");
        reserve.used(1 << 20);
        let sizes: Vec<u64> = (0..600).map(|_| reserve.adapt(true)).collect();
        assert!(sizes.is_sorted_by(|before, after| before >= after) && sizes[3] > 1 << 20, "{sizes:?}");
        assert_eq!(sizes.last(), Some(&0), "memory comes back");
    }

    #[test]
    fn pages_leave_together_within_the_reserve() {
        let together = |ram: u64, size: u64| {
            let mut reserve = PutReserve::of(ram);
            reserve.set(size);
            reserve.together(256 << 10)
        };
        assert_eq!(together(64 << 20, 4 << 20), 256 << 10, "a message is full");
        assert_eq!(together(64 << 20, 100 << 10), 50 << 10, "half of the reserve");
        assert_eq!(together(8 << 20, 512 << 10), 64 << 10, "a small memory");
        assert_eq!(together(8 << 20, 0), 0, "nothing waits for more");
        let round = |ram: u64| PutReserve::of(ram).round(256 << 10);
        assert_eq!((round(64 << 20), round(8 << 20)), (256 << 10, 64 << 10));
    }
}
