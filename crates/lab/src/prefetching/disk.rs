//! One disk: it reads pages one at a time, quickly where one follows the last on it.

/// Times of a page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiskTimes {
    /// A page anywhere, in seconds.
    pub random_seconds: f64,
    /// The page after the last one read, in seconds: the drive and the system have read ahead.
    pub sequential_seconds: f64,
}

impl DiskTimes {
    /// A Barracuda of 7200 revolutions a minute: 13 ms for a random page of 8 KB; 8.3 MB/s one
    /// after the other, with readahead (sections 4.4.1, 4.4.3).
    pub const TESTBED: Self = Self { random_seconds: 13e-3, sequential_seconds: 8192.0 / 8.3e6 };

    /// A disk without readahead: each page takes the time of a random one.
    pub const SCATTERED: Self = Self { sequential_seconds: 13e-3, ..Self::TESTBED };
}

/// A disk with its position.
#[derive(Clone, Debug)]
pub(super) struct Disk {
    times: DiskTimes,
    /// Program and number of the last page read.
    last: Option<(u32, u32)>,
}

impl Disk {
    pub fn new(times: DiskTimes) -> Self {
        Self { times, last: None }
    }

    /// Reads a page of a program's file. Returns the time it takes, in seconds.
    pub fn read(&mut self, program: u32, page: u32) -> f64 {
        let follows = self.last.is_some_and(|last| last == (program, page.wrapping_sub(1)));
        self.last = Some((program, page));
        if follows { self.times.sequential_seconds } else { self.times.random_seconds }
    }
}
