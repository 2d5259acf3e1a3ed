//! Unread bodies that hold a connection or stream: the one unread for longest is cut when others
//! wait.
//!
//! A response that is not stored arrives at its client's pace. Bytes that the client has not taken
//! wait in windows of fixed size, and occupy the connection. A body keeps its connection if it has
//! moved within [`PATIENCE`] or waits for the origin. Of the others, the one at rest for longest is
//! cut. The client gets the error at its next read.

use super::OriginPool;
use crate::message::BodyError;
use crate::response_body::UpstreamBody;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use slab::Slab;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;

/// Body that holds a connection or stream of its pool.
pub(crate) struct HoldingBody {
    holding: Arc<HoldView>,
    place: Arc<OriginPool>,
    /// Index in the pool's slab.
    number: usize,
    ended: bool,
}

/// Bodies that hold a pool's connections and streams.
#[derive(Default)]
pub(super) struct HoldingBodies {
    bodies: Slab<Arc<HoldView>>,
    /// Time of the last search for a body to cut.
    looked_at: Option<Instant>,
}

/// Pool's view of a body that holds a connection or stream.
struct HoldView(Mutex<HoldState>);

struct HoldState {
    /// The body; taken when others need its connection.
    body: Option<UpstreamBody>,
    /// Time since which arrived bytes are unread. `None` while the body waits for the origin, and
    /// once it holds no connection.
    at_rest: Option<Instant>,
}

impl HoldingBody {
    /// Wraps the body of a response on one of this pool's connections.
    pub fn new(body: UpstreamBody, place: Arc<OriginPool>) -> Self {
        let held = HoldState { body: Some(body), at_rest: Some(Instant::now()) };
        let holding = Arc::new(HoldView(Mutex::new(held)));
        let number = place.holding.lock().bodies.insert(Arc::clone(&holding));
        Self { holding, place, number, ended: false }
    }
}

impl OriginPool {
    /// Cuts the body that is unread for longest, if longer than [`PATIENCE`].
    pub(super) fn shed_stalled(&self) {
        let now = Instant::now();
        let longest = {
            let mut all = self.holding.lock();
            if all.looked_at.is_some_and(|at| now < at + LOOK_PAUSE) {
                return;
            }
            all.looked_at = Some(now);
            let resting = all.bodies.iter().filter_map(|(_, holding)| Some((holding.at_rest()?, holding)));
            resting.min_by_key(|(since, _)| *since).map(|(since, holding)| (since, Arc::clone(holding)))
        };
        let Some((since, holding)) = longest.filter(|(since, _)| now >= *since + PATIENCE) else { return };
        let body = {
            let Some(mut held) = holding.0.try_lock().filter(|held| held.at_rest == Some(since)) else {
                return;
            };
            held.at_rest = None;
            held.body.take()
        };
        if let Some(pool) = self.pool.upgrade().filter(|_| body.is_some()) {
            pool.metrics.upstream_stalled_shed.increment();
        }
    }
}

impl HoldView {
    /// Returns the time since which arrived bytes are unread. A body being polled is not at rest.
    fn at_rest(&self) -> Option<Instant> {
        self.0.try_lock()?.at_rest
    }
}

impl Body for HoldingBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let polled = {
            let mut held = self.holding.0.lock();
            let polled = match &mut held.body {
                Some(body) => Pin::new(body).poll_frame(context),
                None => Poll::Ready(Some(Err(BodyError::Cut(SHED.into())))),
            };
            let holds = held.body.as_ref().is_some_and(UpstreamBody::holds_carrier);
            held.at_rest = (holds && polled.is_ready()).then(Instant::now);
            polled
        };
        self.ended = matches!(polled, Poll::Ready(None | Some(Err(_))));
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.ended || self.holding.0.lock().body.as_ref().is_some_and(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.holding.0.lock().body.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}

impl Drop for HoldingBody {
    fn drop(&mut self) {
        self.place.holding.lock().bodies.remove(self.number);
    }
}

/// Time for which an unread body may hold its connection while others wait.
const PATIENCE: Duration = Duration::from_secs(2);
/// Minimum time between two searches of all bodies, for any number of waiters.
const LOOK_PAUSE: Duration = Duration::from_millis(10);
const SHED: &str = "others waited for its connection, while nobody took it";

const _: () = assert!(LOOK_PAUSE.as_millis() < PATIENCE.as_millis());
