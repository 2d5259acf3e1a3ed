//! What parsers and recovery must withstand: any bytes at all.
//!
//! Each target is a function of bytes that panics when a promise is broken, which is more than not crashing:
//! how bytes were cut into reads must not change what they mean, what is taken must stand up to a second look,
//! what is written must read back. `cargo xtask fuzz` drives them with libFuzzer; `tests/replay.rs` runs them over
//! the committed seeds and small changes of these on any toolchain.
//!
//! To add a target: a function here, a row in [`TARGETS`], a file in `fuzz_targets/` with its `[[bin]]`, and a
//! seed or more in `seeds/`.

#![forbid(unsafe_code)]

pub mod semantics;
pub mod settings;
pub mod wire;

/// One fuzz target.
pub struct Target {
    /// Its name: that of its file in `fuzz_targets/` and of its folder in `seeds/`.
    pub name: &'static str,
    /// Panics when a promise is broken.
    pub run: fn(&[u8]),
}

/// Every target.
pub const TARGETS: &[Target] = &[
    Target { name: "request_head", run: wire::request_head },
    Target { name: "chunked", run: wire::chunked },
    Target { name: "proxy_protocol", run: wire::proxy_protocol },
    Target { name: "settings", run: settings::file },
    Target { name: "dates", run: semantics::dates },
    Target { name: "cache_control", run: semantics::cache_control },
    Target { name: "range", run: semantics::range },
    Target { name: "vary", run: semantics::vary },
    Target { name: "storing", run: semantics::storing },
];
