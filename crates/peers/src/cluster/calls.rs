//! Calls to other nodes: `POST /shoal/NAME` over the connections between nodes.
//!
//! | status | meaning for the caller |
//! |---|---|
//! | 200 | the answer is the body |
//! | 404 | nobody answers calls of this name |
//! | 400 | the message cannot be read |
//! | other | the call was refused; the body says why in a line |

use crate::message::StreamBody;
use crate::upstream::{Caller, Destination, PeerTarget, UpstreamRequest, Upstreams};
use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{Method, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use shoal_cluster::{CALL_BYTES_MAX, CallError, CallFuture, PeerCalls};
use shoal_semantics::NextHopFields;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Calls over HTTP.
pub struct HttpCalls {
    links: Upstreams,
    /// Longest wait for an answer.
    patience: Duration,
}

impl HttpCalls {
    /// Makes calls through these links, each of which takes at most `patience`.
    pub fn new(links: Upstreams, patience: Duration) -> Self {
        Self { links, patience }
    }

    async fn ask(&self, to: SocketAddr, name: &'static str, body: Bytes) -> Result<Bytes, CallError> {
        if body.len() > CALL_BYTES_MAX {
            return Err(CallError::Malformed("a call with too large a body"));
        }
        let target = PathAndQuery::try_from(format!("{CALLS}{name}"));
        let target = target.map_err(|_| CallError::Malformed("a name that is no path"))?;
        let length = body.len().to_string();
        let fields: NextHopFields =
            [(header::CONTENT_LENGTH.as_str(), length.as_bytes())].into_iter().collect();
        let request = UpstreamRequest {
            method: Method::POST,
            destination: Destination::Peer(Arc::new(PeerTarget::new(to))),
            target,
            absolute: None,
            fields,
            host: None,
            takes_trailers: false,
            body: Some(whole(body)),
            interim: None,
            upgrade: None,
            caller: Caller::default(),
        };
        let response =
            self.links.fetch(request).await.map_err(|error| CallError::Unreachable(error.to_string()))?;
        let (status, body) = (response.status, Limited::new(response.body, CALL_BYTES_MAX).collect().await);
        let body = body.map_err(|error| CallError::Unreachable(error.to_string()))?.to_bytes();
        match status {
            StatusCode::OK => Ok(body),
            StatusCode::NOT_FOUND => Err(CallError::Unknown),
            StatusCode::BAD_REQUEST => Err(CallError::Malformed("the node cannot read the message")),
            _ => Err(CallError::Refused(reason(&body))),
        }
    }
}

impl PeerCalls for HttpCalls {
    fn call(&self, to: SocketAddr, name: &'static str, body: Bytes) -> CallFuture<'_> {
        Box::pin(async move {
            let late = |_| CallError::Unreachable(format!("no answer within {:?}", self.patience));
            timeout(self.patience, self.ask(to, name, body)).await.map_err(late)?
        })
    }
}

fn whole(bytes: Bytes) -> StreamBody {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// Returns the first line of a refusal, without control characters.
fn reason(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(REASON_MAX)]).into_owned();
    text.lines().next().unwrap_or_default().chars().filter(|char| !char.is_control()).collect()
}

/// Path below which calls stand.
pub const CALLS: &str = "/shoal/";

/// Most bytes of a refusal's reason.
const REASON_MAX: usize = 512;
