//! Objects that change: the choice of objects, the times of change, and the new sizes.

use super::web::Web;
use super::{Impossible, Traffic};
use crate::random::Random;
use std::collections::HashMap;

/// Parameters of the changes of objects.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Changes {
    /// Share of objects that ever change.
    pub changing: f64,
    /// Mean days from one change of such an object to the next, exponentially distributed.
    pub days: f64,
    /// Mean days between changes for objects of the most popular 0.3% of the pages.
    pub popular_days: f64,
}

impl Default for Changes {
    /// No object changes. The rates, for callers that set `changing`, are the slow rates of Voelker
    /// 2000, Table 5.1.
    fn default() -> Self {
        Self { changing: 0.0, days: 186.0, popular_days: 14.0 }
    }
}

impl Changes {
    pub(super) fn check(
        &self,
        within: impl Fn(&str, f64, f64, f64) -> Result<(), Impossible>,
    ) -> Result<(), Impossible> {
        within("changing", self.changing, 0.0, 1.0)?;
        within("change-days", self.days, 1e-6, 1e6)?;
        within("popular-change-days", self.popular_days, 1e-6, 1e6)
    }
}

/// Sizes of objects over time. An object costs no memory before its first request. Times must not
/// fall.
pub(super) struct Versions<'a> {
    traffic: &'a Traffic,
    web: &'a Web,
    /// Current size of each changing object, and the time of its next change.
    now: HashMap<u32, (u64, u64)>,
}

impl<'a> Versions<'a> {
    pub(super) fn new(traffic: &'a Traffic, web: &'a Web) -> Self {
        Self { traffic, web, now: HashMap::new() }
    }

    /// Returns an object's size at a time.
    pub(super) fn bytes(&mut self, object: u32, time_ms: u64) -> u64 {
        let Traffic { seed, changes, .. } = *self.traffic;
        if changes.changing == 0.0 || Random::of(seed ^ CHANGES, object.into()).unit() >= changes.changing {
            return self.first(object);
        }
        let days = if self.web.is_popular(object, POPULAR) { changes.popular_days } else { changes.days };
        // The time from the last change before the beginning has the same distribution as any
        // pause.
        let pause = |after_ms: u64| {
            let mut random = Random::of(seed ^ PAUSE, u64::from(object) ^ after_ms << 20);
            after_ms.saturating_add(random.exponential(days * DAY_MS).max(1.0) as u64)
        };
        let first = self.first(object);
        let (bytes, due) = self.now.entry(object).or_insert_with(|| (first, pause(0)));
        if time_ms >= *due {
            let mut random = Random::of(seed ^ EDIT, u64::from(object) ^ *due << 20);
            let edited = (first as f64 * (EDIT_SIGMA * random.normal()).exp()).max(1.0) as u64;
            // A change that leaves the size equal would be invisible in the trace.
            *bytes = if edited == *bytes { edited + 1 } else { edited };
            // Several changes between two requests count as one.
            *due = pause(time_ms);
            debug_assert!(*due > time_ms, "the next change is to come");
        }
        *bytes
    }

    /// Returns the initial size of an object.
    fn first(&self, object: u32) -> u64 {
        let Traffic { seed, sizes, size_popularity, .. } = *self.traffic;
        if size_popularity == 0.0 {
            return sizes.of(seed, object);
        }
        sizes.correlated(seed, object, (self.web.popularity(object), size_popularity))
    }
}

/// Share of pages that are popular: Wolman et al. 1999.
const POPULAR: f64 = 0.003;
const DAY_MS: f64 = 86_400_000.0;
/// Standard deviation of a change of the size's logarithm.
const EDIT_SIGMA: f64 = 0.2;
/// Constants that keep the draws of one seed apart.
const CHANGES: u64 = 0x6368_616e;
const PAUSE: u64 = 0x7061_7573;
const EDIT: u64 = 0x6564_6974;
