//! Service that answers the calls `members/join` and `members/who` of other nodes.

use super::control::{JOIN_CALL, WHO_CALL, refuse};
use super::{ClusterNode, unix_ms};
use crate::keys::CallDirection;
use crate::membership::{JoinRequest, JoinVerdict, NodeIdentity, PROTOCOL_VERSION};
use crate::{CallError, CallFuture, Caller, PeerService};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Service of the membership.
pub(super) struct MembersService(pub Arc<ClusterNode>);

impl PeerService for MembersService {
    fn answer(&self, from: Caller, name: &str, body: Bytes) -> CallFuture<'_> {
        let (is_join, is_who) = (name == JOIN_CALL, name == WHO_CALL);
        Box::pin(async move {
            let call = match (is_join, is_who) {
                (true, _) => JOIN_CALL,
                (_, true) => WHO_CALL,
                _ => return Err(CallError::Unknown),
            };
            let ring = self.0.ring.load_full();
            let opened = ring.open_call(CallDirection::Question, call, &body);
            let answer = match opened {
                None => Err("the question is not sealed with a key of this cluster; compare the key files \
                             (cluster.key_file)"
                    .into()),
                // A sealed question begins with the number of a key.
                Some(body) if ring.is_keyless() && is_join && body.first() != Some(&PROTOCOL_VERSION) => {
                    Err(UNLIKE.into())
                }
                Some(_) if is_who => {
                    let mut identity = Vec::new();
                    self.0.membership.lock().own().encode(&mut identity);
                    Ok(identity)
                }
                Some(body) => self.join(&from, &body).await,
            };
            let answer = answer.map_err(|why: String| {
                self.0.counters.joins_refused.fetch_add(1, Relaxed);
                if self.0.refusals.lock().is_news(from.address.ip(), &why, self.0.now()) {
                    tracing::warn!("refused a node at {}: {why}", from.address);
                }
                CallError::Refused(why)
            })?;
            let sealed = ring.seal_call(CallDirection::Answer, call, answer);
            sealed.map(Bytes::from).map_err(|error| CallError::Refused(error.to_string()))
        })
    }
}

impl MembersService {
    async fn join(&self, from: &Caller, body: &[u8]) -> Result<Vec<u8>, String> {
        let (mut request, verdict) = {
            let membership = self.0.membership.lock();
            let request = JoinRequest::decode(body, &membership)?;
            let verdict = membership.judge(&request.node);
            (request, verdict)
        };
        if let Some(why) = request.fault(&self.0.options.cluster, unix_ms()) {
            return Err(why);
        }
        if let Some(other) = self.0.own_namesake(&request.members).await {
            refuse(&self.0, namesake(&other));
            return Err(namesake(&other));
        }
        let name = &request.node.facts().name;
        if let Some(proved) = from.name.as_ref().filter(|proved| *proved != name) {
            return Err(format!("the certificate is for {proved}, the question from {name}"));
        }
        let later = match verdict {
            JoinVerdict::Welcome => None,
            JoinVerdict::LaterLife(life) => Some(life),
            JoinVerdict::NameTaken(known) if self.0.lives(&known).await => {
                return Err(namesake(&known));
            }
            JoinVerdict::NameTaken(known) => (request.node.life <= known.life).then_some(known.life),
        };
        let answer = match later {
            Some(life) => crate::membership::JoinAnswer::LaterLife(life),
            None => {
                request.members = self.0.without_namesakes(request.members).await;
                self.0.membership.lock().welcome(self.0.now(), request, unix_ms())
            }
        };
        self.0.wake.notify_one();
        Ok(answer.encode())
    }
}

/// Sentence about a living node and another that wants its name.
fn namesake(known: &NodeIdentity) -> String {
    let facts = known.facts();
    format!(
        "the living node at {} has the name {}; give one of them another cluster.node",
        facts.address, facts.name
    )
}

/// Reason for a question that a node without keys cannot read.
const UNLIKE: &str = "the question is sealed with a key and the asked node has none, or the nodes are of different \
                      versions; set the same cluster.key_file on all nodes";
