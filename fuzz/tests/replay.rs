//! Replays every committed seed, each beginning of it and many small changes of it, without
//! libFuzzer.

use shoal_fuzz::{TARGETS, Target};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

#[test]
fn seeds_keep_every_promise() {
    for target in TARGETS {
        let seeds = seeds(target);
        assert!(!seeds.is_empty(), "{} has no seed", target.name);
        for (path, seed) in seeds {
            let shown = path.display();
            replay(target, &seed, &format!("{shown}"));
            let step = seed.len() / target.replays + 1;
            for length in (0..seed.len()).step_by(step) {
                replay(target, &seed[..length], &format!("the first {length} bytes of {shown}"));
            }
            for number in 0..target.replays as u64 {
                replay(target, &changed(&seed, number), &format!("change {number} of {shown}"));
            }
        }
    }
}

#[test]
fn every_target_has_a_file_and_every_file_a_target() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let names = |folder: &str| -> BTreeSet<String> {
        let entries = std::fs::read_dir(here.join(folder)).expect("the folder is committed");
        entries
            .map(|entry| entry.expect("a readable entry").file_name().to_string_lossy().replace(".rs", ""))
            .collect()
    };
    let rows: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_string()).collect();
    assert_eq!(names("fuzz_targets"), rows);
    assert_eq!(names("seeds"), rows);
}

fn replay(target: &Target, data: &[u8], what: &str) {
    let outcome = std::panic::catch_unwind(|| (target.run)(data));
    assert!(outcome.is_ok(), "{}: {what} breaks a promise: {}", target.name, data.escape_ascii());
}

fn seeds(target: &Target) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target.name);
    let entries = std::fs::read_dir(&folder).expect("every target has a folder of seeds");
    let paths = entries.map(|entry| entry.expect("a readable entry").path());
    let mut paths: Vec<PathBuf> = paths.collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read(&path).expect("a readable seed"))).collect()
}

/// `seed` with one to four bytes changed, removed, doubled or taken from elsewhere, as `number`
/// says.
fn changed(seed: &[u8], number: u64) -> Vec<u8> {
    let mut random = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut draw = |below: usize| {
        // xorshift64 (G. Marsaglia, Xorshift RNGs, Journal of Statistical Software, 2003)
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 11) as usize % below.max(1)
    };
    let mut bytes = seed.to_vec();
    for _ in 0..=draw(4) {
        let at = draw(bytes.len());
        match draw(5) {
            _ if bytes.is_empty() => bytes.push(draw(256) as u8),
            0 => bytes[at] = draw(256) as u8,
            1 => bytes[at] ^= 1 << draw(8),
            2 => drop(bytes.remove(at)),
            3 => bytes.insert(at, bytes[draw(bytes.len())]),
            _ => bytes[at] = INTERESTING[draw(INTERESTING.len())],
        }
    }
    bytes
}

const INTERESTING: &[u8] = b"\0\t\n\r \"%'(),-./0149:;<=>?@[\\]_{}\x7f\x80\xff";
