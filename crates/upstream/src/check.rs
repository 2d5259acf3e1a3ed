//! Active health checks: a periodic GET to each upstream of a site.

use super::Inner;
use super::attempt::UpstreamCall;
use super::channel::AttemptTarget;
use super::exchanged::Caller;
use super::group::UpstreamGroup;
use super::head::AttemptHead;
use http::Method;
use http::uri::PathAndQuery;
use http_body_util::BodyExt;
use shoal_semantics::NextHopFields;
use shoal_settings::HealthCheck;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// Checks one upstream until its group is dropped.
pub(super) async fn watch(inner: Arc<Inner>, group: Weak<UpstreamGroup>, index: usize, delay: Duration) {
    sleep(delay).await;
    while let Some(group) = group.upgrade() {
        let Some(check) = group.check().cloned() else { return };
        let outcome = ask(&inner, &group, index, &check).await;
        inner.metrics.upstream_checks.increment();
        if outcome.is_err() {
            inner.metrics.upstream_checks_failed.increment();
        }
        group.record_check(index, outcome);
        drop(group);
        sleep(check.interval).await;
    }
}

/// Expects a 2xx or 3xx answer before the next check is due. The error describes any other outcome.
async fn ask(inner: &Inner, group: &UpstreamGroup, index: usize, check: &HealthCheck) -> Result<(), String> {
    let target = PathAndQuery::try_from(check.path.as_str()).map_err(|error| error.to_string())?;
    let mut head = AttemptHead {
        absolute: None,
        method: Method::GET,
        target,
        fields: NextHopFields::default(),
        host: None,
        upgrade: None,
        takes_trailers: false,
    };
    let member = &group.members()[index];
    member.changes.sign(&mut head);
    let origin = &member.origin;
    let caller = Caller::default();
    let aim = AttemptTarget { origin, rules: None, is_check: true, place: None, caller: &caller };
    let ask = async {
        let mut journey = UpstreamCall::new(inner, head, None, None, Caller::default());
        let response =
            journey.fetch_from_origin(aim, Instant::now()).await.map_err(|lost| lost.error.to_string())?;
        // Reading the body to its end makes the connection reusable. A longer body is not worth
        // reading.
        let mut body = response.body;
        let mut read = 0;
        while let Some(Ok(frame)) = body.frame().await {
            read += frame.data_ref().map_or(0, bytes::Bytes::len);
            if read > BODY_MAX {
                break;
            }
        }
        Ok(response.status)
    };
    let limit = check.interval.max(TIMEOUT_MIN);
    let status = timeout(limit, ask).await.unwrap_or_else(|_| Err(format!("no answer within {limit:?}")))?;
    match status.is_success() || status.is_redirection() {
        true => Ok(()),
        false => Err(format!("status {}", status.as_u16())),
    }
}

/// Maximum bytes of a check's answer read in order to keep its connection.
const BODY_MAX: usize = 65_536;
/// Minimum time limit of a check, also for shorter intervals.
const TIMEOUT_MIN: Duration = Duration::from_secs(1);
