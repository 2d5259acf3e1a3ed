//! Datagrams between the nodes of a cluster, and the calls by which nodes join.

use shoal_cluster::keys::{ClusterKey, DATAGRAM_BYTES_MAX, KeyFile, KeyRing, Opener, SEAL_BYTES};
use shoal_cluster::membership::{
    JoinAnswer, JoinRequest, MEMBERS_MAX, Membership, MembershipOutput, NodeFacts, NodeIdentity,
};
use shoal_cooperation::{MemberState, NodeId};
use std::sync::LazyLock;
use std::time::Duration;

/// Bytes from outside never open. Messages of a member, however broken, leave a sound membership
/// whose own messages fit datagrams. The first byte picks the door.
pub fn datagrams(data: &[u8]) {
    let Some((door, rest)) = data.split_first() else { return };
    match door % 3 {
        0 => outside(rest),
        1 => member(rest),
        _ => joining(rest),
    }
}

fn outside(datagram: &[u8]) {
    for ring in [&*SEALED, &*OTHER] {
        let mut opener = Opener::new(ring, NodeId(1));
        assert!(opener.open(&mut datagram.to_vec()).is_err(), "a datagram without the key opens");
    }
    // Without keys a checksum may fit; then the body is within the datagram.
    let mut copy = datagram.to_vec();
    if let Ok(opened) = Opener::new(&KEYLESS, NodeId(1)).open(&mut copy) {
        assert_eq!(opened.body.len() + SEAL_BYTES, datagram.len());
        assert!(datagram.len() <= DATAGRAM_BYTES_MAX);
    }
}

fn member(message: &[u8]) {
    let (own, other) = (identity("own", 1), identity("other", 2));
    let mut membership = Membership::new(own.clone(), 1, Duration::ZERO);
    membership.on_members(Duration::ZERO, vec![foca_member(&membership, &other)]);
    let (mut now, source) = (Duration::ZERO, other.facts().address);
    for _ in 0..3 {
        now += Duration::from_millis(700);
        let _ = membership.on_message(now, (other.id, other.life), source, message);
        membership.on_timer(now);
        let outputs = std::iter::from_fn(|| membership.take_output());
        for output in outputs {
            if let MembershipOutput::Send { message, .. } = output {
                assert!(
                    message.len() + SEAL_BYTES <= DATAGRAM_BYTES_MAX,
                    "a message too long for a datagram"
                );
            }
        }
        let members = membership.members();
        assert!(members.len() <= MEMBERS_MAX && membership.own().id == own.id);
        assert!(members.iter().filter(|member| member.id == own.id).count() == 1, "this node once");
    }
}

fn joining(body: &[u8]) {
    let membership = Membership::new(identity("own", 1), 1, Duration::ZERO);
    if let Ok(request) = JoinRequest::decode(body, &membership) {
        assert_eq!(request.encode(), body, "a question has one form");
        assert!(request.node.facts().fault().is_none());
    }
    let _ = JoinAnswer::decode(body, &membership);
}

/// Returns another node as a list has it, by way of the bytes of a question.
fn foca_member(membership: &Membership, other: &NodeIdentity) -> Listed {
    let theirs = Membership::new(other.clone(), 2, Duration::ZERO);
    let request =
        JoinRequest { cluster: "a".into(), clock_ms: 1, node: other.clone(), members: theirs.list() };
    let request = JoinRequest::decode(&request.encode(), membership).expect("as written");
    request.members.into_iter().next().expect("itself")
}

fn identity(name: &str, number: u8) -> NodeIdentity {
    let address = ([10, 0, 0, number], 3131).into();
    NodeIdentity::new(
        7,
        NodeFacts { name: name.into(), address, weight: 1.0, state: MemberState::In, level: 0 },
    )
}

type Listed = shoal_cluster::membership::ListedMember;

static SEALED: LazyLock<KeyRing> = LazyLock::new(|| ring("a"));
static OTHER: LazyLock<KeyRing> = LazyLock::new(|| ring("b"));
static KEYLESS: LazyLock<KeyRing> = LazyLock::new(|| KeyRing::keyless("a"));

fn ring(cluster: &str) -> KeyRing {
    KeyRing::new(cluster, &KeyFile::of(vec![ClusterKey::new([7; 32])]))
}
