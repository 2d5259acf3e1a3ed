//! Tests of a peer's health.

use super::*;

const LONGEST: Duration = Duration::from_secs(1);

fn at(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn answered(health: &mut PeerHealth, count: u64, latency: Duration, from: u64) {
    (0..count).for_each(|step| health.answered(latency, at(from + step)));
}

#[test]
fn timeout_follows_the_peers_own_answers() {
    let mut health = PeerHealth::new(LONGEST);
    assert_eq!(health.timeout(), LONGEST, "nothing is known yet");
    answered(&mut health, 1_000, at(60), 0);
    assert!((at(180)..at(220)).contains(&health.timeout()), "{:?}", health.timeout());
    answered(&mut health, 4_000, Duration::from_micros(200), 300_000);
    assert_eq!(health.timeout(), TIMEOUT_MIN);
    answered(&mut health, 4_000, at(900), 400_000);
    assert_eq!(health.timeout(), LONGEST);
}

#[test]
fn slower_peer_gets_more_time_after_timeouts() {
    let mut health = PeerHealth::new(LONGEST);
    answered(&mut health, 1_000, at(2), 0);
    assert_eq!(health.timeout(), TIMEOUT_MIN);
    let mut now = 2_000;
    for _ in 0..200 {
        now += 250;
        match health.admit(at(now)) {
            PeerAdmission::Ask(timeout) if timeout >= at(300) => health.answered(at(300), at(now)),
            PeerAdmission::Ask(timeout) => health.timed_out(timeout, at(now)),
            PeerAdmission::Skip(_) => {}
        }
    }
    assert!(health.timeout() > at(300) && health.status().skipped.is_none(), "{:?}", health.status());
}

#[test]
fn refusal_opens_at_once_and_pauses_grow() {
    let mut health = PeerHealth::new(LONGEST);
    let mut now = at(0);
    let mut pauses = Vec::new();
    for _ in 0..10 {
        assert!(matches!(health.admit(now), PeerAdmission::Ask(_)));
        health.refused(now);
        let opened = now;
        while health.admit(now) == PeerAdmission::Skip(SkipReason::Refused) {
            now += at(50);
        }
        health.abandoned(now);
        pauses.push(now - opened);
    }
    assert_eq!(pauses[..4], [at(100), at(200), at(400), at(800)]);
    assert_eq!(pauses[9], PAUSE_MAX);
    assert!(health.status().counts.skipped_refused > 0);
}

#[test]
fn one_probe_at_a_time_and_an_answer_closes() {
    let mut health = PeerHealth::new(LONGEST);
    health.refused(at(0));
    health.answered(at(1), at(1));
    assert_eq!(health.admit(at(99)), PeerAdmission::Skip(SkipReason::Refused), "a late answer");
    assert!(matches!(health.admit(at(100)), PeerAdmission::Ask(_)));
    assert_eq!(health.admit(at(100)), PeerAdmission::Skip(SkipReason::Refused), "one is under way");
    health.answered(at(1), at(101));
    assert!((0..50).all(|_| matches!(health.admit(at(102)), PeerAdmission::Ask(_))));
    assert_eq!(health.status().skipped, None);
}

#[test]
fn lost_probe_does_not_end_probes() {
    let mut health = PeerHealth::new(LONGEST);
    health.refused(at(0));
    assert!(matches!(health.admit(at(100)), PeerAdmission::Ask(_)));
    assert!(matches!(health.admit(at(1_000)), PeerAdmission::Skip(_)));
    assert!(matches!(health.admit(at(2_100)), PeerAdmission::Ask(_)));
}

#[test]
fn timeouts_open_only_in_a_row() {
    let mut health = PeerHealth::new(LONGEST);
    for step in 1..50 {
        health.timed_out(at(20), at(step * 100));
        health.timed_out(at(20), at(step * 100 + 20));
        health.answered(at(1), at(step * 100 + 30));
    }
    assert_eq!(health.status().skipped, None);
    (0..3).for_each(|step| health.timed_out(at(20), at(6_000 + step * 20)));
    assert_eq!(health.status().skipped, Some(SkipReason::TimedOut));
    (0..100).for_each(|_| health.timed_out(at(20), at(6_100)));
    assert_eq!(health.status().counts.opened, 1, "asks of before make no longer pause");
    assert!(matches!(health.admit(at(6_140)), PeerAdmission::Ask(_)));
    health.timed_out(at(20), at(6_160));
    assert!(matches!(health.admit(at(6_359)), PeerAdmission::Skip(_)));
}

#[test]
fn one_pause_with_many_asks_is_one_timeout() {
    let mut health = PeerHealth::new(LONGEST);
    answered(&mut health, 1_000, at(1), 0);
    // Forty asks were under way when the peer stood still for 0.15 s.
    (0..40).for_each(|step| health.timed_out(TIMEOUT_MIN, at(2_100 + step)));
    assert_eq!(health.status().skipped, None);
    assert_eq!(health.status().counts.timed_out, 40);
    // Each of the next two was sent after the time-out before.
    health.timed_out(TIMEOUT_MIN * 2, at(2_300));
    health.timed_out(TIMEOUT_MIN * 2, at(2_301));
    assert_eq!(health.status().skipped, None);
    health.timed_out(TIMEOUT_MIN * 4, at(2_700));
    assert_eq!(health.status().skipped, Some(SkipReason::TimedOut));
}

#[test]
fn pauses_begin_small_again_after_good_times() {
    let mut health = PeerHealth::new(LONGEST);
    let mut now = at(0);
    for _ in 0..8 {
        health.refused(now);
        now += PAUSE_MAX;
        assert!(matches!(health.admit(now), PeerAdmission::Ask(_)));
    }
    health.answered(at(1), now);
    now += PAUSE_MAX * 2;
    health.refused(now);
    assert!(matches!(health.admit(now + PAUSE_MIN), PeerAdmission::Ask(_)));
}

#[test]
fn liar_is_set_aside_for_growing_times() {
    let mut health = PeerHealth::new(LONGEST);
    health.lied(at(0));
    health.lied(at(1));
    assert_eq!(health.admit(at(59_999)), PeerAdmission::Skip(SkipReason::Lied));
    assert!(matches!(health.admit(at(60_000)), PeerAdmission::Ask(_)));
    health.lied(at(60_000));
    assert_eq!(health.admit(at(179_999)), PeerAdmission::Skip(SkipReason::Lied));
    assert!(matches!(health.admit(at(180_000)), PeerAdmission::Ask(_)));
    health.answered(at(1), at(180_001));
    assert_eq!(health.status().skipped, None);
    assert_eq!(health.status().counts.lied, 3);
}
