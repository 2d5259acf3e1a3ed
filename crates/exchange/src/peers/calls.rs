//! Answers calls of other nodes: reads the message, finds the service, and says how it went.

use super::{plain, reply};
use crate::access::PeerTurn;
use crate::cluster::ClusterHandle;
use crate::message::{Client, Reply, Request};
use crate::metrics::Metrics;
use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt, Limited};
use shoal_cluster::keys::node_name_of;
use shoal_cluster::{CALL_BYTES_MAX, CallError, Caller, MEMORY_CALL};

/// Answers the call `name`.
pub(super) async fn answer(
    cluster: &ClusterHandle,
    metrics: &Metrics,
    request: Request,
    name: &str,
) -> Reply {
    let caller = caller(&request.client);
    // Membership and purges go on; the memory of this node does not.
    if name == MEMORY_CALL && cluster.is_set_aside(request.client.address) {
        metrics.cluster_over_share.increment();
        return plain(StatusCode::SERVICE_UNAVAILABLE, "This node has set that one aside.");
    }
    let Ok(turn) = cluster.begin_call(request.client.address) else {
        metrics.cluster_over_share.increment();
        return plain(StatusCode::SERVICE_UNAVAILABLE, "This node has too many calls of that one.");
    };
    let body = match request.body {
        None => Bytes::new(),
        Some(body) => match Limited::new(body, CALL_BYTES_MAX).collect().await {
            Ok(body) => body.to_bytes(),
            Err(_) => {
                metrics.cluster_malformed.increment();
                return plain(StatusCode::PAYLOAD_TOO_LARGE, "The message is too long, or was cut.");
            }
        },
    };
    match cluster.services().answer(caller, name, body).await {
        Ok(answer) if answer.len() <= CALL_BYTES_MAX => {
            metrics.cluster_calls.increment();
            reply(StatusCode::OK, held(answer, turn))
        }
        Ok(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "The answer is too long."),
        Err(CallError::Unknown) => {
            metrics.cluster_malformed.increment();
            plain(StatusCode::NOT_FOUND, "Nobody answers calls of this name.")
        }
        Err(CallError::Malformed(why)) => {
            metrics.cluster_malformed.increment();
            plain(StatusCode::BAD_REQUEST, why)
        }
        Err(CallError::Refused(why)) => plain(StatusCode::CONFLICT, &why),
        Err(error) => plain(StatusCode::BAD_GATEWAY, &error.to_string()),
    }
}

/// Returns an answer that keeps the turn of its call until it has been sent.
fn held(answer: Bytes, turn: PeerTurn) -> Bytes {
    /// Answer and the turn of its call.
    struct AnswerInTurn(Bytes, #[expect(dead_code, reason = "dropped with the answer")] PeerTurn);

    impl AsRef<[u8]> for AnswerInTurn {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }

    if answer.is_empty() { answer } else { Bytes::from_owner(AnswerInTurn(answer, turn)) }
}

/// Returns the node that calls: by the node's name in its certificate, if it has shown one.
fn caller(client: &Client) -> Caller {
    let names = client.certificate.iter().flat_map(|certificate| &certificate.names);
    let name = names.map(|name| node_name_of(name.as_str())).find_map(|name| name);
    Caller { name, address: client.address }
}
