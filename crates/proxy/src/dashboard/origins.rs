//! The document of the page "Origins": the upstreams of all sites.

use super::recorder::Recorder;
use super::unix_ms;
use super::view::{NodeView, STALE, counts};
use crate::by_site::quantile_us;
use shoal_dashboard::documents::{OriginRow, OriginsDocument, ROWS_MAX};
use shoal_dashboard::shown;
use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Instant;

/// Returns the document.
pub(super) fn document(view: &NodeView, recorder: &Recorder) -> OriginsDocument {
    let live = view.live();
    let max_connections = view.settings.lock().upstream.connections_per_origin;
    let all = live.routes.all().iter().flat_map(|route| {
        let members = route.group.members().iter();
        members.map(move |member| (route, member))
    });
    // The number is that of the recorder's counts.
    let mut all: Vec<_> = all.enumerate().collect();
    all.sort_by_key(|(_, (_, member))| Reverse(member.requests.value()));
    let others = all.len().saturating_sub(ROWS_MAX);
    let now = Instant::now();
    let rows = all.into_iter().take(ROWS_MAX).map(|(number, (route, member))| {
        let (times, (state, changed)) = (member.times(), member.state(now));
        let is_own = live.routes.meters().own(route.site).is_some_and(|own| Arc::ptr_eq(own, &route.meter));
        OriginRow {
            name: shown(&member.url()),
            site: shown(route.meter.label()),
            state: state.to_owned(),
            requests: member.requests.value(),
            requests_per_s: recorder.origins.per_s(number, 10_000),
            errors: member.failures.value(),
            p50_us: quantile_us(&times, 0.5),
            p99_us: quantile_us(&times, 0.99),
            connections: member.connections(max_connections) as u64,
            max_connections: max_connections as u64,
            stale_served: if is_own { counts(&route.meter)[STALE] } else { 0 },
            since_ms: since_ms(changed.unwrap_or(view.started), now),
        }
    });
    OriginsDocument { unix_ms: unix_ms(), origins: rows.collect(), others }
}

fn since_ms(then: Instant, now: Instant) -> u64 {
    u64::try_from(now.saturating_duration_since(then).as_millis()).unwrap_or(u64::MAX)
}
