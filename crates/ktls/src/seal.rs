//! A connection whose records the kernel makes: what the process keeps of it.

use crate::keys::Version;
use crate::record::{self, ALERT, APPLICATION_DATA, Meaning};
use crate::sys;
use std::io;
use std::os::fd::BorrowedFd;

/// What there is to know of a connection that was handed over, beside its socket.
#[derive(Debug)]
pub struct Seal {
    version: Version,
    /// Records that may still be sent.
    left: u64,
    /// As many are left when no more requests should be taken.
    reserve: u64,
    /// Records read that meant nothing.
    ignored: u8,
    reading: Reading,
    /// An alert was sent, after which nothing may be.
    is_ended: bool,
}

/// What may still be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    Open,
    Closed,
    Failed,
}

impl Seal {
    /// A connection that may send `records_max` records with its keys.
    pub(crate) fn new(version: Version, records_max: u64) -> Self {
        let reading = Reading::Open;
        Self { version, left: records_max, reserve: records_max / 2, ignored: 0, reading, is_ended: false }
    }

    /// Takes note of bytes that were sent. An upper bound is counted, and no kernel before 6.14
    /// takes other keys.
    pub fn sent(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes as u64 / RECORD_BYTES_MAX + 1);
    }

    /// Whether the connection should end when it next can: half of what the keys may encrypt is
    /// used up.
    pub fn is_worn(&self) -> bool {
        self.left < self.reserve
    }

    /// Whether anything may be sent.
    ///
    /// # Errors
    /// When the keys may encrypt no more (RFC 8446 section 5.5), or an alert was sent.
    pub fn check(&self) -> io::Result<()> {
        if self.left == 0 || self.is_ended {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(())
    }

    /// What an end of the TCP connection means: that of the TLS connection has come before, or it
    /// was cut.
    ///
    /// # Errors
    /// `UnexpectedEof` when it was cut.
    pub fn end(&self) -> io::Result<usize> {
        match self.reading {
            Reading::Closed => Ok(0),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// What is to be done after reading failed with `error`: to read again, or `Some` number of
    /// bytes was read, which is 0 at the end.
    ///
    /// # Errors
    /// When the connection failed; the peer was told so.
    pub fn heed(&mut self, socket: BorrowedFd<'_>, error: io::Error) -> io::Result<Option<usize>> {
        match (self.reading, error.raw_os_error()) {
            (Reading::Closed, _) => return Ok(Some(0)),
            (Reading::Failed, _) => return Err(error),
            (Reading::Open, Some(libc::EIO)) => {}
            (Reading::Open, code) => {
                match code {
                    Some(libc::EBADMSG) => self.fail(socket, record::BAD_RECORD_MAC),
                    Some(libc::EMSGSIZE) => self.fail(socket, record::RECORD_OVERFLOW),
                    _ => {}
                }
                return Err(error);
            }
        }
        let mut bytes = [0; CONTROL_RECORD_BYTES];
        let (record_type, count) = sys::receive_record(socket, &mut bytes)?;
        let meaning = match record_type {
            // The kernel knows better than what it said before: nothing was lost but our certainty.
            None | Some(APPLICATION_DATA) => return Err(io::ErrorKind::InvalidData.into()),
            Some(record_type) => record::meaning(self.version, record_type, &bytes[..count]),
        };
        match meaning {
            Meaning::Nothing if self.ignored < IGNORED_MAX => {
                self.ignored += 1;
                Ok(None)
            }
            Meaning::Closed => {
                self.reading = Reading::Closed;
                Ok(Some(0))
            }
            Meaning::GivenUp => {
                (self.reading, self.is_ended) = (Reading::Failed, true);
                Err(io::ErrorKind::ConnectionAborted.into())
            }
            Meaning::NewKeys | Meaning::Nothing => {
                self.reading = Reading::Failed;
                Err(io::ErrorKind::Unsupported.into())
            }
            Meaning::Refused(alert) => {
                self.fail(socket, alert);
                Err(io::ErrorKind::InvalidData.into())
            }
        }
    }

    /// Says that nothing more is sent: "Each party MUST send a close_notify alert before closing
    /// its write side of the connection, unless it has already sent some error alert" (RFC 8446
    /// section 6.1).
    ///
    /// # Errors
    /// Those of the socket: `WouldBlock` when there is no room yet.
    pub fn close(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        if !self.is_ended {
            sys::send_record(socket, ALERT, &record::alert(record::CLOSE_NOTIFY))?;
            self.is_ended = true;
        }
        Ok(())
    }

    fn fail(&mut self, socket: BorrowedFd<'_>, alert: u8) {
        (self.reading, self.is_ended) = (Reading::Failed, true);
        // The kernel sends nothing while it has an error that nobody took.
        let _ = rustix::net::sockopt::socket_error(socket);
        // A peer that takes nothing learns of it by the end of the connection.
        let _ = sys::send_record(socket, ALERT, &record::alert(alert));
    }
}

/// Bytes of a record at most (RFC 8446 section 5.1).
const RECORD_BYTES_MAX: u64 = 1 << 14;

/// As much of a record that is not data as tells what it is.
const CONTROL_RECORD_BYTES: usize = 64;

/// Records that mean nothing: more than so many keep us busy.
const IGNORED_MAX: u8 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_wear_out_by_the_records_that_they_encrypt() {
        let mut seal = Seal::new(Version::Tls13, 10);
        for (bytes, is_worn, may_send) in [
            (0, false, true),
            (1, false, true),
            (16_383, false, true),
            (16_384, false, true),
            (1, true, true),
            (65_536, true, false),
        ] {
            seal.sent(bytes);
            assert_eq!((seal.is_worn(), seal.check().is_ok()), (is_worn, may_send), "{bytes}");
        }
    }
}
