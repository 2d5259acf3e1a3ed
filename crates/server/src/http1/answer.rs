//! Waits for the handler's reply while the request's body arrives.

use super::incoming::RequestBodyFailure;
use super::{Connection, RequestBodyReader};
use crate::client_io::ClientIo;
use crate::message::Reply;
use http::{HeaderMap, StatusCode};
use shoal_wire::{RequestRefusal, response};
use std::pin::Pin;
use std::task::{Context, Poll};

/// Outcome of handling a request.
pub(super) enum HandlerOutcome {
    /// The handler's reply.
    Reply(Reply),
    /// The body was invalid or stalled before the reply.
    Refused(RequestRefusal),
    /// The client left, so the handler was dropped.
    Gone,
}

impl<T: ClientIo> Connection<T> {
    /// Waits for the handler's reply.
    pub(super) fn poll_answer(
        &mut self,
        context: &mut Context<'_>,
        answering: Pin<&mut impl Future<Output = Reply>>,
        incoming: &mut Option<RequestBodyReader>,
    ) -> Poll<HandlerOutcome> {
        if let Poll::Ready(reply) = answering.poll(context) {
            return Poll::Ready(HandlerOutcome::Reply(reply));
        }
        while let Poll::Ready((status, fields)) = self.interim.poll(context) {
            self.write_interim(status, &fields, incoming);
        }
        match self.poll_client(context, incoming) {
            Poll::Ready(RequestBodyFailure::Gone) => return Poll::Ready(HandlerOutcome::Gone),
            Poll::Ready(RequestBodyFailure::Refused(refusal)) => {
                return Poll::Ready(HandlerOutcome::Refused(refusal));
            }
            Poll::Pending => {}
        }
        if !self.socket.output.is_empty()
            && let Poll::Ready(Err(_)) = self.socket.poll_send(context, &self.live.patience)
        {
            return Poll::Ready(HandlerOutcome::Gone);
        }
        Poll::Pending
    }

    /// Reads the request's body. If no consumer wants more, checks that the client is still there.
    pub(super) fn poll_client(
        &mut self,
        context: &mut Context<'_>,
        incoming: &mut Option<RequestBodyReader>,
    ) -> Poll<RequestBodyFailure> {
        if let Some(body) = incoming {
            let failure = body.poll(&mut self.socket, context, &self.live.patience);
            if failure.is_ready() || body.is_active() {
                return failure;
            }
        }
        self.socket.poll_gone(context).map(RequestBodyFailure::from)
    }

    /// Appends an interim response to the output.
    pub(super) fn write_interim(
        &mut self,
        status: StatusCode,
        fields: &HeaderMap,
        incoming: &mut Option<RequestBodyReader>,
    ) {
        // Skip 101, which is final and comes as a reply, and any status outside 1xx, which would
        // end the exchange.
        if !status.is_informational() || status == StatusCode::SWITCHING_PROTOCOLS {
            return;
        }
        if let (StatusCode::CONTINUE, Some(body)) = (status, incoming) {
            body.continue_sent();
        }
        response::interim(&mut self.socket.output.head, status, fields);
    }
}
