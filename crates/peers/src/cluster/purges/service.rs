//! Service: answers the calls of peers about purges.

use super::ClusterPurges;
use super::turn::TurnJob;
use bytes::Bytes;
use shoal_cluster::{CALL_BYTES_MAX, CallError, CallFuture, Caller, PeerService};
use shoal_cooperation::NodeId;
use shoal_cooperation::invalidation::{MALFORMED_PURGE, Message, Purge};
use std::sync::Arc;
use tokio::sync::oneshot;

/// Answers the calls with names that begin with `purges/`.
pub struct PurgeService(pub Arc<ClusterPurges>);

impl PeerService for PurgeService {
    fn answer(&self, from: Caller, name: &str, body: Bytes) -> CallFuture<'_> {
        let message = Message::decode(&body);
        let name = name.to_owned();
        Box::pin(async move {
            let message = message.ok_or(CallError::Malformed(MALFORMED_PURGE))?;
            let answer = match (name.as_str(), message) {
                ("purges/apply", Message::Apply { from: sender, purges }) => {
                    self.0.check_sender(&from, sender)?;
                    self.0.apply_for(sender, purges).await?
                }
                ("purges/compare", Message::Compare { from: sender, hash }) => {
                    self.0.check_sender(&from, sender)?;
                    self.0.compared_by(sender, hash)
                }
                ("purges/pull", Message::Current { vector, .. }) => {
                    let state = self.0.state.lock();
                    Message::Repaired(state.ledger.repair(&vector, CALL_BYTES_MAX / 2))
                }
                ("purges/apply" | "purges/compare" | "purges/pull", _) => {
                    return Err(CallError::Malformed(MALFORMED_PURGE));
                }
                _ => return Err(CallError::Unknown),
            };
            Ok(answer.encode().into())
        })
    }
}

impl ClusterPurges {
    /// Refuses a sender with another name than that in its certificate. In the clear the call must
    /// come from the sender's address.
    fn check_sender(&self, from: &Caller, sender: NodeId) -> Result<(), CallError> {
        let is_it = match &from.name {
            Some(name) => NodeId::named(name) == sender,
            None => (self.view)()
                .member(sender)
                .is_none_or(|member| member.address.ip().to_canonical() == from.address.ip().to_canonical()),
        };
        if is_it && sender != self.node { Ok(()) } else { Err(CallError::Refused(OTHER_SENDER.into())) }
    }

    /// Applies purges of the sender, as far as its share goes.
    async fn apply_for(&self, sender: NodeId, mut purges: Vec<Purge>) -> Result<Message, CallError> {
        let Some(life) = purges.first().map(|purge| purge.id.life) else {
            return Err(CallError::Malformed(MALFORMED_PURGE));
        };
        if !purges.iter().all(|purge| purge.id.origin == sender && purge.id.life == life) {
            return Err(CallError::Refused(OTHER_SENDER.into()));
        }
        let is_busy = {
            let mut state = self.state.lock();
            purges.retain(|purge| !state.ledger.vector().has(purge.id));
            let wanted = purges.len() as u64;
            let granted = state.share.take(sender, wanted, crate::clock::now());
            purges.truncate(granted as usize);
            self.metrics.cluster_purges_limited.add(wanted - granted);
            granted < wanted
        };
        if !purges.is_empty() {
            let (reply, told) = oneshot::channel();
            self.jobs
                .try_send(TurnJob::Foreign { purges, reply })
                .map_err(|_| CallError::Refused(TOO_MANY.into()))?;
            if !told.await.unwrap_or(false) {
                return Err(CallError::Refused(NOT_WRITTEN.into()));
            }
        }
        let number = self.state.lock().ledger.vector().number(sender, life);
        Ok(Message::Applied { number, is_busy })
    }

    /// Answers a comparison. If the vectors differ, this node compares too.
    fn compared_by(self: &Arc<Self>, sender: NodeId, hash: u64) -> Message {
        let state = self.state.lock();
        if state.ledger.vector().hash() == hash {
            return Message::Same;
        }
        let is_former = state.ledger.coverage(hash) == shoal_cooperation::invalidation::Coverage::Covered;
        let answer = Message::Current { from: self.node, vector: state.ledger.vector().clone() };
        drop(state);
        if !is_former {
            self.compare_with_node(sender);
        }
        answer
    }
}

const OTHER_SENDER: &str = "the purges are not those of the node that sends them";
const TOO_MANY: &str = "too many purges wait";
const NOT_WRITTEN: &str = "the purges could not be written down";
