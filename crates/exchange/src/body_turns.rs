//! Turns of a body that arrives: the next event, and the turns of its readers.

use super::shared_body::SharedBody;
use crate::message::{BodyError, StreamBody};
use bytes::Bytes;
use http_body::{Body, Frame};
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// Next event while a body arrives.
pub(super) enum BodyEvent {
    /// A frame; `None` at the end.
    Frame(Option<Result<Frame<Bytes>, BodyError>>),
    /// No frame yet, and no waiting reader.
    Deserted,
}

/// Waits for the next frame while a request reads the body, or if the fetch `may_go_on` without
/// readers.
pub(super) async fn next_frame(body: &mut StreamBody, readers: &SharedBody, may_go_on: bool) -> BodyEvent {
    poll_fn(|context| match Pin::new(&mut *body).poll_frame(context) {
        Poll::Ready(frame) => Poll::Ready(BodyEvent::Frame(frame)),
        Poll::Pending if may_go_on => Poll::Pending,
        Poll::Pending => readers.poll_deserted(context).map(|()| BodyEvent::Deserted),
    })
    .await
}

/// Lets tasks that are due already go first. Unlike tokio's own way to do this, it asks the system
/// for no new events.
pub(super) async fn after_others() {
    let mut is_turn = false;
    poll_fn(|context| match std::mem::replace(&mut is_turn, true) {
        true => Poll::Ready(()),
        false => {
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}

/// Bytes after which a body's readers have their turn, so that the next hop begins early.
pub(super) const SHOWN_BYTES: usize = 16 << 10;
