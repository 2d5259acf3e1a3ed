//! Generations: reading a release, and the order of publishing.

use super::*;

const RELEASE: &str = "InRelease";
const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
const OTHER: IpAddr = IpAddr::V6(std::net::Ipv6Addr::LOCALHOST);

fn hex(number: u8) -> String {
    format!("{number:064x}")
}

/// Returns a release of this day with one digest for each list.
fn release(day: u8, lists: &[(&str, u8)]) -> Arc<Generation> {
    let mut text = format!("Origin: x\nDate: Sat, {day:02} Aug 2025 09:13:01 UTC\nAcquire-By-Hash: yes\n");
    text += "MD5Sum:\n d41d8cd98f00b204e9800998ecf8427e 0 a/Ignored\nSHA256:\n";
    lists.iter().for_each(|(path, digest)| text += &format!(" {} 12 {path}\n", hex(*digest)));
    text += "SHA512:\n 00 0 a/Ignored\n";
    Arc::new(Generation::parse(text.into_bytes(), None).expect("a release"))
}

fn digest(number: u8) -> Digest {
    Digest::from_hex(Algorithm::Sha256, &hex(number)).expect("64 digits")
}

fn path() -> String {
    format!("/dists/x/{RELEASE}")
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::default().plus(Duration::from_secs(1_000 + seconds))
}

#[test]
fn release_is_read() {
    let read = release(9, &[("main/Packages.xz", 1), ("Packages", 2)]);
    assert!(read.by_hash);
    assert_eq!(read.list("main/Packages.xz"), Some(&digest(1)));
    assert_eq!(read.list("a/Ignored"), None);
    for text in ["", "Date: Sat, 09 Aug 2025 09:13:01 UTC\n", "SHA256:\n x 1 y\n", "\u{e9}"] {
        assert_eq!(Generation::parse(text.as_bytes().to_vec(), None), None, "{text:?}");
    }
    assert_eq!(Generation::parse(vec![0xff; 9], None), None);
}

#[test]
fn newer_release_waits_for_the_lists_in_use() {
    let mut all = Generations::default();
    let (first, second) = (release(1, &[("a", 1), ("b", 1)]), release(2, &[("a", 2), ("b", 2)]));
    assert_eq!(all.offer(&path(), &first, at(0)), Step::Serve(Arc::clone(&first)));
    assert_eq!(all.named("/dists/x/a", Some(CLIENT)).expect("named").digest, digest(1));
    let wanted = Step::Fetch(vec![("a".into(), digest(2))]);
    assert_eq!(all.offer(&path(), &second, at(1)), wanted);
    // Others get the published one meanwhile, and after lists that were not whole.
    assert_eq!(all.offer(&path(), &second, at(2)), Step::Serve(Arc::clone(&first)));
    assert_eq!(all.fetched(&path(), &second, false, at(3)), first);
    assert_eq!(all.offer(&path(), &second, at(4)), Step::Serve(Arc::clone(&first)));
    assert_eq!(all.offer(&path(), &second, at(9)), wanted);
    assert_eq!(all.fetched(&path(), &second, true, at(10)), second);
    assert_eq!(all.offer(&path(), &second, at(11)), Step::Serve(Arc::clone(&second)));
    // An edge that has the older one leads nowhere.
    assert_eq!(all.offer(&path(), &first, at(12)), Step::Serve(second));
}

#[test]
fn client_gets_the_lists_of_the_release_it_read() {
    let mut all = Generations::default();
    let numbered = |number: u8| release(number, &[("a", number)]);
    let first = numbered(1);
    all.offer(&path(), &first, at(0));
    all.read_by(&path(), CLIENT, &first);
    let second = numbered(2);
    assert_eq!(all.offer(&path(), &second, at(1)), Step::Serve(Arc::clone(&second)));
    assert_eq!(all.named("/dists/x/a", Some(CLIENT)).expect("named").digest, digest(1));
    assert_eq!(all.named("/dists/x/a", Some(OTHER)).expect("named").digest, digest(2));
    assert_eq!(all.named("/dists/y/a", Some(OTHER)), None);
    assert_eq!(all.named("/dists/x/none", Some(OTHER)), None);
    for number in 3..6 {
        let newer = numbered(number);
        assert!(matches!(all.offer(&path(), &newer, at(number.into())), Step::Fetch(_)));
        all.fetched(&path(), &newer, true, at(number.into()));
    }
    assert_eq!(all.named("/dists/x/a", Some(CLIENT)).expect("named").digest, digest(5), "kept for two only");
}

#[test]
fn lists_asked_for_by_digest_are_in_use() {
    let mut all = Generations::default();
    all.offer(&path(), &release(1, &[("main/a", 1)]), at(0));
    assert_eq!(all.named(&format!("/dists/x/main/by-hash/SHA256/{}", hex(1)), Some(CLIENT)), None);
    let step = all.offer(&path(), &release(2, &[("main/a", 2)]), at(1));
    assert_eq!(step, Step::Fetch(vec![("main/a".into(), digest(2))]));
}

#[test]
fn tables_are_bounded() {
    let mut all = Generations::default();
    for number in 0..RELEASES_MAX + 2 {
        all.offer(&format!("/dists/{number}/InRelease"), &release(1, &[("a", 1)]), at(0));
    }
    assert!(all.releases.len() <= RELEASES_MAX);
    let first = release(1, &[("a", 1)]);
    all.offer(&path(), &first, at(0));
    for number in 0..READERS_MAX as u32 + 2 {
        all.read_by(&path(), IpAddr::V4(number.into()), &first);
    }
    assert!(all.releases[&path()].readers.len() <= READERS_MAX);
}

#[test]
fn missing_list_is_tried_again_after_a_pause() {
    let mut all = Generations::default();
    assert!(!all.is_missing(&digest(1), at(0)));
    all.miss(&digest(1), at(0));
    assert!(all.is_missing(&digest(1), at(4)) && !all.is_missing(&digest(2), at(4)));
    assert!(!all.is_missing(&digest(1), at(5)));
    for number in 0..MISSING_MAX + 2 {
        let digest = Digest::from_hex(Algorithm::Sha256, &format!("{number:064x}")).expect("64 digits");
        all.miss(&digest, at(0));
    }
    assert!(all.missing.len() <= MISSING_MAX);
}
