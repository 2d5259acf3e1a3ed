//! A way to a socket that does not copy: the kernel is lent the pages of a body
//! ([`shoal_store::memory::lend`]).
//!
//! The body's pages are lent to a pipe, from which they are moved on to the socket, after the head.
//! The pipe is its thread's, not the connection's: what the socket does not take is thrown away,
//! and lent again when the socket has room.

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::SendFlags;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, splice};
use shoal_store::memory::lend;
use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll, ready};
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Sends some of `head` and of `body`, which follows it. `None` when this body or this system does
/// not allow it; nothing was sent then.
pub(crate) fn poll_lend(
    socket: &TcpStream,
    context: &mut Context<'_>,
    head: &[u8],
    body: &[u8],
) -> Option<Poll<io::Result<usize>>> {
    through_pipe(|pipe| pipe.poll_send(socket, context, head, body))
}

/// The same for a socket that nobody waits for; it must not block.
pub(crate) fn try_send_zero_copy(
    socket: BorrowedFd<'_>,
    head: &[u8],
    body: &[u8],
) -> Option<io::Result<usize>> {
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
            // Whatever kept it from being emptied: what is in it is for nobody else.
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

/// What a thread knows of its pipe.
enum Lender {
    Untried,
    Pipe(Pipe),
    /// The system does not allow it: some containers' filters of system calls do not.
    Refused,
}

thread_local! {
    static LENDER: RefCell<Lender> = const { RefCell::new(Lender::Untried) };
}

/// A pipe that is empty but for the time of a call.
struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
    /// Takes what the socket does not.
    sink: OwnedFd,
    /// Bytes in it.
    holds: usize,
}

impl Pipe {
    /// `None` when the system does not give one that is large enough.
    fn new() -> Option<Self> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
        // A user without privileges may be refused so much.
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
                // What could not be thrown away would be sent before what is lent next.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && self.holds > 0 => {
                    return Poll::Ready(Ok(None));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => return Poll::Ready(sent),
            }
        }
    }

    /// Bytes that the socket took, or `None` when the body cannot be lent.
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

    /// Throws away what the socket did not take. Where that fails some is left, which changes
    /// nothing about what was sent.
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

    /// Sends the head and then what is in the pipe. Were the head in the pipe too, its few bytes
    /// would take the place of a page in the first segment.
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
            // Whatever it is, it is told again when there is no head to be sent twice.
            Err(_) if !head.is_empty() => Ok(head.len()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether the system does not know or not allow what was asked.
fn is_refusal(error: &io::Error) -> bool {
    let refused = [Errno::NOSYS, Errno::PERM, Errno::ACCESS, Errno::INVAL];
    error.raw_os_error().is_some_and(|code| refused.contains(&Errno::from_raw_os_error(code)))
}

/// Bytes of a body lent with its head: as many as there may be room for in a socket that is empty,
/// and as a pipe may hold. A part of a page takes as much room there as all of it, so that it may
/// be fewer.
const LENT_AT_FIRST: usize = 1 << 20;

/// Bytes lent after that. What the socket does not take of them is lent again, so they are not many
/// more than it has room for when it is written to as soon as it can be.
const LENT_AGAIN: usize = 256 << 10;

const _: () = {
    assert!(LENT_AT_FIRST.is_power_of_two() && LENT_AGAIN.is_power_of_two());
    assert!(2 * LENT_AGAIN <= LENT_AT_FIRST);
};

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_store::memory::{BodyBuilder, LENT_MIN};
    use std::future::poll_fn;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    async fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
        (near.expect("connected"), far.expect("accepted").0)
    }

    /// Bytes of which no two pages are the same.
    fn body(length: usize, seed: u64) -> bytes::Bytes {
        let mut whole = BodyBuilder::with_capacity(length);
        for at in (0..length as u64).step_by(8) {
            let word = (at + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15 ^ seed).to_le_bytes();
            whole.push(&word[..word.len().min(length - at as usize)]);
        }
        whole.into_bytes()
    }

    /// Lends as much as the socket takes now.
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
    async fn the_client_gets_every_byte_though_the_body_went_and_its_place_was_used_again() {
        let (near, mut far) = connected().await;
        let whole = body(8 << 20, 1);
        let expected = whole.to_vec();
        let sent = lend_now(&near, b"head", &whole).await;
        assert!((LENT_MIN..8 << 20).contains(&sent), "{sent} of it are on their way");
        drop(whole);
        // One of them most likely where the first one was.
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
    async fn what_cannot_be_lent_leaves_nothing_behind() {
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
    async fn a_head_is_sent_once_also_where_pages_cannot_be_moved_to_a_socket() {
        let (near, mut far) = connected().await;
        // The kernel refuses to splice to what is open for appending.
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

    /// Puts this thread's pipe before a sink that the kernel refuses to splice to, as it is open
    /// for appending.
    fn have_nothing_thrown_away() {
        let mut pipe = Pipe::new().expect("a pipe");
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CLOEXEC;
        pipe.sink = rustix::fs::open("/dev/null", flags, Mode::empty()).expect("it is there");
        LENDER.set(Lender::Pipe(pipe));
    }

    #[tokio::test]
    async fn what_the_socket_took_is_not_sent_again_when_the_rest_cannot_be_thrown_away() {
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
    async fn what_cannot_be_thrown_away_is_sent_to_nobody() {
        let (near, mut far) = connected().await;
        near.writable().await.expect("open");
        // The kernel has no room, of which the runtime does not know yet.
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
    async fn what_a_socket_takes_at_once_is_told_and_no_more_is_sent() {
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
    async fn a_client_that_left_is_an_error_and_the_next_gets_its_own() {
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
