//! Steps between the disks of the settings and those of the store, without a disk.

use super::*;
use shoal_core::ByteCount;
use shoal_store::Usage;
use shoal_store::disks::DiskChange;

fn disk(path: &str, bytes: u64) -> Disk {
    Disk { path: path.into(), bytes: ByteCount(bytes), endurance: None }
}

fn state(path: &str, bytes: u64, change: Option<ChangeKind>) -> DiskState {
    DiskState {
        number: 0,
        path: path.into(),
        bytes,
        service: ServiceState::InService,
        why: String::new(),
        usage: Usage::default(),
        failures: 0,
        is_recovering: false,
        ring: None,
        change: change.map(|kind| DiskChange { kind, percent: 0, copied: 0, copied_bytes: 0, dropped: 0 }),
    }
}

fn next(wanted: &[Disk], states: &[DiskState], walks: &[(&str, Walk)]) -> Action {
    let walks = walks.iter().map(|(path, walk)| ((*path).to_owned(), *walk)).collect();
    next_action(wanted, states, &walks, &HashMap::new())
}

#[test]
fn equal_disks_need_no_step() {
    let (wanted, states) = ([disk("a", 5), disk("b", 6)], [state("b", 6, None), state("a", 5, None)]);
    assert_eq!(next(&wanted, &states, &[]), Action::Nothing);
    assert_eq!(next(&[], &[], &[]), Action::Nothing);
}

#[test]
fn move_adds_before_it_copies() {
    let (wanted, leaving) = ([disk("b", 5)], Some(ChangeKind::Leaving));
    assert_eq!(next(&wanted, &[state("a", 5, None)], &[]), Action::Add(disk("b", 5)));
    let both = [state("a", 5, None), state("b", 5, None)];
    assert_eq!(next(&wanted, &both, &[]), Action::BeginLeaving("a".into()));
    let both = [state("a", 5, leaving), state("b", 5, None)];
    let walk = |next| Walk { next, to_bytes: 0 };
    assert_eq!(next(&wanted, &both, &[]), Action::Copy("a".into(), walk(Some(0))));
    assert_eq!(next(&wanted, &both, &[("a", walk(Some(7)))]), Action::Copy("a".into(), walk(Some(7))));
    assert_eq!(next(&wanted, &both, &[("a", walk(None))]), Action::EndLeaving("a".into()));
    let silent = DiskState { service: ServiceState::Failed, ..both[0].clone() };
    assert_eq!(next(&wanted, &[silent, both[1].clone()], &[]), Action::EndLeaving("a".into()));
}

#[test]
fn disk_that_comes_back_stays() {
    let states = [state("a", 5, Some(ChangeKind::Leaving)), state("b", 5, None)];
    assert_eq!(next(&[disk("a", 5), disk("b", 5)], &states, &[]), Action::Add(disk("a", 5)));
}

#[test]
fn smaller_disk_copies_before_it_is_opened_again() {
    let (wanted, states) = ([disk("a", 5)], [state("a", 9, None)]);
    let walk = |next, to_bytes| Walk { next, to_bytes };
    assert_eq!(next(&wanted, &states, &[]), Action::BeginShrinking(disk("a", 5)));
    let begun = walk(Some(3), 5);
    assert_eq!(next(&wanted, &states, &[("a", begun)]), Action::Copy("a".into(), begun));
    assert_eq!(next(&wanted, &states, &[("a", walk(None, 5))]), Action::Resize(disk("a", 5)));
    // A reload in the middle asks for another size.
    assert_eq!(next(&wanted, &states, &[("a", walk(Some(3), 7))]), Action::BeginShrinking(disk("a", 5)));
    assert_eq!(next(&[disk("a", 12)], &states, &[("a", begun)]), Action::Resize(disk("a", 12)));
    let out = DiskState { service: ServiceState::Offline, ..states[0].clone() };
    assert_eq!(next(&wanted, &[out], &[]), Action::Resize(disk("a", 5)));
}

#[test]
fn failed_change_waits_for_other_settings() {
    let failed: HashMap<String, u64> = [("a".to_owned(), 5)].into();
    let states = [state("a", 9, None), state("b", 1, None)];
    let wanted = [disk("a", 5), disk("b", 1)];
    assert_eq!(next_action(&wanted, &states, &HashMap::new(), &failed), Action::Nothing);
    let wanted = [disk("a", 6), disk("b", 1)];
    assert_eq!(next_action(&wanted, &states, &HashMap::new(), &failed), Action::BeginShrinking(disk("a", 6)));
}
