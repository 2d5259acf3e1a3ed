//! Writes and reads that end by a deadline. A socket's own timeout bounds one system call only: a
//! peer that moves one byte each time holds `write_all` and `read_exact` without an end.

use std::io::{self, ErrorKind, Read, Write};
use std::time::Instant;

/// Writes all `bytes`. A call that waits ends by the socket's own timeout; no call begins after
/// `until`.
///
/// # Errors
/// `TimedOut` past the deadline, `WriteZero` if nothing more is taken, and errors of the socket.
pub(crate) fn write_until(to: &mut impl Write, mut bytes: &[u8], until: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        match within(until).and_then(|()| to.write(bytes)) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Fills `bytes`, with the deadline of [`write_until`].
///
/// # Errors
/// `TimedOut` past the deadline, `UnexpectedEof` at an early end, and errors of the socket.
pub(super) fn read_until(from: &mut impl Read, mut bytes: &mut [u8], until: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        match within(until).and_then(|()| from.read(bytes)) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => bytes = &mut bytes[read..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Checks that `until` has not come.
fn within(until: Instant) -> io::Result<()> {
    if Instant::now() < until { Ok(()) } else { Err(ErrorKind::TimedOut.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::sleep;
    use std::time::Duration;

    /// Peer that moves one byte a call, after a pause.
    struct Dripping(Duration);

    impl Write for Dripping {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            sleep(self.0);
            Ok(bytes.len().min(1))
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Read for Dripping {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            sleep(self.0);
            bytes[0] = b'x';
            Ok(1)
        }
    }

    #[test]
    fn dripping_peer_ends_at_the_deadline() {
        let soon = || Instant::now() + Duration::from_millis(20);
        let slow = &mut Dripping(Duration::from_millis(2));
        let mut bytes = [0; 10_000];
        let written = write_until(slow, &bytes, soon()).expect_err("20 s of drops");
        let read = read_until(slow, &mut bytes, soon()).expect_err("20 s of drops");
        assert_eq!([written.kind(), read.kind()], [ErrorKind::TimedOut; 2]);
    }

    #[test]
    fn all_bytes_move_before_the_deadline() {
        let later = Instant::now() + Duration::from_secs(60);
        let (quick, mut bytes) = (&mut Dripping(Duration::ZERO), [0; 100]);
        write_until(quick, &bytes, later).expect("in time");
        read_until(quick, &mut bytes, later).expect("in time");
        assert_eq!(bytes, [b'x'; 100]);
        let full = write_until(&mut &mut [0; 10][..], &bytes, later).expect_err("ten bytes of room");
        let short = read_until(&mut &bytes[..10], &mut [0; 11], later).expect_err("ten bytes");
        assert_eq!([full.kind(), short.kind()], [ErrorKind::WriteZero, ErrorKind::UnexpectedEof]);
    }
}
