//! Suspicions: the time between the first doubt about a node and its death, by witnesses.
//!
//! From Lifeguard: one witness alone waits six times as long as several that agree. foca's updates
//! do not say which node suspects. Each witness therefore spreads an accusation of its own as a
//! custom broadcast:
//!
//! ```text
//! 0   suspect, u64   8   its life, u64   16  its revision, u32   20  its incarnation, u16
//! 22  witness, u64
//! ```
//!
//! Only a node that probed the suspect itself declares it dead; accusations shorten its wait.

use super::NodeIdentity;
use bytes::{Buf, BufMut};
use foca::{Incarnation, Timer};
use shoal_cooperation::NodeId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Accusation of a node by a witness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Accusation {
    pub suspect: NodeId,
    pub life: u64,
    pub revision: u32,
    pub incarnation: Incarnation,
    pub witness: NodeId,
}

/// Suspicions of this node that wait for their end.
#[derive(Debug, Default)]
pub(super) struct Suspicions {
    pending: BTreeMap<NodeId, Suspicion>,
}

/// One suspicion.
#[derive(Debug)]
struct Suspicion {
    identity: NodeIdentity,
    incarnation: Incarnation,
    timer: Timer<NodeIdentity>,
    since: Duration,
    shortest: Duration,
    /// Witnesses, beside this node, that shorten the wait to the shortest.
    needed: usize,
    witnesses: BTreeSet<NodeId>,
}

impl Accusation {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(ACCUSATION_BYTES);
        bytes.put_u64(self.suspect.0);
        bytes.put_u64(self.life);
        bytes.put_u32(self.revision);
        bytes.put_u16(self.incarnation);
        bytes.put_u64(self.witness.0);
        debug_assert_eq!(bytes.len(), ACCUSATION_BYTES);
        bytes
    }

    pub(super) fn decode(mut bytes: &[u8]) -> Option<Self> {
        (bytes.len() == ACCUSATION_BYTES).then(|| Self {
            suspect: NodeId(bytes.get_u64()),
            life: bytes.get_u64(),
            revision: bytes.get_u32(),
            incarnation: bytes.get_u16(),
            witness: NodeId(bytes.get_u64()),
        })
    }

    fn concerns(&self, identity: &NodeIdentity, incarnation: Incarnation) -> bool {
        let accused = (self.suspect, self.life, self.revision, self.incarnation);
        accused == (identity.id, identity.life, identity.revision, incarnation)
    }
}

impl Suspicions {
    /// Begins a suspicion. Returns `false` if the node is under this suspicion already.
    pub(super) fn begin(
        &mut self,
        now: Duration,
        identity: &NodeIdentity,
        incarnation: Incarnation,
        timer: Timer<NodeIdentity>,
        (shortest, needed): (Duration, usize),
    ) -> bool {
        let same = |known: &Suspicion| known.identity == *identity && known.incarnation == incarnation;
        if self.pending.get(&identity.id).is_some_and(same) {
            return false;
        }
        let (identity, witnesses) = (identity.clone(), BTreeSet::new());
        let id = identity.id;
        let suspicion = Suspicion { identity, incarnation, timer, since: now, shortest, needed, witnesses };
        self.pending.insert(id, suspicion);
        true
    }

    /// Notes a witness.
    pub(super) fn confirm(&mut self, accusation: &Accusation) {
        let Some(suspicion) = self.pending.get_mut(&accusation.suspect) else { return };
        let concerns = accusation.concerns(&suspicion.identity, suspicion.incarnation);
        if concerns && suspicion.witnesses.len() < suspicion.needed {
            suspicion.witnesses.insert(accusation.witness);
        }
    }

    /// Returns the end of the suspicion that ends first.
    pub(super) fn next_end(&self) -> Option<Duration> {
        self.pending.values().map(Suspicion::end).min()
    }

    /// Removes a suspicion that has ended.
    pub(super) fn take_ended(&mut self, now: Duration) -> Option<Timer<NodeIdentity>> {
        let ended = self.pending.iter().find(|(_, suspicion)| suspicion.end() <= now);
        let id = *ended?.0;
        self.pending.remove(&id).map(|suspicion| suspicion.timer)
    }

    /// Forgets the suspicion of a node that is gone or answered.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.pending.remove(&node);
    }
}

impl Suspicion {
    fn end(&self) -> Duration {
        if self.needed == 0 {
            return self.since + self.shortest;
        }
        let longest = self.shortest * LONGEST;
        let share = (self.witnesses.len() as f64 + 1.0).ln() / (self.needed as f64 + 1.0).ln();
        debug_assert!((0.0..=1.0).contains(&share), "no more witnesses than needed");
        self.since + longest - (longest - self.shortest).mul_f64(share)
    }
}

/// Longest wait, in shortest ones.
const LONGEST: u32 = 6;

/// Most witnesses that a suspicion needs beside its own.
pub(super) const WITNESSES_MAX: usize = 3;

const ACCUSATION_BYTES: usize = 30;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::NodeFacts;
    use shoal_cooperation::MemberState;

    fn suspect() -> NodeIdentity {
        let address = ([10, 0, 0, 1], 1).into();
        NodeIdentity::new(
            3,
            NodeFacts { name: "s".into(), address, weight: 1.0, state: MemberState::In, level: 0 },
        )
    }

    #[test]
    fn witnesses_shorten_the_wait() {
        let (identity, second) = (suspect(), Duration::from_secs(1));
        let timer = Timer::RemoveDown(identity.clone());
        let mut suspicions = Suspicions::default();
        assert!(suspicions.begin(Duration::ZERO, &identity, 2, timer.clone(), (second, 3)));
        assert!(!suspicions.begin(second, &identity, 2, timer, (second, 3)), "the first counts");
        assert_eq!(suspicions.next_end(), Some(second * 6));
        let mut accusation =
            Accusation { suspect: identity.id, life: 3, revision: 0, incarnation: 2, witness: NodeId(1) };
        assert_eq!(Accusation::decode(&accusation.encode()), Some(accusation));
        suspicions.confirm(&accusation);
        suspicions.confirm(&accusation);
        assert_eq!(suspicions.next_end(), Some(Duration::from_millis(3500)), "one witness counts once");
        for witness in 2..9 {
            suspicions.confirm(&Accusation { witness: NodeId(witness), incarnation: 1, ..accusation });
        }
        assert_eq!(suspicions.next_end(), Some(Duration::from_millis(3500)), "an earlier suspicion");
        for witness in 2..9 {
            accusation.witness = NodeId(witness);
            suspicions.confirm(&accusation);
        }
        assert_eq!(suspicions.next_end(), Some(second));
        assert!(suspicions.take_ended(Duration::from_millis(999)).is_none());
        assert!(suspicions.take_ended(second).is_some());
        assert_eq!(suspicions.next_end(), None);
    }
}
