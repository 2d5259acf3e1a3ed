//! Bodies that hold a connection, or a stream of one, while nobody takes them: the one that stands
//! still for longest gives it up when others wait for one.
//!
//! A response that is not stored arrives at the pace of its client. What its client has not taken
//! waits in windows of fixed size, and its connection with it. A body that has moved within
//! [`PATIENCE`] keeps its connection, and so does one that waits for the origin. Of the others the
//! one at rest for longest is cut, which its client hears of when it reads on.

use super::OriginPool;
use crate::message::BodyError;
use crate::upstream::response_body::UpstreamBody;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use slab::Slab;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;

/// A body that holds one of its place's connections or streams.
pub(in crate::upstream) struct HoldingBody {
    holding: Arc<Holding>,
    place: Arc<OriginPool>,
    /// Where the place has it.
    number: usize,
    ended: bool,
}

/// The bodies that hold a place's connections and streams.
#[derive(Default)]
pub(super) struct HoldingBodies {
    bodies: Slab<Arc<Holding>>,
    /// When they were looked through for one that gives way.
    looked_at: Option<Instant>,
}

/// What a place knows of a body that holds a connection or a stream.
struct Holding(Mutex<Held>);

struct Held {
    /// Taken when its connection was wanted by others.
    body: Option<UpstreamBody>,
    /// Since when nobody takes what has come; `None` while the origin is waited for, and once the
    /// body holds no connection.
    at_rest: Option<Instant>,
}

impl HoldingBody {
    /// The body of a response that came over one of this place's connections.
    pub fn new(body: UpstreamBody, place: Arc<OriginPool>) -> Self {
        let held = Held { body: Some(body), at_rest: Some(Instant::now()) };
        let holding = Arc::new(Holding(Mutex::new(held)));
        let number = place.holding.lock().bodies.insert(Arc::clone(&holding));
        Self { holding, place, number, ended: false }
    }
}

impl OriginPool {
    /// Ends the body that nobody has taken anything of for longest, if it is past [`PATIENCE`].
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

impl Holding {
    /// Since when nobody takes what has come. One that is being polled is not at rest.
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

/// A body that nobody takes may keep its connection from others for so long.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often, at most, all bodies are looked through, however many wait.
const LOOK_PAUSE: Duration = Duration::from_millis(10);
const SHED: &str = "others waited for its connection, while nobody took it";

const _: () = assert!(LOOK_PAUSE.as_millis() < PATIENCE.as_millis());
