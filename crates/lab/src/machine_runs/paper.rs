//! Numbers of the paper that the runs need: Maltzahn, Richardson, Grunwald, *Reducing the Disk I/O
//! of Web Proxy Server Caches*, USENIX ATC 1999.

/// The system page, and the largest object of a memory-mapped file, in bytes (2.4.2).
pub const PAGE_BYTES: u64 = 8192;

/// "522,376 requests of the first weekday and 495,664 requests of the second weekday" (4).
pub const REQUESTS: (u64, u64) = (522_376, 495_664);

/// FBC's bounds C_max and A_max (4).
pub const FBC: (u32, u32) = (3, 100);
