//! Tests of the steps of a miss.

use super::*;
use crate::view::{Member, MemberState, View};
use shoal_core::KeySecret;

const BUDGET: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_millis(300);

fn homes() -> (Homes, [NodeId; 3]) {
    let members = (1..=3).map(|number| Member {
        id: NodeId(number),
        name: format!("node{number}").into(),
        address: ([127, 0, 0, 1], 3131).into(),
        weight: 1.0,
        state: MemberState::In,
        life: 1,
        level: 0,
    });
    let homes = View::new(members.collect(), KeySecret::NONE).homes(b"http://a.test/");
    let nodes: Vec<_> = homes.iter().collect();
    (homes, nodes.try_into().expect("three homes"))
}

fn miss(part: Part, here: NodeId) -> Miss {
    let (homes, _) = homes();
    let hops = if part == Part::Entry { 0 } else { 1 };
    let (entry, previous_home) = (NodeId(9), None);
    Miss { here, part, entry, homes, previous_home, hops, budget: BUDGET, origin_allowed: true }
}

fn ask(node: NodeId, kind: AskKind, hops: u8) -> Step {
    Step::Ask(Ask { node, kind, hops, timeout: TIMEOUT })
}

fn next(steps: &mut MissSteps) -> Step {
    steps.next(Duration::ZERO, |_| Some(TIMEOUT))
}

#[test]
fn entry_asks_homes_in_order_then_origin() {
    let (_, nodes) = homes();
    for result in [AskResult::Busy, AskResult::Behind, AskResult::Refused, AskResult::Unknown] {
        let mut steps = MissSteps::new(miss(Part::Entry, NodeId(9)));
        for node in nodes {
            assert_eq!(next(&mut steps), ask(node, AskKind::Home, 1));
            steps.answered(result);
        }
        assert_eq!(next(&mut steps), Step::Origin);
    }
}

#[test]
fn timeout_or_refusal_to_fetch_leads_to_origin() {
    for result in [AskResult::TimedOut, AskResult::Missing] {
        let mut steps = MissSteps::new(miss(Part::Entry, NodeId(9)));
        assert!(matches!(next(&mut steps), Step::Ask(_)));
        steps.answered(result);
        assert_eq!(next(&mut steps), Step::Origin);
    }
}

#[test]
fn entry_that_is_a_home_asks_only_homes_before_it() {
    let (_, nodes) = homes();
    for own in 0..3 {
        let mut steps = MissSteps::new(miss(Part::Entry, nodes[own]));
        for node in &nodes[..own] {
            assert_eq!(next(&mut steps), ask(*node, AskKind::Home, 1));
            steps.answered(AskResult::Busy);
        }
        assert_eq!(next(&mut steps), Step::Here);
    }
}

#[test]
fn home_asks_previous_home_as_holder_once() {
    let (_, nodes) = homes();
    let mut home = miss(Part::Home, nodes[0]);
    assert_eq!(next(&mut MissSteps::new(home)), Step::Origin);
    home.previous_home = Some(NodeId(7));
    let mut steps = MissSteps::new(home);
    assert_eq!(next(&mut steps), ask(NodeId(7), AskKind::Holder, 2));
    steps.answered(AskResult::Missing);
    assert_eq!(next(&mut steps), Step::Origin);
    for useless in [home.here, home.entry] {
        home.previous_home = Some(useless);
        assert_eq!(next(&mut MissSteps::new(home)), Step::Origin);
    }
}

#[test]
fn home_never_asks_a_home() {
    let (_, nodes) = homes();
    for here in [nodes[0], nodes[1], nodes[2], NodeId(8)] {
        for previous in [None, Some(nodes[0]), Some(nodes[1]), Some(NodeId(7))] {
            let mut steps = MissSteps::new(Miss { previous_home: previous, ..miss(Part::Home, here) });
            while let Step::Ask(ask) = next(&mut steps) {
                assert_eq!(ask.kind, AskKind::Holder);
                steps.answered(AskResult::Refused);
            }
        }
    }
}

#[test]
fn holder_and_last_hop_ask_nobody() {
    let holder = Miss { previous_home: Some(NodeId(7)), ..miss(Part::Holder, NodeId(8)) };
    assert_eq!(next(&mut MissSteps::new(holder)), Step::Unanswered);
    let far = Miss { hops: HOPS_MAX, part: Part::Home, ..holder };
    assert_eq!(next(&mut MissSteps::new(far)), Step::Origin);
    let absurd = Miss { hops: u8::MAX, ..far };
    assert_eq!(next(&mut MissSteps::new(absurd)), Step::Origin);
}

#[test]
fn stored_answers_only_ask_holders_then_nobody() {
    let mut steps = MissSteps::new(Miss { origin_allowed: false, ..miss(Part::Entry, NodeId(9)) });
    for node in homes().1 {
        assert_eq!(next(&mut steps), ask(node, AskKind::Holder, 1));
        steps.answered(AskResult::Missing);
    }
    assert_eq!(next(&mut steps), Step::Unanswered);
}

#[test]
fn peers_set_aside_are_skipped() {
    let (_, nodes) = homes();
    let mut steps = MissSteps::new(miss(Part::Entry, NodeId(9)));
    let first = nodes[0];
    let step = steps.next(Duration::ZERO, |node| (node != first).then_some(TIMEOUT));
    assert_eq!(step, ask(nodes[1], AskKind::Home, 1));
    let mut steps = MissSteps::new(miss(Part::Entry, NodeId(9)));
    assert_eq!(steps.next(Duration::ZERO, |_| None), Step::Origin);
}

#[test]
fn all_asks_share_one_budget() {
    let mut steps = MissSteps::new(miss(Part::Entry, NodeId(9)));
    assert!(matches!(next(&mut steps), Step::Ask(_)));
    steps.answered(AskResult::Busy);
    let step = steps.next(Duration::from_millis(900), |_| Some(TIMEOUT));
    assert!(matches!(step, Step::Ask(ask) if ask.timeout == Duration::from_millis(100)));
    steps.answered(AskResult::Busy);
    assert_eq!(steps.next(BUDGET, |_| Some(TIMEOUT)), Step::Origin);
}

#[test]
fn directory_asks_two_holders_then_origin() {
    let (_, nodes) = homes();
    for result in [AskResult::Missing, AskResult::Busy, AskResult::Behind, AskResult::Refused] {
        let miss = Miss { hops: 0, ..miss(Part::Directory, NodeId(9)) };
        let mut steps = MissSteps::new(miss);
        for node in &nodes[..2] {
            assert_eq!(next(&mut steps), ask(*node, AskKind::Holder, 1));
            steps.answered(result);
        }
        assert_eq!(next(&mut steps), Step::Origin);
    }
    let miss = Miss { hops: 0, ..miss(Part::Directory, nodes[0]) };
    let mut steps = MissSteps::new(miss);
    assert_eq!(next(&mut steps), ask(nodes[1], AskKind::Holder, 1), "never itself");
    steps.answered(AskResult::TimedOut);
    assert_eq!(next(&mut steps), Step::Origin, "one time-out in total");
}

fn upward(hops: u8, origin_allowed: bool) -> MissSteps {
    let parents = Homes::listed([NodeId(11), NodeId(12), NodeId(13)]);
    let siblings = Homes::listed([NodeId(1), NodeId(2), NodeId(3)]);
    let miss = Miss { homes: parents, hops, origin_allowed, ..miss(Part::Entry, NodeId(1)) };
    MissSteps::upward(miss, siblings)
}

#[test]
fn siblings_then_parents_then_origin() {
    let mut steps = upward(0, true);
    // The node itself is among the siblings, and is not asked.
    assert_eq!(next(&mut steps), ask(NodeId(2), AskKind::Holder, 1));
    steps.answered(AskResult::Missing);
    for parent in [11, 12] {
        assert_eq!(next(&mut steps), ask(NodeId(parent), AskKind::Home, 1));
        steps.answered(AskResult::Busy);
    }
    assert_eq!(next(&mut steps), Step::Origin);
}

#[test]
fn second_hop_of_a_hierarchy_is_the_last() {
    let mut steps = upward(1, true);
    assert_eq!(next(&mut steps), ask(NodeId(2), AskKind::Holder, 2));
    steps.answered(AskResult::Missing);
    assert_eq!(next(&mut steps), ask(NodeId(11), AskKind::Home, 2));
    steps.answered(AskResult::TimedOut);
    assert_eq!(next(&mut steps), Step::Origin, "one time-out is all");
    assert_eq!(next(&mut upward(2, true)), Step::Origin);
}

#[test]
fn stored_answers_alone_ask_all_as_holders() {
    let mut steps = upward(0, false);
    for node in [2, 11, 12] {
        assert_eq!(next(&mut steps), ask(NodeId(node), AskKind::Holder, 1));
        steps.answered(AskResult::Missing);
    }
    assert_eq!(next(&mut steps), Step::Unanswered);
}

#[test]
fn node_that_asked_is_not_asked_back() {
    let miss = Miss { entry: NodeId(11), homes: Homes::listed([NodeId(11)]), ..miss(Part::Home, NodeId(12)) };
    assert_eq!(next(&mut MissSteps::upward(miss, Homes::listed([NodeId(11)]))), Step::Origin);
}
