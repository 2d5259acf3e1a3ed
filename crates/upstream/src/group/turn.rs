//! Turns of requests at a site with a limited number of requests in flight.
//!
//! The turn is a permit of a gate, so that clients have fair shares of the permits and of the
//! queue. A response keeps its turn until its body ends. While a request waits, unread bodies of
//! the site's connections give way as they do for a waiting connection.

use super::UpstreamGroup;
use crate::background::SPARE_SHARE;
use crate::channel::NO_SPARE;
use crate::error::{Cause, UpstreamError};
use crate::exchanged::Caller;
use crate::pool::{Gate, OriginPoolHandle, Permit, Pool};
use shoal_settings::Site;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Turns of a site.
pub(crate) struct Turns {
    gate: Arc<Gate>,
    number: usize,
    timeout: Duration,
}

impl Turns {
    /// Creates the turns of `site`; `None` if the site has no limit.
    pub fn of(site: &Site) -> Option<Self> {
        let number = site.concurrency?.max(1);
        Some(Self { gate: Gate::new(number, site.queue), number, timeout: site.queue_timeout })
    }

    /// Returns the number of turns.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Waits for a turn.
    ///
    /// # Errors
    /// [`Cause::ConnectionLimit`] if the queue or the client's share of it is full, or if the turn
    /// does not come in time.
    pub async fn take(
        &self,
        group: &UpstreamGroup,
        pool: &Arc<Pool>,
        caller: &Caller,
    ) -> Result<Arc<Permit>, UpstreamError> {
        let party = caller.party();
        if let Some(background) = caller.unwanted() {
            let spare = (self.number / SPARE_SHARE).max(1);
            let refused = || {
                background.turn_away();
                UpstreamError::new(Cause::ConnectionLimit, group.site.as_str(), NO_SPARE)
            };
            return self.gate.try_acquire_spare(spare).map(Arc::new).ok_or_else(refused);
        }
        if let Some(permit) = self.gate.try_acquire(party) {
            return Ok(Arc::new(permit));
        }
        let deadline = Instant::now() + self.timeout;
        let metrics = pool.metrics();
        let full = |why: &str| {
            metrics.limited_queue.increment();
            Err(UpstreamError::new(Cause::ConnectionLimit, group.site.as_str(), why))
        };
        let Some(mut waiting) = self.gate.queue(party) else {
            return full("the site's queue, or this client's share of it, is full: site.queue");
        };
        metrics.site_queue_waits.increment();
        // One that gives way is enough for one that waits.
        let _ = group.members.iter().filter_map(|member| member.place(pool)).any(OriginPoolHandle::give_way);
        while Instant::now() < deadline {
            for place in group.members.iter().filter_map(|member| member.place(pool)) {
                place.shed_stalled();
            }
            let pause = deadline.min(Instant::now() + SHED_PAUSE);
            debug_assert!(pause <= deadline, "nobody waits for longer");
            if let Ok(permit) = timeout_at(pause, &mut waiting).await {
                return Ok(Arc::new(permit));
            }
        }
        full("waited too long for a turn: site.queue_timeout")
    }
}

impl fmt::Debug for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turns").field("free", &self.gate.free()).finish_non_exhaustive()
    }
}

/// Interval at which a waiter looks for a body to cut.
const SHED_PAUSE: Duration = Duration::from_millis(250);

const _: () = assert!(!SHED_PAUSE.is_zero());
