//! Connections to spare: background requests take them while enough others stay free.

use super::{Checkout, OriginPoolHandle};
use crate::background::Background;
use std::sync::Arc;

impl OriginPoolHandle {
    /// Returns a stream, a connection or a permit for a background request, if enough others stay
    /// free. The request is then one of those that give way.
    pub fn try_checkout_spare(&self, fresh: bool, background: &Arc<Background>) -> Option<Checkout> {
        let place = &self.0;
        debug_assert!(place.spare > 0, "clients find one free at least");
        let checkout = if !fresh && place.carries_streams() {
            place.recount();
            let permit = place.streams.try_acquire_spare(place.spare)?;
            Checkout::Stream(self.stream(permit)?)
        } else {
            self.ticket_with(place.permits.try_acquire_spare(place.spare)?, fresh, None)
        };
        self.0.background.lock().add(Arc::downgrade(background));
        Some(checkout)
    }

    /// Lets a background request give way to one that waits.
    pub fn give_way(&self) -> bool {
        self.0.background.lock().give_way()
    }
}
