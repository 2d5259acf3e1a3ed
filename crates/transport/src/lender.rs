//! Zero-copy output to a socket: the kernel is lent the pages of a body
//! ([`shoal_memory::lend`]).
//!
//! The body's pages are lent to a pipe, and spliced from the pipe to the socket after the head. The
//! pipe belongs to the thread, not to the connection. Bytes that the socket does not take are
//! discarded, and lent again when the socket has room.

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::SendFlags;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, splice};
use shoal_memory::lend;
use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll, ready};
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Sends a part of `head` and of `body`, which follows the head. Returns `None`, with nothing sent,
/// if this body or this system does not support lending.
pub fn poll_lend(
    socket: &TcpStream,
    context: &mut Context<'_>,
    head: &[u8],
    body: &[u8],
) -> Option<Poll<io::Result<usize>>> {
    through_pipe(|pipe| pipe.poll_send(socket, context, head, body))
}

/// Sends like [`poll_lend`] to a socket without a waiting task; the socket must not block.
pub fn try_send_zero_copy(socket: BorrowedFd<'_>, head: &[u8], body: &[u8]) -> Option<io::Result<usize>> {
    match through_pipe(|pipe| Poll::Ready(pipe.send(socket, head, body)))? {
        Poll::Ready(sent) => Some(sent),
        Poll::Pending => None,
    }
}

fn through_pipe(
    send: impl FnOnce(&mut Pipe) -> Poll<io::Result<Option<usize>>>,
) -> Option<Poll<io::Result<usize>>> {
    LENDER.with_borrow_mut(|lender| {
        if matches!(lender, Lender::Untried) {
            *lender = Pipe::new().map_or(Lender::Refused, Lender::Pipe);
        }
        let Lender::Pipe(pipe) = lender else { return None };
        let polled = send(pipe);
        if pipe.holds > 0 {
            // The pipe could not be emptied, for any reason. Its bytes must not reach another
            // connection.
            *lender = Lender::Untried;
        }
        match polled {
            Poll::Ready(Err(error)) if is_refusal(&error) => {
                *lender = Lender::Refused;
                None
            }
            Poll::Ready(sent) => sent.transpose().map(Poll::Ready),
            Poll::Pending => Some(Poll::Pending),
        }
    })
}

/// State of a thread's pipe.
enum Lender {
    Untried,
    Pipe(Pipe),
    /// The system does not allow lending: some containers filter the system calls.
    Refused,
}

thread_local! {
    static LENDER: RefCell<Lender> = const { RefCell::new(Lender::Untried) };
}

/// A pipe that is empty between calls.
struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
    /// Receiver of the bytes that the socket does not take.
    sink: OwnedFd,
    /// Number of bytes in the pipe.
    holds: usize,
}

impl Pipe {
    /// Returns `None` if the system does not provide a pipe that is large enough.
    fn new() -> Option<Self> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
        // The system may refuse this size to an unprivileged user.
        if fcntl_setpipe_size(&writer, LENT_AT_FIRST).is_err() {
            let _ = fcntl_setpipe_size(&writer, 2 * LENT_AGAIN);
        }
        let sink = rustix::fs::open("/dev/null", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        (fcntl_getpipe_size(&writer).ok()? >= 2 * LENT_AGAIN).then_some(Self {
            reader,
            writer,
            sink,
            holds: 0,
        })
    }

    fn poll_send(
        &mut self,
        socket: &TcpStream,
        context: &mut Context<'_>,
        head: &[u8],
        body: &[u8],
    ) -> Poll<io::Result<Option<usize>>> {
        loop {
            ready!(socket.poll_write_ready(context))?;
            match socket.try_io(Interest::WRITABLE, || self.send(socket.as_fd(), head, body)) {
                // Bytes that could not be discarded would be sent before the next lent bytes.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && self.holds > 0 => {
                    return Poll::Ready(Ok(None));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => return Poll::Ready(sent),
            }
        }
    }

    /// Returns the number of bytes that the socket took, or `None` if the body cannot be lent.
    fn send(&mut self, socket: BorrowedFd<'_>, head: &[u8], body: &[u8]) -> io::Result<Option<usize>> {
        debug_assert_eq!(self.holds, 0, "bytes of another body");
        let most = if head.is_empty() { LENT_AGAIN } else { LENT_AT_FIRST };
        match lend(self.writer.as_fd(), &body[..body.len().min(most)]) {
            Some(lent) => self.holds = lent?,
            None => return Ok(None),
        }
        debug_assert!(self.holds <= body.len().min(most), "more was lent than there is");
        let sent = self.move_to(socket, head);
        self.empty();
        sent.map(Some)
    }

    /// Discards the bytes that the socket did not take. After a failure some bytes remain, which
    /// changes nothing about the bytes sent.
    fn empty(&mut self) {
        while self.holds > 0 {
            match splice(&self.reader, None, &self.sink, None, self.holds, SpliceFlags::NONBLOCK) {
                Ok(count) if count > 0 => {
                    debug_assert!(count <= self.holds);
                    self.holds -= count;
                }
                _ => return,
            }
        }
    }

    /// Sends the head and then the pipe's contents. A head in the pipe would, with its few bytes,
    /// take the place of a page in the first segment.
    fn move_to(&mut self, socket: BorrowedFd<'_>, head: &[u8]) -> io::Result<usize> {
        if !head.is_empty() {
            let sent = rustix::net::send(socket, head, SendFlags::MORE | SendFlags::NOSIGNAL)?;
            if sent < head.len() {
                return Ok(sent);
            }
        }
        match splice(&self.reader, None, socket, None, self.holds, SpliceFlags::NONBLOCK) {
            Ok(sent) => {
                debug_assert!(sent <= self.holds);
                self.holds -= sent;
                Ok(head.len() + sent)
            }
            // Any error comes again on the next call, which has no head to send twice.
            Err(_) if !head.is_empty() => Ok(head.len()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns `true` if the system does not know or not allow the call.
fn is_refusal(error: &io::Error) -> bool {
    let refused = [Errno::NOSYS, Errno::PERM, Errno::ACCESS, Errno::INVAL];
    error.raw_os_error().is_some_and(|code| refused.contains(&Errno::from_raw_os_error(code)))
}

/// Bytes of a body lent with its head: as much as an empty socket may have room for and a pipe may
/// hold. A part of a page takes as much room there as a whole page, so there may be fewer bytes.
const LENT_AT_FIRST: usize = 1 << 20;

/// Bytes lent in later calls. Bytes that the socket does not take are lent again. The number is
/// therefore little above the room of a socket that is written to as soon as possible.
const LENT_AGAIN: usize = 256 << 10;

const _: () = {
    assert!(LENT_AT_FIRST.is_power_of_two() && LENT_AGAIN.is_power_of_two());
    assert!(2 * LENT_AGAIN <= LENT_AT_FIRST);
};

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_memory::{BodyBuilder, LENT_MIN};
    use std::future::poll_fn;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    async fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
        (near.expect("connected"), far.expect("accepted").0)
    }

    /// Returns bytes of which no two pages are equal.
    fn body(length: usize, seed: u64) -> bytes::Bytes {
        let mut whole = BodyBuilder::with_capacity(length);
        for at in (0..length as u64).step_by(8) {
            let word = (at + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15 ^ seed).to_le_bytes();
            whole.push(&word[..word.len().min(length - at as usize)]);
        }
        whole.into_bytes()
    }

    /// Lends as many bytes as the socket takes now.
    async fn lend_now(socket: &TcpStream, mut head: &[u8], body: &[u8]) -> usize {
        let mut sent = 0;
        poll_fn(|context| {
            while sent < body.len() {
                match poll_lend(socket, context, head, &body[sent..]).expect("it can be lent") {
                    Poll::Ready(taken) => sent += taken.expect("the client is there") - head.len(),
                    Poll::Pending => break,
                }
                head = &[];
            }
            Poll::Ready(())
        })
        .await;
        sent
    }

    #[tokio::test]
    async fn lent_bytes_survive_reuse_of_freed_body() {
        let (near, mut far) = connected().await;
        let whole = body(8 << 20, 1);
        let expected = whole.to_vec();
        let sent = lend_now(&near, b"head", &whole).await;
        assert!((LENT_MIN..8 << 20).contains(&sent), "{sent} of it are on their way");
        drop(whole);
        // One of these bodies most likely lies where the first one was.
        let others: Vec<bytes::Bytes> = (2..6).map(|seed| body(8 << 20, seed)).collect();
        drop((near, others));
        let mut taken = Vec::new();
        far.read_to_end(&mut taken).await.expect("an orderly end");
        assert_eq!(taken.len(), 4 + sent);
        assert!(taken[..4] == *b"head" && taken[4..] == expected[..sent]);
    }

    #[tokio::test]
    async fn connections_in_turn_get_their_own() {
        let pairs = [connected().await, connected().await];
        let bodies = [body(3 << 20, 3), body(3 << 20, 4)];
        let sending = pairs.into_iter().zip(bodies.clone()).map(|((near, mut far), body)| {
            let reading = tokio::spawn(async move {
                let mut taken = Vec::new();
                far.read_to_end(&mut taken).await.map(|_| taken)
            });
            async move {
                let mut sent = 0;
                while sent < body.len() {
                    near.writable().await.expect("open");
                    sent += lend_now(&near, b"", &body[sent..]).await;
                }
                drop(near);
                reading.await.expect("no panic").expect("an orderly end")
            }
        });
        let [one, other] = <[_; 2]>::try_from(Vec::from_iter(sending)).ok().expect("two");
        let taken = tokio::join!(one, other);
        assert!(taken.0 == bodies[0] && taken.1 == bodies[1]);
    }

    #[tokio::test]
    async fn unlendable_body_leaves_pipe_empty() {
        let (mut near, mut far) = connected().await;
        let kept = vec![7; LENT_MIN];
        let lent = poll_fn(|context| Poll::Ready(poll_lend(&near, context, b"head", &kept))).await;
        assert!(lent.is_none());
        let whole = body(LENT_MIN, 5);
        assert_eq!(lend_now(&near, b"", &whole).await, LENT_MIN);
        near.write_all(b"tail").await.expect("open");
        drop(near);
        let mut taken = Vec::new();
        far.read_to_end(&mut taken).await.expect("an orderly end");
        assert_eq!(taken, [&whole[..], b"tail"].concat());
    }

    #[tokio::test]
    async fn head_is_sent_once_if_splice_fails() {
        let (near, mut far) = connected().await;
        // The kernel refuses to splice to a file open for appending.
        let flags = rustix::fs::fcntl_getfl(&near).expect("open");
        rustix::fs::fcntl_setfl(&near, flags | OFlags::APPEND).expect("allowed");
        let whole = body(LENT_MIN, 7);
        let lend = |head: &'static [u8]| {
            let (near, whole) = (&near, &whole);
            poll_fn(move |context| Poll::Ready(poll_lend(near, context, head, whole)))
        };
        let first = lend(b"head").await;
        assert!(matches!(first, Some(Poll::Ready(Ok(4)))), "{first:?}");
        assert!(lend(b"").await.is_none(), "and from now on bodies are copied");
        drop(near);
        let mut taken = Vec::new();
        far.read_to_end(&mut taken).await.expect("an orderly end");
        assert_eq!(taken, b"head");
    }

    /// Gives this thread a pipe with a sink that is open for appending; the kernel refuses to
    /// splice to it.
    fn have_nothing_thrown_away() {
        let mut pipe = Pipe::new().expect("a pipe");
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CLOEXEC;
        pipe.sink = rustix::fs::open("/dev/null", flags, Mode::empty()).expect("it is there");
        LENDER.set(Lender::Pipe(pipe));
    }

    #[tokio::test]
    async fn sent_bytes_are_not_repeated_if_discard_fails() {
        let (near, mut far) = connected().await;
        let whole = body(8 << 20, 8);
        near.writable().await.expect("open");
        have_nothing_thrown_away();
        let sent = lend_now(&near, b"head", &whole).await;
        assert!((LENT_MIN..8 << 20).contains(&sent), "{sent} of it are on their way");
        drop(near);
        let mut taken = Vec::new();
        far.read_to_end(&mut taken).await.expect("an orderly end");
        assert!(taken[..4] == *b"head" && taken[4..] == whole[..sent]);
    }

    #[tokio::test]
    async fn undiscarded_bytes_are_never_sent() {
        let (near, mut far) = connected().await;
        near.writable().await.expect("open");
        // The kernel has no room, but the runtime does not know this yet.
        let mut filled = 0;
        while let Ok(count) = rustix::net::send(&near, &[0; 1 << 16], SendFlags::DONTWAIT) {
            filled += count;
        }
        have_nothing_thrown_away();
        let wrong = body(LENT_MIN, 9);
        let lent = poll_fn(|context| Poll::Ready(poll_lend(&near, context, b"", &wrong))).await;
        assert!(lent.is_none(), "{lent:?}");
        let mut filling = vec![0; filled];
        far.read_exact(&mut filling).await.expect("it has come");
        near.writable().await.expect("open");
        let right = body(LENT_MIN, 10);
        let sent = lend_now(&near, b"", &right).await;
        drop(near);
        let mut taken = Vec::new();
        far.read_to_end(&mut taken).await.expect("an orderly end");
        assert!(sent > 0 && taken == right[..sent]);
    }

    #[tokio::test]
    async fn zero_copy_reports_exact_bytes_taken() {
        let (near, mut far) = connected().await;
        let near = near.into_std().expect("a socket");
        let whole = body(8 << 20, 11);
        let copied = vec![7; LENT_MIN];
        assert!(super::try_send_zero_copy(near.as_fd(), b"head", &copied).is_none());
        let first = super::try_send_zero_copy(near.as_fd(), b"head", &whole)
            .expect("it can be lent")
            .expect("there is room");
        let mut sent = first;
        while let Some(Ok(more)) = super::try_send_zero_copy(near.as_fd(), b"", &whole[sent - 4..]) {
            sent += more;
        }
        let refused =
            super::try_send_zero_copy(near.as_fd(), b"", &whole[sent - 4..]).expect("it can be lent");
        assert_eq!(refused.expect_err("there is no room").kind(), io::ErrorKind::WouldBlock);
        drop(near);
        let mut taken = Vec::new();
        far.read_to_end(&mut taken).await.expect("an orderly end");
        assert!((LENT_MIN..8 << 20).contains(&sent) && taken == [b"head", &whole[..sent - 4]].concat());
    }

    #[tokio::test]
    async fn reset_client_leaves_next_connection_clean() {
        let (near, far) = connected().await;
        far.set_zero_linger().expect("a reset");
        drop(far);
        let whole = body(1 << 20, 6);
        near.readable().await.expect("the reset is there");
        let polled = poll_fn(|context| Poll::Ready(poll_lend(&near, context, b"head", &whole))).await;
        assert!(matches!(polled, Some(Poll::Ready(Err(_)))), "{polled:?}");
        let (near, mut far) = connected().await;
        assert_eq!(lend_now(&near, b"head", &whole[..LENT_MIN]).await, LENT_MIN);
        let mut first = [0; 8];
        far.read_exact(&mut first).await.expect("it has come");
        assert_eq!(first, [b"head", &whole[..4]].concat()[..]);
    }
}
