//! Digests of neighbours: fetched over HTTP, checked, kept until they are stale.

use super::NeighbourCaches;
use super::table::HeldDigest;
use crate::message::StreamBody;
use crate::upstream::{Caller, Destination, UpstreamRequest, UpstreamResponse, Upstreams};
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, StatusCode, Uri, header};
use http_body_util::BodyExt;
use shoal_core::Fields;
use shoal_neighbours::digest::{CacheDigest, DIGEST_BYTES_MAX, DIGEST_HEAD_BYTES, DIGEST_PATH};
use shoal_semantics::{NextHopFields, date};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Result of a fetch.
pub(super) enum DigestFetch {
    /// A digest, useful for this long.
    Taken(Duration),
    /// The neighbour has none yet.
    Later,
    /// The reason for having none, in a line.
    Failed(String),
}

/// Fetches the digest of the neighbour at `index` and puts it in force.
pub(super) async fn fetch(neighbours: &NeighbourCaches, upstreams: &Upstreams, index: usize) -> DigestFetch {
    let request = match request(neighbours, index) {
        Ok(request) => request,
        Err(why) => return DigestFetch::Failed(why),
    };
    let fetched = timeout(FETCH_MAX, async {
        let response = upstreams.fetch(request).await.map_err(|error| error.to_string())?;
        match response.status {
            StatusCode::OK => {
                let lifetime = lifetime(&response);
                Ok(Some((read(response.body).await?, lifetime)))
            }
            // Squid says so while it builds its first digest.
            StatusCode::NOT_FOUND => Ok(None),
            status => Err(format!("status {}", status.as_u16())),
        }
    });
    match fetched.await.unwrap_or_else(|_| Err("it took too long".into())) {
        Ok(Some((digest, lifetime))) => {
            // A digest says nothing any more when two of its successors are missing.
            let useful_until = neighbours.now() + (lifetime * 2).max(neighbours.settings.digest_refresh * 2);
            neighbours.entries[index].set_digest(HeldDigest { digest, useful_until });
            DigestFetch::Taken(lifetime)
        }
        Ok(None) => DigestFetch::Later,
        Err(why) => DigestFetch::Failed(why),
    }
}

fn request(neighbours: &NeighbourCaches, index: usize) -> Result<UpstreamRequest, String> {
    let entry = &neighbours.entries[index];
    let settings = &entry.settings;
    let default = || format!("http://{}:{}{DIGEST_PATH}", settings.host, settings.http_port);
    let url = settings.digest_url.clone().unwrap_or_else(default);
    let uri: Uri = url.parse().map_err(|error| format!("{url}: {error}"))?;
    let authority = uri.authority().ok_or_else(|| format!("{url}: no host"))?;
    let mut fields = NextHopFields::default();
    fields.push(header::ACCEPT.as_str().as_bytes(), b"application/cache-digest");
    if let Some(credentials) = &entry.credentials {
        fields.push(header::PROXY_AUTHORIZATION.as_str().as_bytes(), credentials.as_bytes());
    }
    Ok(UpstreamRequest {
        method: Method::GET,
        destination: Destination::Group { group: Arc::clone(&entry.group), key: 0 },
        target: uri.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/")),
        absolute: Some(format!("http://{authority}").into()),
        fields,
        host: HeaderValue::from_str(authority.as_str()).ok(),
        takes_trailers: false,
        body: None,
        interim: None,
        upgrade: None,
        caller: Caller::default(),
    })
}

/// Returns the time until the neighbour builds its next digest.
fn lifetime(response: &UpstreamResponse) -> Duration {
    let date = |name| date::parse(response.fields.value(&name)?, response.response_time);
    let left = date(header::EXPIRES).zip(date(header::DATE)).map(|(end, now)| end.saturating_sub(now));
    Duration::from_secs(left.unwrap_or(0)).clamp(Duration::ZERO, LIFETIME_MAX)
}

/// Reads a digest, which announces its length in its head. No byte beyond it is kept.
async fn read(mut body: StreamBody) -> Result<CacheDigest, String> {
    let mut bytes: Vec<u8> = Vec::new();
    let mut announced = None;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| error.to_string())?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > announced.unwrap_or(DIGEST_BYTES_MAX) {
            return Err("it is longer than its head says".into());
        }
        bytes.extend_from_slice(&data);
        if announced.is_none() && bytes.len() >= DIGEST_HEAD_BYTES {
            let length = CacheDigest::announced_bytes(&bytes).map_err(|error| error.to_string())?;
            if bytes.len() > length {
                return Err("it is longer than its head says".into());
            }
            debug_assert!(length <= DIGEST_BYTES_MAX, "a head announces no more");
            announced = Some(length);
        }
    }
    CacheDigest::read(&bytes).map_err(|error| error.to_string())
}

/// Longest time of a fetch.
const FETCH_MAX: Duration = Duration::from_secs(60);
/// Longest lifetime that is believed.
const LIFETIME_MAX: Duration = Duration::from_secs(86_400);
