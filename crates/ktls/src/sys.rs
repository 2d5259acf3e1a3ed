//! The three system calls that no safe wrapper has: socket options of TLS, and messages with a
//! record's type beside them.
#![allow(unsafe_code)]

use libc::{c_int, c_void, cmsghdr, iovec, msghdr, socklen_t};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Sets an option of a socket to these bytes.
pub fn set_option(socket: BorrowedFd<'_>, level: c_int, name: c_int, value: &[u8]) -> io::Result<()> {
    // SAFETY: the kernel reads `value.len()` bytes of `value`, which is borrowed for the call, and
    // the descriptor is open as long as it is borrowed.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, value.as_ptr().cast(), value.len() as socklen_t)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sends `bytes` as one record of this type.
pub fn send_record(socket: BorrowedFd<'_>, record_type: u8, bytes: &[u8]) -> io::Result<usize> {
    let mut control = Control([0; CONTROL_BYTES]);
    let mut parts = iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let message = message(&mut parts, &mut control);
    // SAFETY: `message` points to `parts` and `control`, which live until the end of this function;
    // `control` is aligned as a header of a control message and has room for one with a byte of
    // data, so that its first header exists and lies in it.
    let sent = unsafe {
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_TLS;
        (*header).cmsg_type = libc::TLS_SET_RECORD_TYPE;
        (*header).cmsg_len = libc::CMSG_LEN(1) as _;
        *libc::CMSG_DATA(header) = record_type;
        // The kernel only reads what the parts point to.
        libc::sendmsg(socket.as_raw_fd(), &message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
    };
    if sent >= 0 { Ok(sent as usize) } else { Err(io::Error::last_os_error()) }
}

/// Receives what is left of the next record, or of those of one type that are there, as far as
/// there is room; and says of what type it is.
pub fn receive_record(socket: BorrowedFd<'_>, room: &mut [u8]) -> io::Result<(Option<u8>, usize)> {
    let mut control = Control([0; CONTROL_BYTES]);
    let mut parts = iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
    let mut message = message(&mut parts, &mut control);
    // SAFETY: as above; the kernel writes no more than `room.len()` bytes to `room`, which is
    // borrowed mutably, and no more than `CONTROL_BYTES` to `control`. A header that is found lies
    // in `control` with its data, since the kernel has written it there.
    unsafe {
        let received = libc::recvmsg(socket.as_raw_fd(), &mut message, libc::MSG_DONTWAIT);
        if received < 0 {
            return Err(io::Error::last_os_error());
        }
        let header: *const cmsghdr = libc::CMSG_FIRSTHDR(&message);
        let is_type = !header.is_null()
            && (*header).cmsg_level == libc::SOL_TLS
            && (*header).cmsg_type == libc::TLS_GET_RECORD_TYPE
            && (*header).cmsg_len as usize > libc::CMSG_LEN(0) as usize;
        let record_type = is_type.then(|| *libc::CMSG_DATA(header));
        Ok((record_type, received as usize))
    }
}

fn message(parts: &mut iovec, control: &mut Control) -> msghdr {
    // SAFETY: a message header is integers and pointers, for which zeros are valid.
    let mut message: msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = parts;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast::<c_void>();
    message.msg_controllen = CONTROL_BYTES as _;
    message
}

/// Room for one control message with a byte of data.
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

// SAFETY: a function of its argument.
const CONTROL_BYTES: usize = unsafe { libc::CMSG_SPACE(1) } as usize;

const _: () = assert!(align_of::<Control>() >= align_of::<cmsghdr>());
