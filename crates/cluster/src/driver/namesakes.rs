//! Namesakes: two living nodes with one name. The node that started first keeps the name.
//!
//! A seed refuses a joining namesake. Yet nodes also ask seeds that are strangers to them, and such
//! a seed may be the namesake. Both sides of that exchange therefore check the other's list:
//!
//! ```text
//! asked node    its own name stands in the list, at another address that answers: it goes alone
//! asking node   a member would be displaced that still answers: the list's entry is left out
//! ```

use super::ClusterNode;
use super::control::WHO_CALL;
use crate::membership::NodeIdentity;
use foca::{Member, State};

impl ClusterNode {
    /// Returns `true` if this very node still answers at its address.
    pub(super) async fn lives(&self, known: &NodeIdentity) -> bool {
        if *known == *self.membership.lock().own() {
            return true;
        }
        let answer = self.sealed_call(known.facts().address, WHO_CALL, Vec::new()).await;
        let identity = answer.ok().and_then(|bytes| NodeIdentity::decode(&mut &bytes[..]));
        identity.is_some_and(|found| (found.id, found.life) == (known.id, known.life))
    }

    /// Returns the living node that has this node's name, if a list of members shows one.
    pub(super) async fn own_namesake(&self, members: &[Member<NodeIdentity>]) -> Option<NodeIdentity> {
        let own = self.membership.lock().own().clone();
        let is_namesake = |member: &&Member<NodeIdentity>| {
            member.state() != State::Down && displaces(&own, member.id()) && member.id().life < own.life
        };
        let namesake = members.iter().find(is_namesake)?.id();
        self.lives(namesake).await.then(|| namesake.clone())
    }

    /// Leaves members out of a list that have the name of another member that still answers.
    pub(super) async fn without_namesakes(
        &self,
        members: Vec<Member<NodeIdentity>>,
    ) -> Vec<Member<NodeIdentity>> {
        let mut kept = Vec::with_capacity(members.len());
        let mut calls = 0;
        for member in members {
            let known = self.membership.lock().known(member.id().id);
            if let Some((known, true)) = known
                && displaces(&known, member.id())
            {
                calls += 1;
                if calls > CALLS_MAX || self.lives(&known).await {
                    let (new, old) = (member.id().facts(), known.facts());
                    tracing::warn!(
                        "left out the node at {}: the living node at {} has its name {}; give one of them another \
                         cluster.node",
                        new.address,
                        old.address,
                        old.name
                    );
                    continue;
                }
            }
            kept.push(member);
        }
        kept
    }
}

/// Returns `true` if one node would take the other's place in a list of members.
fn displaces(known: &NodeIdentity, new: &NodeIdentity) -> bool {
    known.id == new.id && known.life != new.life && known.facts().address != new.facts().address
}

/// Most calls for one list. Members beyond that wait for the next list.
const CALLS_MAX: usize = 8;
