//! A node starts, answers, loses its disk and gets it back.

mod cluster;

use super::*;
use crate::purge_table::{PurgeScope, PurgeTable, Sequence};
use shoal_core::Timestamp;
use shoal_settings::Listen;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;

#[test]
fn every_worker_counts_at_a_place_of_its_own() {
    let mut settings = Settings { workers: 2, ..Settings::default() };
    settings.listen = vec![Listen::reverse((Ipv4Addr::LOCALHOST, 0).into())];
    settings.client.head_timeout = Duration::from_millis(1);
    settings.store.directory = Default::default();
    let node = Node::start(settings).expect("a node");
    for address in [node.addresses()[0]; 20] {
        let mut stream = TcpStream::connect(address).expect("it listens");
        let _ = stream.write_all(b"nonsense\r\n\r\n");
        let _ = stream.read_to_end(&mut Vec::new());
    }
    node.drain(Duration::from_secs(1));
    for counter in [&node.metrics.connections, &node.metrics.refused, &node.metrics.other] {
        assert_eq!((counter.value(), counter.owned_value()), (20, 20));
    }
}

#[test]
fn a_disk_that_there_is_none_of_is_no_unusable_store() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = with_store(&folder.path().join("store"));
    let refusal = node.set_disk_online("/nowhere", false).expect_err("there is no such disk");
    node.drain(Duration::ZERO);
    assert!(refusal.starts_with("no disk of the store is called \"/nowhere\"; there are: "), "{refusal}");
}

/// Starts a node with its store in this folder.
fn with_store(folder: &Path) -> Node {
    let mut settings = Settings { workers: 1, ..Settings::default() };
    settings.listen = vec![Listen::reverse((Ipv4Addr::LOCALHOST, 0).into())];
    settings.store.directory = folder.to_owned();
    settings.store.disk = shoal_core::ByteCount::mib(16);
    Node::start(settings).expect("a node")
}

/// Returns `true` if this process has a file in the folder open. An open file keeps a disk from
/// being unmounted.
fn is_open_in(folder: &Path) -> bool {
    let open = std::fs::read_dir("/proc/self/fd").expect("there").flatten();
    open.flat_map(|open| std::fs::read_link(open.path())).any(|file| file.starts_with(folder))
}

#[test]
fn offline_disk_unmounts_and_gets_purges_on_return() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store");
    let node = with_store(&store);
    let path = store.to_str().expect("UTF-8");
    let tag = || PurgeRequest::Tag("news".into());
    assert_eq!(node.purge(tag()), PurgeOutcome::Purged { responses: None });
    node.set_disk_online(path, false).expect("it is in service");
    let begun = Instant::now();
    while is_open_in(&store) {
        assert!(begun.elapsed() < Duration::from_secs(10), "a file of it stays open");
        std::thread::sleep(Duration::from_millis(5));
    }
    let asked = node.exchange.purge_table().sequence();
    // Another disk at the same path.
    std::fs::remove_dir_all(&store).expect("it was there");
    let PurgeOutcome::Failed(why) = node.purge(tag()) else { panic!("it cannot be written down") };
    assert!(why.contains("its disk is out of service"), "{why}");
    node.set_disk_online(path, true).expect("it can be opened");
    assert_eq!(node.purge(PurgeRequest::All), PurgeOutcome::Purged { responses: None });
    node.drain(Duration::ZERO);
    let purge_table =
        PurgeTable::open(&store.join("purges"), Timestamp::from_seconds(10)).expect("it was written");
    let is_purged = |name: PurgeScope<'_>| purge_table.is_purged(&[name.slot()], &[], asked);
    assert!(purge_table.knows(asked) && is_purged(PurgeScope::Tag("news")) && is_purged(PurgeScope::All));
    assert!(!is_purged(PurgeScope::Tag("sport")));
}

#[test]
fn unreadable_purge_table_hides_older_objects() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store");
    let started = |before: Option<Sequence>| {
        let node = with_store(&store);
        let purge_table = node.exchange.purge_table();
        let (now, is_purged) = (
            purge_table.sequence(),
            before.is_some_and(|before| purge_table.is_purged(&[PurgeScope::All.slot()], &[], before)),
        );
        assert!(!purge_table.is_purged(&[PurgeScope::All.slot()], &[], now), "what comes now is kept");
        node.drain(Duration::ZERO);
        (now, is_purged)
    };
    let (before, _) = started(None);
    assert!(!started(Some(before)).1, "there is a table");
    std::fs::remove_file(store.join("purges")).expect("it was there");
    std::fs::create_dir(store.join("purges")).expect("no file");
    assert!(started(Some(before)).1);
}

#[test]
fn settings_offer_all_store_choices() {
    let known: Vec<_> = shoal_store::architectures::ARCHITECTURES.iter().map(|row| row.name).collect();
    assert_eq!(shoal_settings::ARCHITECTURES, known);
    assert_eq!(shoal_settings::REPLACEMENTS, shoal_store::architectures::REPLACEMENTS);
}

#[test]
fn the_settings_offer_every_replacement_policy() {
    let offered = shoal_policy::POLICIES.iter().filter(|policy| !policy.needs_capacity);
    let known: BTreeSet<_> = offered.map(|policy| policy.name).collect();
    assert_eq!(BTreeSet::from_iter(shoal_settings::REPLACEMENTS.iter().copied()), known);
}
