//! Paths according to the papers' formulas.

use super::url::host_of;
use super::*;
use crate::fs::MemoryFs;
use std::collections::HashSet;

fn all(max_objects: u32) -> Vec<Box<dyn Naming>> {
    vec![
        Box::new(Squid::for_objects(max_objects)),
        Box::new(ClusteredNaming::monotonic(max_objects, 384)),
        Box::new(ClusteredNaming::lowest(max_objects, 4096)),
        Box::new(ByHost::for_objects(max_objects)),
    ]
}

#[test]
fn paths_follow_the_papers_formulas() {
    let squid = Squid::with([16, 256]).unwrap();
    for (number, path) in
        [(0, "00/00/00000000"), (1, "01/00/00000001"), (16, "00/01/00000010"), (0x12345, "05/34/00012345")]
    {
        assert_eq!(squid.path(number, 0), path);
    }
    let clustered = ClusteredNaming::with([16, 256, 384, 0], Numbers::Next).unwrap();
    for (number, path) in
        [(0, "00/00/000"), (383, "00/00/17F"), (384, "00/01/000"), (384 * 256 * 5 + 384 * 7 + 9, "05/07/009")]
    {
        assert_eq!(clustered.path(number, 0), path);
    }
}

#[test]
fn every_file_is_found_under_its_path_again() {
    for max_objects in [1, 300, 100_000, 3_000_000] {
        for naming in all(max_objects) {
            for n in 0..1000_u64 {
                let number = (n * 2_654_435_761 % u64::from(max_objects)) as u32;
                let side = naming.side(format!("http://host{n}.example/").as_bytes());
                let path = naming.path(number, side);
                let (folder, name) = path.rsplit_once('/').unwrap();
                let index = (0..naming.folders()).find(|index| naming.folder(*index) == folder);
                let found = naming.file_at(index.expect("one of the folders"), name);
                assert_eq!(found, Some((number, side)), "{path}");
                if n == 20 && max_objects > 10_000 {
                    break;
                }
            }
        }
    }
}

#[test]
fn folder_holds_k_consecutive_numbers() {
    for (objects, k) in [(1, 384), (385, 384), (1_000_000, 384), (4_000_000_000, 4096), (50, 7)] {
        let naming = ClusteredNaming::monotonic(objects, k);
        let [l1, l2, kept, _] = naming.parameters();
        assert_eq!(kept, k);
        assert!(u64::from(l1) * u64::from(l2) * u64::from(k) >= u64::from(objects));
        assert!((objects - 1) / k < naming.folders());
        assert_eq!(ClusteredNaming::with(naming.parameters(), Numbers::Next), Some(naming));
    }
}

#[test]
fn the_lowest_naming_follows_from_the_block_size() {
    // Kroonmaa: "If cache can hold 1M objects, and fill-factor is 384, squid needs to have 1M/384 =
    // 2800 dirs. Having 256 L2 dirs, this makes about 10 L1 dirs."
    assert_eq!(ClusteredNaming::lowest(1 << 20, 8192).parameters(), [11, 256, 384, 0]);
    assert_eq!(ClusteredNaming::lowest(1 << 20, 4096).parameters()[2], 192);
}

#[test]
fn hosts_spread_over_independent_folder_levels() {
    let naming = ByHost::for_objects(1_000_000);
    let side = |url: &str| naming.side(url.as_bytes());
    for same in [
        "http://example.org/a/b?c",
        "https://example.org:8443/",
        "http://EXAMPLE.org",
        "http://example.org/\0variant123",
        "GET http://example.org?x",
    ] {
        assert_eq!(side(same), side("http://example.org/"), "{same}");
    }
    let folders: HashSet<u64> = (0..100_000).map(|n| side(&format!("http://host{n}.example/"))).collect();
    assert_eq!(folders.len() as u32, naming.folders(), "all folders are reached");
    assert!(folders.iter().all(|folder| *folder < u64::from(naming.folders())));
}

#[test]
fn host_ends_before_port_and_path() {
    for (key, host) in [
        ("http://a.example/x", "a.example"),
        ("http://a.example:80/x", "a.example"),
        ("https://[::1]:443/x", "[::1]"),
        ("http://[::1", "[::1"),
        ("http://", ""),
        ("http://a.example?q=://b", "a.example"),
        ("no url", "no url"),
    ] {
        assert_eq!(host_of(key.as_bytes()), host.as_bytes(), "{key}");
    }
}

#[test]
fn only_our_own_names_have_numbers() {
    let squid = Squid::for_objects(9);
    assert_eq!(squid.file_at(0, "0000001F"), Some((31, 0)));
    for name in ["", "1F", "0000001f", "+000001F", "00000000000000001F", "readme.txt"] {
        assert_eq!(squid.file_at(0, name), None, "{name}");
    }
    let clustered = ClusteredNaming::monotonic(100_000, 384);
    assert_eq!(clustered.file_at(2, "17F"), Some((2 * 384 + 383, 0)));
    for name in ["180", "17", "17f", "0017F", "+7F"] {
        assert_eq!(clustered.file_at(2, name), None, "{name}");
    }
}

#[test]
fn the_folders_on_disk_tell_squids_naming() {
    let files = MemoryFs::new(1 << 20);
    assert_eq!(Squid::of_folders(&files), None);
    let naming = Squid::for_objects(100_000);
    naming.make_folders(&files).unwrap();
    assert_eq!(Squid::of_folders(&files), Some(naming));
}

#[test]
fn parameters_that_cannot_be_are_refused() {
    assert_eq!(Squid::with([0, 4]), None);
    assert_eq!(ByHost::with([3, 4, 0, 0]), None);
    assert_eq!(ClusteredNaming::with([1, 1, 5000, 0], Numbers::Next), None);
    assert_eq!(ClusteredNaming::with([u32::MAX, 256, 9, 0], Numbers::Next), None);
}
