//! Turns of the tasks of one worker.

use std::future::poll_fn;
use std::task::Poll;

/// Lets tasks that are due already go first. Unlike tokio's own way to do this, it asks the system
/// for no new events.
pub async fn after_others() {
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
