//! Messages of Squid's neighbours: ICP, HTCP and cache digests.

use shoal_neighbours::digest::{CacheDigest, DIGEST_HEAD_BYTES, digest_key};
use shoal_neighbours::htcp::{
    CLEAR_GONE, HtcpContent, HtcpDatagram, HtcpKey, HtcpMessage, HtcpOpcode, OPCODE_NOT_BUILT, SocketPair,
    TEST_HELD,
};
use shoal_neighbours::icp::{IcpMessage, IcpOpcode};

/// A datagram is refused, or is read as it is written again; no answer is longer than its question.
pub fn icp(data: &[u8]) {
    let Ok(message) = IcpMessage::read(data) else { return };
    let written = message.write().expect("a message that was read can be written");
    assert_eq!(IcpMessage::read(&written).as_ref(), Ok(&message));
    assert_eq!(written.len(), data.len());
    if message.opcode == IcpOpcode::Query {
        for opcode in [IcpOpcode::Hit, IcpOpcode::Miss, IcpOpcode::Error] {
            let answer = message.answer(opcode).write().expect("shorter than its question");
            assert!(answer.len() < data.len());
        }
    }
}

/// A datagram is refused, or is read as it is written again; no answer is longer than its question,
/// and no signature counts that was not made with the key.
pub fn htcp(data: &[u8]) {
    let Ok(datagram) = HtcpDatagram::read(data) else { return };
    let message = datagram.message.clone();
    let key = HtcpKey::parse("fuzz 0123456789abcdef").expect("a key");
    let ends = SocketPair { source: ([10, 0, 0, 1], 1).into(), destination: ([10, 0, 0, 2], 2).into() };
    assert!(key.verify(&datagram, ends, 0).is_err(), "a signature was guessed");
    let written = message.write(None).expect("a message that was read can be written");
    let read = HtcpDatagram::read(&written).expect("our own message");
    assert_eq!(read.message, message);
    if let HtcpContent::Ask { opcode, .. } = message.content {
        let code = if opcode == HtcpOpcode::Test { TEST_HELD } else { CLEAR_GONE };
        for answer in
            [HtcpMessage::answer(1, opcode, code), HtcpMessage::refusal(1, opcode, OPCODE_NOT_BUILT)]
        {
            assert!(answer.write(None).expect("short").len() <= data.len(), "{opcode:?} is amplified");
        }
    }
    if let Some(signed) = message.write(Some((&key, ends, 1000))) {
        let signed = HtcpDatagram::read(&signed).expect("our own message");
        assert_eq!(key.verify(&signed, ends, 1000), Ok(()));
    }
}

/// A digest is refused, or keeps its promises: its head announces its length, it is written as it
/// was read, and it has what is added.
pub fn cache_digest(data: &[u8]) {
    if data.len() >= DIGEST_HEAD_BYTES
        && let Ok(announced) = CacheDigest::announced_bytes(&data[..DIGEST_HEAD_BYTES])
    {
        assert!(announced > DIGEST_HEAD_BYTES);
    }
    let Ok(mut digest) = CacheDigest::read(data) else { return };
    assert_eq!(CacheDigest::announced_bytes(&data[..DIGEST_HEAD_BYTES]), Ok(data.len()));
    assert_eq!(CacheDigest::read(&digest.write()).as_ref(), Ok(&digest));
    let (key, before) = (digest_key("http://a.test/"), digest.entries());
    digest.insert(&key);
    assert!(digest.entries() == before || digest.contains(&key));
}
