//! Real clients through Shoal in forward mode, each twice: the origin's counters show what the
//! cache saved. gRPC goes in reverse mode.
//!
//! Origins are made on this machine; each client has its own home, caches and settings, so that
//! nothing of the user's is read or written. A client that is not installed is skipped, and says
//! so; with `CI` set it fails. The table comes with `cargo test -p shoal-testkit --test clients --
//! --nocapture`; `SHOAL_WRITE_DOCS=1` writes it to `docs/experiments/clients.md` too.

mod apt;
mod build_caches;
mod cargo;
mod curl;
mod git;
mod go;
mod grpc;
mod intercepted;
mod mirrored_npm;
mod mirrors;
mod npm;
mod pip;
mod post_quantum;
mod rounds;
mod workshop;
