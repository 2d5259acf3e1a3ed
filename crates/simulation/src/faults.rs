//! Faults of the nodes, the network and the origin of a run.

use crate::network::Links;
use crate::random::Random;
use std::time::Duration;

/// Kind of fault of a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum FaultKind {
    /// None.
    Calm,
    /// Links lose, repeat and reorder.
    RoughNetwork,
    /// Single directions or pairs of nodes are cut.
    Cuts,
    /// The network falls into two parts.
    Partitions,
    /// Nodes are killed, and start with the contents of their disk.
    Kills,
    /// Nodes stand still for a while.
    Freezes,
    /// Nodes restart with clocks hours apart.
    Clocks,
    /// Nodes have wrong views.
    WrongViews,
    /// Nodes send wrong bodies.
    Liars,
    /// Nodes answer late.
    SlowPeers,
    /// The origin is slow or fails.
    BadOrigin,
    /// Most objects have one home, and the origin is slow.
    Overload,
    /// Nodes leave and join.
    Churn,
    /// All of these.
    Everything,
}

impl FaultKind {
    /// All kinds.
    pub const ALL: [Self; 14] = [
        Self::Calm,
        Self::RoughNetwork,
        Self::Cuts,
        Self::Partitions,
        Self::Kills,
        Self::Freezes,
        Self::Clocks,
        Self::WrongViews,
        Self::Liars,
        Self::SlowPeers,
        Self::BadOrigin,
        Self::Overload,
        Self::Churn,
        Self::Everything,
    ];

    /// Returns the links of a run with this fault.
    pub fn links(self) -> Links {
        match self {
            Self::RoughNetwork | Self::Everything => Links::ROUGH,
            _ => Links::LOCAL,
        }
    }

    /// Returns `true` if clocks of nodes differ.
    pub fn has_clocks(self) -> bool {
        matches!(self, Self::Clocks | Self::Everything)
    }

    /// Draws the next fault.
    pub fn draw(self, nodes: usize, random: &mut Random) -> Option<Fault> {
        let node = random.index(nodes);
        let other = (node + 1 + random.index(nodes.max(2) - 1)) % nodes;
        assert!(node != other || nodes == 1, "a link has two ends");
        Some(match self {
            Self::Calm | Self::RoughNetwork => return None,
            Self::Cuts => Fault::Cut(node, other, random.chance(0.5)),
            Self::Partitions => Fault::Split((0..nodes).map(|_| random.chance(0.5)).collect()),
            Self::Kills | Self::Clocks => Fault::Kill(node, random.chance(0.7)),
            Self::Freezes => Fault::Freeze(node),
            Self::WrongViews => Fault::WrongView(node),
            Self::Liars => Fault::Lie(node),
            Self::SlowPeers => Fault::Slow(node, random.around(Duration::from_millis(80))),
            Self::BadOrigin | Self::Overload => Fault::Origin(random.chance(0.3)),
            Self::Churn => Fault::Leave(node),
            Self::Everything => {
                let kind = Self::ALL[2 + random.index(Self::ALL.len() - 3)];
                return kind.draw(nodes, random);
            }
        })
    }
}

/// Fault that begins.
#[derive(Clone, PartialEq, Debug)]
pub enum Fault {
    /// Cut from one node to another, or both ways.
    Cut(usize, usize, bool),
    /// Part of each node.
    Split(Vec<bool>),
    /// Kill; with `true` connections to the node are refused, else the host is silent.
    Kill(usize, bool),
    /// Stand still.
    Freeze(usize),
    /// Believe in other members.
    WrongView(usize),
    /// Send wrong bodies.
    Lie(usize),
    /// Send and receive late.
    Slow(usize, Duration),
    /// Origin slow, or failing with `true`.
    Origin(bool),
    /// Leave in order.
    Leave(usize),
}

/// End of a fault.
#[derive(Clone, PartialEq, Debug)]
pub enum Recovery {
    /// Mend these directions.
    Mend(Vec<(usize, usize)>),
    /// Start the node.
    Start(usize),
    /// Go on.
    Thaw(usize),
    /// Tell the truth again.
    Honest(usize),
    /// Answer in time again.
    Quick(usize),
    /// Answer well again.
    Origin,
    /// End the process of a node that has left.
    Stop(usize),
}
