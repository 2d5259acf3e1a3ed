//! Costs of memory, network and disk, and the frontiers at which another node's memory pays.
//!
//! Two questions decide if a page should be kept in another node's memory:
//!
//! - **Time.** A page of b bytes comes over the network in T + b/B and from disk in D + b/R. Memory
//!   of another node is faster up to the size at which both are equal:
//!   [`Hardware::frontier_bytes`].
//! - **Money.** Bought RAM costs its price. A read that it saves costs the drive's price over its
//!   reads a second. Both are equal for a page that is read once in the break-even interval. This
//!   is the five-minute rule of Gray and Putzolu, SIGMOD 1987, by the formula of Gray and Graefe,
//!   SIGMOD Record 1997. Idle RAM of other nodes is paid for already.
//!
//! All functions are O(1).

/// Costs of one time's hardware.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hardware {
    /// Name of the hardware.
    pub name: &'static str,
    /// D: time of a random read's first byte, in seconds.
    pub disk_seconds: f64,
    /// R: bytes a second of the drive.
    pub disk_bytes_per_second: f64,
    /// Small random reads a second that the drive does at most, many at once.
    pub disk_reads_per_second: f64,
    /// Price of a drive.
    pub disk_dollars: f64,
    /// T: time of an exchange with another node's memory without the bytes, processors included, in
    /// seconds.
    pub network_seconds: f64,
    /// B: bytes a second of a link.
    pub network_bytes_per_second: f64,
    /// Time for which a request keeps the memory server, without the bytes, in seconds.
    pub server_seconds: f64,
    /// Price of a gigabyte of RAM.
    pub ram_dollars_per_gb: f64,
    /// Computing a second, beside the dissertation's machines.
    pub computing: f64,
}

impl Hardware {
    /// The dissertation's testbed (sections 3.3.2, 4.4.1): 13 ms a random page, 370 µs a page from
    /// another node. Prices are those of Gray and Graefe 1997.
    pub const DISSERTATION: Self = Self {
        name: "the dissertation's",
        disk_seconds: 13e-3 - 8192.0 / 8.3e6,
        disk_bytes_per_second: 8.3e6,
        disk_reads_per_second: 64.0,
        disk_dollars: 2000.0,
        network_seconds: 183e-6,
        network_bytes_per_second: 8192.0 / 187e-6,
        server_seconds: 7e-6,
        ram_dollars_per_gb: 15_360.0,
        computing: 1.0,
    };

    /// NVMe with 80 µs a read and 25 Gbit/s through the kernel: assumptions, not measurements. A
    /// core computes thirty times as much.
    pub const TODAY: Self = Self {
        name: "NVMe, 25 Gbit/s",
        disk_seconds: 80e-6,
        disk_bytes_per_second: 3.5e9,
        disk_reads_per_second: 800e3,
        disk_dollars: 400.0,
        network_seconds: 30e-6,
        network_bytes_per_second: 25e9 / 8.0,
        server_seconds: 5e-6,
        ram_dollars_per_gb: 5.0,
        computing: 30.0,
    };

    /// Returns the same with another link, in gigabits a second.
    pub fn with_link(self, name: &'static str, gigabits: f64) -> Self {
        Self { name, network_bytes_per_second: gigabits * 1e9 / 8.0, ..self }
    }

    /// Returns the time of a page from another node's memory, in seconds, while nobody waits.
    pub fn remote_seconds(&self, bytes: f64) -> f64 {
        self.network_seconds + bytes / self.network_bytes_per_second
    }

    /// Returns the time of a page from another node with a link that is busy for this share of the
    /// time. Transfers have one length and come at random (M/D/1).
    pub fn busy_remote_seconds(&self, bytes: f64, busy: f64) -> f64 {
        assert!((0.0..1.0).contains(&busy), "a link is busy for {busy} of the time");
        let transfer = bytes / self.network_bytes_per_second;
        self.network_seconds + transfer * (1.0 + busy / (2.0 * (1.0 - busy)))
    }

    /// Returns the time of a page from disk, in seconds.
    pub fn disk_seconds(&self, bytes: f64) -> f64 {
        self.disk_seconds + bytes / self.disk_bytes_per_second
    }

    /// Returns the size up to which another node's memory is faster than the disk. Links are busy
    /// for this share. Infinite if always, 0 if never.
    pub fn frontier_bytes(&self, busy: f64) -> f64 {
        let ahead = self.disk_seconds - self.network_seconds;
        let a_byte = |bytes: f64| self.busy_remote_seconds(bytes, busy) - self.network_seconds;
        let dearer = a_byte(1.0) - 1.0 / self.disk_bytes_per_second;
        match (ahead > 0.0, dearer > 0.0) {
            (true, true) => ahead / dearer,
            (true, false) => f64::INFINITY,
            (false, _) => 0.0,
        }
    }

    /// Returns the break-even interval of a page in seconds: RAM bought for it then costs as much
    /// as the drive's time for its reads.
    pub fn break_even_seconds(&self, bytes: f64) -> f64 {
        let reads = self.disk_reads_per_second.min(self.disk_bytes_per_second / bytes);
        let pages_per_gb = 1_073_741_824.0 / bytes;
        pages_per_gb / reads * self.disk_dollars / self.ram_dollars_per_gb
    }

    /// Returns F_G / F_D for a page.
    pub fn ratio(&self, bytes: f64) -> f64 {
        self.remote_seconds(bytes) / self.disk_seconds(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_minute_rule_of_1997_comes_out() {
        // Gray and Graefe 1997: 128 pages a megabyte, 64 accesses a second, 2,000 and 15 dollars.
        let interval = Hardware::DISSERTATION.break_even_seconds(8192.0);
        assert!((interval - 266.0).abs() < 1.0, "{interval}");
        let today = Hardware::TODAY.break_even_seconds(4096.0);
        assert!((10.0..60.0).contains(&today), "half a minute: {today}");
    }

    #[test]
    fn frontier_is_where_both_take_the_same() {
        for (hardware, busy) in [(Hardware::TODAY, 0.0), (Hardware::TODAY, 0.8)] {
            let at = hardware.frontier_bytes(busy);
            let (remote, disk) = (hardware.busy_remote_seconds(at, busy), hardware.disk_seconds(at));
            assert!((remote / disk - 1.0).abs() < 1e-9, "{remote} {disk}");
            assert!(hardware.busy_remote_seconds(at / 2.0, busy) < hardware.disk_seconds(at / 2.0));
        }
        let testbed = Hardware::DISSERTATION;
        assert_eq!(testbed.frontier_bytes(0.0), f64::INFINITY, "the network was faster in all");
        assert!((testbed.remote_seconds(8192.0) - 370e-6).abs() < 1e-9);
        assert_eq!(Hardware { network_seconds: 1.0, ..testbed }.frontier_bytes(0.0), 0.0);
        let slower = Hardware::TODAY.with_link("10 Gbit/s", 10.0);
        assert!(slower.frontier_bytes(0.0) < Hardware::TODAY.frontier_bytes(0.0));
    }
}
