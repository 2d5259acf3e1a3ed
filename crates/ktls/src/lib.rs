//! TLS by the kernel (kTLS, Linux 4.13 and later): after a handshake in the process, a TCP socket
//! is given the session's keys, and from then on takes and gives plain bytes.
//!
//! ```text
//!   rustls: handshake ──► secrets, sequence numbers ──► begin, hand_over ──► Seal
//!                                                          │                  │ heed: a record that is not data
//!                              TCP_ULP "tls", TLS_TX, TLS_RX                  │ close: close_notify
//! ```
//!
//! The kernel frames, encrypts and decrypts records, and nothing else. What is no application data
//! is the process's: `recv` fails with `EIO` while such a record is next, which is then read with
//! its type ([`Seal::heed`]). Sockets are the caller's; this crate makes the calls that no safe
//! wrapper has, and says what a record means.
//!
//! Source of the interface: `Documentation/networking/tls.rst` of Linux, `linux/tls.h`.

#![deny(unsafe_code)]

mod keys;
mod offer;
mod record;
mod seal;
mod sys;

pub use offer::{Offer, begin, hand_over};
pub use seal::Seal;
