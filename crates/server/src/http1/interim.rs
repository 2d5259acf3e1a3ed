//! Passes interim responses from the handler to the client.

use crate::message::InterimSink;
use http::{HeaderMap, StatusCode};
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// Channel for the interim responses of one connection. Its requests use the channel in turn.
#[derive(Default)]
pub(super) struct Interim {
    channel: Option<(InterimSink, mpsc::Receiver<(StatusCode, HeaderMap)>)>,
}

impl Interim {
    /// Returns a sink for the next request. The channel is reused unless a sink of an earlier
    /// request is still alive. Interim responses of that request must not appear before this one's
    /// reply.
    pub fn sink(&mut self) -> InterimSink {
        if !matches!(&self.channel, Some((sink, waiting)) if sink.strong_count() == 1 && waiting.is_empty()) {
            self.channel = Some(mpsc::channel(INTERIM_MAX));
        }
        let (sink, _) = self.channel.as_ref().expect("made above when there was none");
        sink.clone()
    }

    /// Polls for the next interim response.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<(StatusCode, HeaderMap)> {
        match &mut self.channel {
            Some((_, waiting)) => match waiting.poll_recv(context) {
                Poll::Ready(Some(interim)) => Poll::Ready(interim),
                _ => Poll::Pending,
            },
            None => Poll::Pending,
        }
    }

    /// Returns the next interim response, if one is queued.
    pub fn next_waiting(&mut self) -> Option<(StatusCode, HeaderMap)> {
        self.channel.as_mut().and_then(|(_, waiting)| waiting.try_recv().ok())
    }
}

/// Maximum number of queued interim responses; more are dropped.
const INTERIM_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_sink_held_too_long_reaches_nobody() {
        let mut interim = Interim::default();
        let late = interim.sink();
        let fresh = interim.sink();
        assert!(late.try_send((StatusCode::EARLY_HINTS, HeaderMap::new())).is_err());
        assert!(fresh.try_send((StatusCode::EARLY_HINTS, HeaderMap::new())).is_ok());
        assert_eq!(interim.next_waiting().map(|(status, _)| status), Some(StatusCode::EARLY_HINTS));
        drop(fresh);
        let again = interim.sink();
        assert!(again.same_channel(&interim.channel.as_ref().expect("made").0));
    }
}
