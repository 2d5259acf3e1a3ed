//! Unsafe code of the crate: takes descriptors that a service manager has passed by number.

#![allow(unsafe_code)]

use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_getfd};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

/// Returns a descriptor of its own for one that was passed by number. The one passed stays open,
/// and closes when this process executes another program.
pub(crate) fn take_descriptor(number: RawFd) -> io::Result<OwnedFd> {
    if number < 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the number is not -1. The borrow lasts for the two calls below only. Both ask the
    // kernel about the number, which answers EBADF if no descriptor is open there. No code of this
    // process closes descriptors that it has not opened, so none is reused in between.
    let passed = unsafe { BorrowedFd::borrow_raw(number) };
    let flags = fcntl_getfd(passed)?;
    if !flags.contains(FdFlags::CLOEXEC) {
        rustix::io::fcntl_setfd(passed, flags | FdFlags::CLOEXEC)?;
    }
    Ok(fcntl_dupfd_cloexec(passed, LEAST)?)
}

/// Least number of a descriptor that is not one of the three standard ones.
const LEAST: RawFd = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn open_numbers_are_taken_and_others_refused() {
        let file = tempfile::tempfile().expect("a file");
        let taken = take_descriptor(file.as_raw_fd()).expect("open");
        assert_ne!(taken.as_raw_fd(), file.as_raw_fd());
        assert!(take_descriptor(-1).is_err());
        assert!(take_descriptor(1 << 20).is_err(), "nothing is open there");
    }
}
