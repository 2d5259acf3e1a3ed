//! Messages between the nodes of a cluster.

use shoal_cluster::{
    BorrowedHitAnswers, BorrowedHitAsks, HitAnswers, HitAsks, MemoryAnswer, MemoryAsk, MemoryMatter,
    MemoryReply,
};
use shoal_cooperation::NodeId;
use shoal_cooperation::directory::{DigestAnswer, DigestPull, KnownDigests};
use shoal_cooperation::global_memory::{AGE_MAX, GuestPages, OwnRate, PutPlan, Reports};
use shoal_cooperation::invalidation::{
    Message, PURGE_BYTES_MAX, Repair, Vector, decode_purges, encode_purges,
};

/// Messages about purges are refused, or read back as the same bytes, within their bounds.
pub fn purge_messages(data: &[u8]) {
    if let Some(message) = Message::decode(data) {
        assert_eq!(message.encode(), data, "two encodings of one message");
        if let Message::Apply { purges, .. } | Message::Repaired(Repair::Entries { purges, .. }) = &message {
            assert!(purges.iter().all(|purge| purge.encoded_len() <= PURGE_BYTES_MAX));
        }
        if let Message::Current { vector, .. } | Message::Repaired(Repair::Whole(vector)) = &message {
            check_vector(vector);
        }
    }
    if let Some(purges) = decode_purges(data) {
        let mut bytes = Vec::new();
        encode_purges(&purges, &mut bytes);
        assert_eq!(bytes, data, "two encodings of purges");
    }
    if let Some(vector) = Vector::of_bytes(data) {
        check_vector(&vector);
    }
}

/// Messages about digests are refused, or read back as the same bytes; what is taken stays sound.
pub fn digest_messages(data: &[u8]) {
    if let Some(pull) = DigestPull::decode(data) {
        assert_eq!(pull.encode(), data, "two encodings of one pull");
    }
    let Some(answer) = DigestAnswer::decode(data) else { return };
    assert_eq!(answer.encode(), data, "two encodings of one answer");
    let (mut known, node) = (KnownDigests::default(), NodeId(1));
    for _ in 0..2 {
        let _ = known.receive(node, answer.clone(), std::time::Duration::ZERO);
        known.forget(NodeId(2));
    }
}

/// Messages of shared memory are refused, or read back as the same bytes. Reports in them keep
/// plans sound, and pages keep within the books.
pub fn memory_messages(data: &[u8]) {
    let now = std::time::Duration::from_secs(1);
    if let Some(ask) = MemoryAsk::decode(data) {
        assert_eq!(ask.encode(), data, "two encodings of one ask");
        let (mut guests, mut reports) = (GuestPages::default(), Reports::default());
        reports.heard(ask.from, ask.report, now);
        let fresh = reports.fresh(now);
        assert!(fresh.iter().all(|(_, report)| report.age <= AGE_MAX && report.most_permille <= 1000));
        let rate = OwnRate { seconds_between: 0.001, global_nodes: 3 };
        let plan = PutPlan::new(&fresh, rate, 0.5).expect("clamped reports make a plan");
        assert!((0.0..=1.0).contains(&plan.share(ask.from)));
        assert!(guests.greet(ask.from, ask.life).is_ok(), "it is the first life");
        if let MemoryMatter::Put(pages) = &ask.matter {
            for page in pages.iter() {
                let size = (page.bytes.len() as u64, now.saturating_sub(page.age));
                guests.put(ask.from, page.page, page.bytes, size);
            }
            let held = std::iter::from_fn(|| guests.give_up(None)).map(|page| page.len() as u64).sum::<u64>();
            assert!(held <= data.len() as u64 && guests.usage() == (0, 0));
        }
    }
    let count = data.get(29..31).map_or(0, |count| u16::from_le_bytes([count[0], count[1]]));
    for kind in 1..=4 {
        let Some(answer) = MemoryAnswer::decode(data, kind, usize::from(count)) else { continue };
        assert_eq!(answer.encode(), data, "two encodings of one answer");
        if let Ok(MemoryReply::Get(Some(page))) = &answer.told {
            assert!(!page.is_empty() && page.len() < data.len());
        }
        if let Ok(MemoryReply::Gets(pages)) = &answer.told {
            assert_eq!((pages.len(), pages.iter().count()), (usize::from(count), usize::from(count)));
            assert!(pages.bytes() <= data.len());
        }
    }
}

/// Messages with asks for hits and with their answers are refused, or read back as the same bytes;
/// a plain head ends no message early.
pub fn hit_messages(data: &[u8]) {
    if let Some(asks) = BorrowedHitAsks::parse(data) {
        let mut again = HitAsks::new(asks.view, asks.purges);
        assert!(asks.iter().all(|ask| again.push(ask)), "what was read can be written");
        assert_eq!(again.finish(), data, "two encodings of asks");
    }
    let count = data.get(13..15).map_or(0, |count| u16::from_le_bytes([count[0], count[1]]));
    let Some(answers) = BorrowedHitAnswers::parse(data, usize::from(count)) else { return };
    let mut again = HitAnswers::new(answers.load, answers.view);
    for answer in answers.iter() {
        let Some(answer) = answer else {
            again.push_none();
            continue;
        };
        let body = (!answer.is_known).then_some(answer.body);
        again.push((answer.key, answer.sum), |out| out.extend_from_slice(answer.head), body);
        if answer.has_plain_head() {
            assert!(!answer.head.windows(4).any(|window| window == b"\r\n\r\n"));
            assert!(answer.head.is_empty() || answer.head.ends_with(b"\r\n"));
        }
    }
    assert_eq!(again.finish(), data, "two encodings of answers");
}

fn check_vector(vector: &Vector) {
    let mut merged = vector.clone();
    let _ = merged.merge(vector);
    assert!(merged.covers(vector), "a vector does not cover its source");
}
