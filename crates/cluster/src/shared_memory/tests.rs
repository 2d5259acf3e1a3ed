//! Messages are read as they were written, and all others are refused.

use super::*;
use proptest::prelude::*;

const REPORT: ServerReport = ServerReport {
    role: Role::Global,
    age: Duration::from_millis(1234),
    spare_bytes: 1 << 30,
    most_permille: 700,
    unused_permille: 20,
    service_us: 55,
};

fn ask(matter: MemoryMatter<'_>) -> MemoryAsk<'_> {
    MemoryAsk { from: NodeId(7), life: 8, purges: 9, report: REPORT, matter }
}

const fn page(bytes: &[u8]) -> PagePut<'_> {
    PagePut { page: 1 << 100, age: Duration::from_millis(5), sum: 77, bytes }
}

const PAGES: &[PagePut<'static>] = &[page(b"a"), page(b"bytes")];

fn matters() -> Vec<MemoryMatter<'static>> {
    vec![
        MemoryMatter::State { newest: 1, dropped: vec![1, u128::MAX] },
        MemoryMatter::State { newest: 9, dropped: Vec::new() },
        MemoryMatter::Put(PagePuts::Listed(PAGES)),
        MemoryMatter::Get(3),
        MemoryMatter::Gets(&[[1; 16], [2; 16]]),
    ]
}

#[test]
fn asks_are_read_as_they_were_written() {
    for matter in matters() {
        let written = ask(matter.clone()).encode();
        assert_eq!(MemoryAsk::decode(&written), Some(ask(matter)));
    }
}

#[test]
fn answers_are_read_as_they_were_written() {
    let codes = [PutResult::Kept, PutResult::Declined, PutResult::Wrong].map(PutResult::code);
    let results = PutResults::read(&codes).expect("codes of results");
    let pages = PageAnswers::Listed(&[Some(b"page"), None]);
    for (kind, count, told) in [
        (STATE, 0, Ok(MemoryReply::State(1))),
        (PUT, 3, Ok(MemoryReply::Put(results))),
        (GET, 0, Ok(MemoryReply::Get(None))),
        (GET, 0, Ok(MemoryReply::Get(Some(b"page")))),
        (GETS, 2, Ok(MemoryReply::Gets(pages))),
        (STATE, 0, Err(MemoryRefusal::Off)),
        (PUT, 9, Err(MemoryRefusal::Behind)),
        (GET, 0, Err(MemoryRefusal::Busy)),
        (PUT, 0, Err(MemoryRefusal::Unwanted)),
    ] {
        let answer = MemoryAnswer::new(kind, &REPORT, told).with_gone(vec![7; count * 50]);
        assert!(answer.gone.len() <= GONE_MAX);
        let written = answer.encode();
        let read = MemoryAnswer::decode(&written, kind, count).expect("it can be read");
        assert_eq!((&read, read.report()), (&answer, REPORT));
        assert_eq!(MemoryAnswer::decode(&written, kind % 4 + 1, count), None, "of another kind");
    }
}

#[test]
fn shorter_and_longer_messages_are_refused() {
    for matter in matters() {
        let written = ask(matter).encode();
        for end in 0..written.len() {
            assert_eq!(MemoryAsk::decode(&written[..end]), None, "{end}");
        }
        assert_eq!(MemoryAsk::decode(&[&written[..], b"0"].concat()), None);
    }
    let results = PutResults::read(&[0; 3]).expect("codes of results");
    let three = MemoryAnswer::new(PUT, &REPORT, Ok(MemoryReply::Put(results))).encode();
    assert_eq!(MemoryAnswer::decode(&three, PUT, 2), None, "a result for each page");
    let pages = MemoryReply::Gets(PageAnswers::Listed(&[Some(b"page"), None, Some(b"a")]));
    let three = MemoryAnswer::new(GETS, &REPORT, Ok(pages)).encode();
    assert_eq!(MemoryAnswer::decode(&three, GETS, 2), None, "an answer for each page");
    for end in 0..three.len() {
        assert_eq!(MemoryAnswer::decode(&three[..end], GETS, 3), None, "{end}");
    }
}

#[test]
fn giant_counts_and_lengths_are_refused() {
    let head = ask(MemoryMatter::Get(0)).encode();
    let head = &head[..head.len() - 16];
    let of_kind = |kind: u8, rest: &[u8]| {
        let mut message = [head, rest].concat();
        message[1] = kind;
        MemoryAsk::decode(&message).is_some()
    };
    assert!(!of_kind(STATE, &[1, 0xff, 0xff]));
    assert!(!of_kind(STATE, &[0, 0, 0]), "version 0");
    assert!(!of_kind(PUT, &[0, 0]), "no page");
    assert!(!of_kind(PUT, &[0xff, 0xff]));
    let mut giant = vec![1, 0];
    giant.extend([0; 32]);
    giant.extend(u32::MAX.to_le_bytes());
    assert!(!of_kind(PUT, &giant));
    assert!(!of_kind(GETS, &[0, 0]), "no page");
    let many = GETS_MAX as u8 + 1;
    assert!(!of_kind(GETS, &[&[many, 0][..], &vec![7; 16 * usize::from(many)]].concat()));
    assert!(of_kind(GETS, &[&[1, 0][..], &[7; 16]].concat()));
    assert_eq!(PutResults::read(&[0, 3]), None, "no result");
    assert!(!of_kind(9, &[0; 16]));
}

proptest! {
    #[test]
    fn changed_messages_are_refused_or_sound(at in 0..200usize, byte in any::<u8>()) {
        for matter in matters() {
            let mut written = ask(matter).encode();
            let at = at % written.len();
            written[at] = byte;
            if let Some(read) = MemoryAsk::decode(&written) {
                prop_assert_eq!(read.encode(), written);
            }
        }
    }
}
