//! Tests of the whole model: costs of calls, effects of memory and time, and behaviour as a file
//! system.

mod costs;
mod mapped;
mod stores;
mod whole;

#[path = "../../../store/src/fs/tests/behaviour.rs"]
mod behaviour;

use super::*;
use shoal_store::fs::{MappedAccess, read_full, write_full};

/// Returns the finite machine with one small disk, quick to make.
fn machine() -> Machine {
    let mut machine = Machine::finite();
    machine.disks[0].model.cylinders = 320;
    machine
}

/// Returns the transfers that `act` causes, as reads and writes by kind: Data, Directory, Inode,
/// Indirect, Group. Leaves out transfers to a log.
fn cost(door: &Ufs1999, act: impl FnOnce()) -> [[u64; 5]; 2] {
    let before = door.report();
    act();
    let report = door.report() - &before;
    let kinds =
        [BlockKind::Data, BlockKind::Directory, BlockKind::Inode, BlockKind::Indirect, BlockKind::Group];
    [false, true].map(|is_write| {
        kinds.map(|kind| report.sum(|traffic| traffic.is_write == is_write && traffic.kind == kind).count)
    })
}

fn put(door: &Ufs1999, path: &str, bytes: usize) {
    write_full(&*door.create(path).unwrap(), &body(bytes), 0).unwrap();
}

fn fetch(door: &Ufs1999, path: &str) -> Vec<u8> {
    let mut bytes = vec![0; door.length(path).unwrap() as usize];
    shoal_store::fs::read_full(&*door.open(path, Access::Read).unwrap(), &mut bytes, 0).unwrap();
    bytes
}

fn body(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at % 251) as u8).collect()
}

const NOTHING: [[u64; 5]; 2] = [[0; 5]; 2];

#[test]
fn machine_behaves_as_a_file_system() {
    behaviour::behaves(&*Ufs1999::new(Machine::finite()));
}
