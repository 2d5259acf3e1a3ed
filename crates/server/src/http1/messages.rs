//! Messages of other nodes that are longer than one read. They are gathered in the read buffer, and
//! the connection's own task answers them.
//!
//! The first one is noticed by its first bytes. After that the connection reads into a buffer for a
//! whole message at once, which its thread keeps while nothing has come.

use super::fast_path::FastReply;
use super::{Connection, NoRequest, REQUEST_TIMEOUT};
use crate::ServerState;
use crate::client_io::ClientIo;
use crate::message::Handler;
use crate::slow_clients::ClientProgress;
use crate::socket::INPUT_BYTES;
use crate::transport::spare::BODY_BYTES;
use bytes::BytesMut;
use shoal_wire::HeadParser;
use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Instant;

impl<T: ClientIo> Connection<T> {
    /// Returns the length of the message that the input begins with, if more of it is to come.
    pub(super) fn awaited_message<H: Handler>(&self, shared: &ServerState<H>) -> Option<usize> {
        if !self.client.is_peer() || self.drain.is_draining() || self.live.keep_alive.is_zero() {
            return None;
        }
        shared.handler.awaited_message(&self.socket.input, &self.client)
    }

    /// Waits for the next message, and answers it if one read brings all of it. Otherwise its bytes
    /// stay in the input. Also returns their arrival time.
    pub(super) fn poll_long_message<H: Handler>(
        &mut self,
        shared: &ServerState<H>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(Option<FastReply>, Instant), NoRequest>> {
        debug_assert!(self.socket.input.is_empty(), "earlier requests go first");
        self.socket.enlarge(MESSAGE_BYTES);
        match self.socket.poll_fill(context, BODY_BYTES) {
            Poll::Ready(Ok(count)) if count > 0 => {}
            Poll::Ready(_) => return Poll::Ready(Err(NoRequest::Over)),
            Poll::Pending => return self.poll_idle(context).map(Err),
        }
        let (received, length) = (Instant::now(), self.socket.input.len());
        let sent = self.try_fast_path(shared, received, context);
        let is_long = length > INPUT_BYTES;
        let sent = sent.map(|sent| if is_long && sent.is_sent() { FastReply::SentLong } else { sent });
        Poll::Ready(Ok((sent, received)))
    }

    /// Reads the rest of a message of `whole` bytes, and answers it. Returns `None` if the request
    /// at the start of the input takes the ordinary path.
    pub(super) async fn gather_message<H: Handler>(
        &mut self,
        shared: &ServerState<H>,
        whole: usize,
        received: Instant,
    ) -> Result<Option<FastReply>, NoRequest> {
        // The buffer grows with the bytes that come, beyond the size of most messages.
        self.socket.enlarge(whole.min(MESSAGE_BYTES));
        self.socket.deadline.lift();
        let mut pace = ClientProgress::default();
        while self.socket.input.len() < whole {
            let filled = poll_fn(|context| match self.socket.poll_fill(context, BODY_BYTES) {
                Poll::Ready(Ok(count)) if count > 0 => Poll::Ready(Ok(count)),
                Poll::Ready(_) => Poll::Ready(Err(NoRequest::Over)),
                Poll::Pending => pace
                    .poll_stalled(&mut self.socket.deadline, context, &self.live.patience)
                    .map(|_| Err(NoRequest::Refused(REQUEST_TIMEOUT))),
            });
            let count = filled.await?;
            self.socket.deadline.lift();
            if pace.moved(count, &self.live.patience).is_err() {
                return Err(NoRequest::Refused(REQUEST_TIMEOUT));
            }
        }
        if self.drain.is_draining() {
            return Ok(None);
        }
        let sent = poll_fn(|context| Poll::Ready(self.try_gathered(shared, received, context))).await;
        let Some(sent) = sent else { return Ok(None) };
        self.has_long_messages = true;
        self.parser = HeadParser::new();
        if self.socket.input.capacity() > MESSAGE_BYTES_KEPT {
            self.socket.input = BytesMut::new();
        }
        // A connection with such messages keeps its task.
        Ok(Some(if sent.is_sent() { FastReply::SentLong } else { sent }))
    }
}

/// Bytes of the buffer for a message, before more have come: those of a full message of pages.
const MESSAGE_BYTES: usize = 288 << 10;

/// Most bytes of the buffer that is kept for the next message.
const MESSAGE_BYTES_KEPT: usize = 512 << 10;

const _: () = assert!(MESSAGE_BYTES <= MESSAGE_BYTES_KEPT);
