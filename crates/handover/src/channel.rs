//! Channel between the two processes: a pair of Unix sockets that keeps the borders of messages and
//! carries descriptors (`SCM_RIGHTS`).
//!
//! No path leads to the pair. The new process gets its end as standard input, and takes it only if
//! a process of the same user made it.

use crate::message::Message;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair, sockopt,
};
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// End of a channel.
#[derive(Debug)]
pub struct Channel(OwnedFd);

/// Failure of a channel.
#[derive(Debug)]
pub enum ChannelFault {
    /// The other process has ended, or has closed its end.
    Ended,
    /// The other process has said nothing in time.
    Silent,
    /// The other process has sent bytes that are no message.
    Malformed(&'static str),
    /// The system has refused a call.
    System(io::Error),
}

impl Channel {
    /// Makes the two ends of a channel.
    ///
    /// # Errors
    /// If the system gives no sockets.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Self(one), Self(other)))
    }

    /// Takes an end that this process has got from the process before, if it is one.
    ///
    /// # Errors
    /// If the descriptor is no such end, or a process of another user made it.
    pub fn from_inherited(descriptor: BorrowedFd<'_>) -> Result<Self, ChannelFault> {
        let kind = sockopt::socket_type(descriptor).map_err(|_| ChannelFault::Malformed(NO_SOCKET))?;
        let domain = sockopt::socket_domain(descriptor)?;
        if kind != SocketType::SEQPACKET || domain != AddressFamily::UNIX {
            return Err(ChannelFault::Malformed(NO_SOCKET));
        }
        let maker = sockopt::socket_peercred(descriptor)?;
        if maker.uid != rustix::process::geteuid() {
            return Err(ChannelFault::Malformed("a process of another user made the channel"));
        }
        Ok(Self(descriptor.try_clone_to_owned()?))
    }

    /// Returns the descriptor, for the standard input of a new process.
    pub fn into_descriptor(self) -> OwnedFd {
        self.0
    }

    /// Returns another handle of this end.
    ///
    /// # Errors
    /// If descriptors have run out.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Sends a message without descriptors.
    ///
    /// # Errors
    /// If the other process has ended, or takes nothing in time.
    pub fn send(&self, message: &Message) -> Result<(), ChannelFault> {
        self.send_with(message, &[])
    }

    /// Sends a message with descriptors, at most [`DESCRIPTORS_MAX`].
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn send_with(&self, message: &Message, descriptors: &[BorrowedFd<'_>]) -> Result<(), ChannelFault> {
        let bytes = serde_json::to_vec(message).map_err(|_| ChannelFault::Malformed("an own message"))?;
        assert!(descriptors.len() <= DESCRIPTORS_MAX, "too many descriptors for a message");
        if bytes.len() > MESSAGE_BYTES_MAX {
            return Err(ChannelFault::Malformed("an own message is too long"));
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            let is_pushed = ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
            debug_assert!(is_pushed, "there is space for all");
        }
        sockopt::set_socket_timeout(&self.0, sockopt::Timeout::Send, Some(SEND_TIMEOUT))?;
        let sent = sendmsg(&self.0, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
        debug_assert_eq!(sent, bytes.len(), "a message goes whole or not at all");
        Ok(())
    }

    /// Receives a message that carries no descriptors. Waits for at most `limit`.
    ///
    /// # Errors
    /// If the other process has ended, is silent, or sends anything else.
    pub fn receive(&self, limit: Duration) -> Result<Message, ChannelFault> {
        match self.receive_with(limit)? {
            (message, descriptors) if descriptors.is_empty() => Ok(message),
            _ => Err(ChannelFault::Malformed("descriptors with a message that has none")),
        }
    }

    /// Receives a message and its descriptors. Waits for at most `limit`.
    ///
    /// # Errors
    /// As [`Self::receive`].
    pub fn receive_with(&self, limit: Duration) -> Result<(Message, Vec<OwnedFd>), ChannelFault> {
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            sockopt::set_socket_timeout(&self.0, sockopt::Timeout::Recv, Some(left))?;
            match self.receive_once() {
                Err(ChannelFault::System(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => return outcome,
            }
        }
    }

    fn receive_once(&self) -> Result<(Message, Vec<OwnedFd>), ChannelFault> {
        let mut bytes = vec![0; MESSAGE_BYTES_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received =
            recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        let mut descriptors = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(ChannelFault::Malformed("a message that is too long"));
        }
        debug_assert!(received.bytes <= MESSAGE_BYTES_MAX && descriptors.len() <= DESCRIPTORS_MAX);
        if received.bytes == 0 {
            return Err(ChannelFault::Ended);
        }
        let message = serde_json::from_slice(&bytes[..received.bytes])
            .map_err(|_| ChannelFault::Malformed("bytes that are no message"))?;
        Ok((message, descriptors))
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<Errno> for ChannelFault {
    fn from(error: Errno) -> Self {
        match error {
            Errno::AGAIN | Errno::TIMEDOUT => Self::Silent,
            Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN => Self::Ended,
            error => Self::System(error.into()),
        }
    }
}

impl From<io::Error> for ChannelFault {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl fmt::Display for ChannelFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended => f.write_str("the other process has ended"),
            Self::Silent => f.write_str("the other process does not answer in time"),
            Self::Malformed(what) => write!(f, "not understood: {what}"),
            Self::System(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for ChannelFault {}

const NO_SOCKET: &str = "the standard input is no channel of a running node";

/// Most bytes of a message.
pub const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// Most descriptors of a message; the kernel takes 253.
pub const DESCRIPTORS_MAX: usize = 64;

/// Longest wait for a process that takes no message.
const SEND_TIMEOUT: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const SOON: Duration = Duration::from_millis(20);

    #[test]
    fn descriptors_arrive_with_their_message() {
        let (one, other) = Channel::pair().expect("sockets");
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(b"abc").expect("written");
        let message = Message::Sockets { names: Vec::new() };
        one.send_with(&message, &[file.as_fd(), file.as_fd()]).expect("sent");
        one.send(&Message::Serving).expect("sent");
        let (received, descriptors) = other.receive_with(SOON).expect("a message");
        assert_eq!((received, descriptors.len()), (message, 2));
        let same = std::fs::File::from(descriptors.into_iter().next().expect("two"));
        assert_eq!(same.metadata().expect("a file").len(), 3);
        assert_eq!(other.receive(SOON).expect("a message"), Message::Serving);
    }

    #[test]
    fn silence_and_end_are_told_apart() {
        let (one, other) = Channel::pair().expect("sockets");
        assert!(matches!(other.receive(SOON), Err(ChannelFault::Silent)));
        drop(one);
        assert!(matches!(other.receive(SOON), Err(ChannelFault::Ended)));
        assert!(matches!(other.send(&Message::Serving), Err(ChannelFault::Ended)));
    }

    #[test]
    fn strange_bytes_are_refused() {
        let (one, other) = Channel::pair().expect("sockets");
        let mut none = SendAncillaryBuffer::default();
        for bytes in [&b"x"[..], b"{\"message\":\"prepared\"}", &vec![b' '; MESSAGE_BYTES_MAX + 1]] {
            sendmsg(&one.0, &[IoSlice::new(bytes)], &mut none, SendFlags::empty()).expect("sent");
            assert!(matches!(other.receive(SOON), Err(ChannelFault::Malformed(_))), "{}", bytes.len());
        }
        let file = tempfile::tempfile().expect("a file");
        one.send_with(&Message::Serving, &[file.as_fd()]).expect("sent");
        assert!(matches!(other.receive(SOON), Err(ChannelFault::Malformed(_))));
        let long = Message::Refused { why: "x".repeat(MESSAGE_BYTES_MAX) };
        assert!(matches!(one.send(&long), Err(ChannelFault::Malformed(_))));
    }

    #[test]
    fn only_a_channel_is_taken_as_one() {
        let (one, _other) = Channel::pair().expect("sockets");
        assert!(Channel::from_inherited(one.as_fd()).is_ok());
        let file = tempfile::tempfile().expect("a file");
        assert!(matches!(Channel::from_inherited(file.as_fd()), Err(ChannelFault::Malformed(_))));
        let (stream, _far) = std::os::unix::net::UnixStream::pair().expect("sockets");
        assert!(matches!(Channel::from_inherited(stream.as_fd()), Err(ChannelFault::Malformed(_))));
    }
}
