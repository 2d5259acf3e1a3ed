//! Vectors of Squid, round trips, bad datagrams and signatures of HTCP.

use super::*;
use proptest::prelude::*;

const TRANSACTION: u32 = 0x0102_0304;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16);
    digits.chunks(2).map(|pair| byte(pair).expect("two digits")).collect()
}

#[test]
fn messages_have_the_bytes_of_squid() {
    let ask = HtcpMessage::test(TRANSACTION, "http://a/", b"");
    let expected = "0025 00 01 001f 10 02 01020304 0003 474554 0009 687474703a2f2f612f 0003 312f31 0000 0002";
    assert_eq!(ask.write(None), Some(hex(expected)));
    let hit = HtcpMessage::answer(TRANSACTION, HtcpOpcode::Test, TEST_HELD);
    assert_eq!(hit.write(None), Some(hex("0014 00 01 000e 10 01 01020304 0000 0000 0000 0002")));
    let miss = HtcpMessage::answer(TRANSACTION, HtcpOpcode::Test, TEST_NOT_HELD);
    assert_eq!(miss.write(None), Some(hex("0014 00 01 000e 11 01 01020304 0000 0000 0000 0002")));
}

#[test]
fn old_layouts_of_minor_0_are_read() {
    let ask = HtcpMessage::test(TRANSACTION, "http://a/", b"");
    let rest = "01020304 0003 474554 0009 687474703a2f2f612f 0003 312f31 0000 0002";
    for (what, head) in
        [("as the RFC has it", "0025 0000 001f 10 02"), ("of old Squids", "0025 0000 001f 01 40")]
    {
        let bytes = hex(&format!("{head}{rest}"));
        let read = HtcpDatagram::read(&bytes).map(|datagram| datagram.message);
        assert_eq!(read.as_ref(), Ok(&ask), "{what}");
    }
    let unanswered =
        hex("0027 0000 0021 04 00 01020304 0000 0003 474554 0009 687474703a2f2f612f 0003 312f31 0000 0002");
    let clear = HtcpDatagram::read(&unanswered).expect("an order").message;
    assert!(matches!(
        clear.content,
        HtcpContent::Ask { opcode: HtcpOpcode::Clear, wants_answer: false, specifier: Some(_) }
    ));
    let answer = hex("0014 00 00 000e 11 80 01020304 0000 0000 0000 0002");
    let read = HtcpDatagram::read(&answer).map(|datagram| datagram.message);
    assert_eq!(read, Ok(HtcpMessage::answer(TRANSACTION, HtcpOpcode::Test, TEST_NOT_HELD)));
}

#[test]
fn bad_datagrams_are_refused() {
    let good = HtcpMessage::test(TRANSACTION, "http://a/", b"").write(None).expect("it can be sent");
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    for (bytes, expected) in [
        (with(1, 0x24), HtcpError::Length),
        (with(2, 1), HtcpError::Version),
        (with(3, 2), HtcpError::Version),
        (with(5, 0x20), HtcpError::Length),
        (with(5, 7), HtcpError::Length),
        (with(4, 0xff), HtcpError::Length),
        (with(6, 0x50), HtcpError::Opcode),
        (with(13, 0xff), HtcpError::Length),
        (with(14, b' '), HtcpError::Specifier),
        (with(19, 0), HtcpError::Specifier),
        (good[..20].to_vec(), HtcpError::Length),
        (Vec::new(), HtcpError::Length),
    ] {
        assert_eq!(HtcpDatagram::read(&bytes).err(), Some(expected), "{bytes:02x?}");
    }
}

#[test]
fn no_answer_is_longer_than_its_question() {
    let longest_of = |opcode, response| {
        let answers =
            [HtcpMessage::answer(1, opcode, response), HtcpMessage::refusal(1, opcode, OPCODE_NOT_BUILT)];
        answers.iter().filter_map(|answer| answer.write(None)).map(|bytes| bytes.len()).max()
    };
    let nop = HtcpMessage::nop(1).write(None).expect("short").len();
    assert!(longest_of(HtcpOpcode::Nop, 0) <= Some(nop));
    // The shortest question that is read: one character each in method, URI and version.
    let shortest = HtcpSpecifier { method: "G", uri: "a", version: "1", fields: b"" };
    for opcode in [HtcpOpcode::Test, HtcpOpcode::Clear] {
        let content = HtcpContent::Ask { opcode, wants_answer: true, specifier: Some(shortest.clone()) };
        let ask = HtcpMessage { transaction: 1, content }.write(None).expect("short").len();
        assert!(longest_of(opcode, 0) <= Some(ask), "{opcode:?}");
    }
}

#[test]
fn signatures_bind_addresses_bytes_and_time() {
    let key = HtcpKey::parse("shoal 0123456789abcdef").expect("a key");
    let ends = SocketPair { source: ([10, 0, 0, 1], 4827).into(), destination: ([10, 0, 0, 2], 4827).into() };
    let bytes = HtcpMessage::clear(7, "http://a/").write(Some((&key, ends, 1000))).expect("it can be sent");
    let datagram = HtcpDatagram::read(&bytes).expect("a datagram");
    assert!(datagram.is_signed);
    assert_eq!(key.verify(&datagram, ends, 1000), Ok(()));
    assert_eq!(key.verify(&datagram, ends, 1000 + SIGNATURE_SECONDS), Err(SignatureError::Time));
    assert_eq!(key.verify(&datagram, ends, 900), Err(SignatureError::Time));
    let back = SocketPair { source: ends.destination, destination: ends.source };
    assert_eq!(key.verify(&datagram, back, 1000), Err(SignatureError::Wrong));
    let other = HtcpKey::parse("shoal 0123456789abcdeF").expect("a key");
    assert_eq!(other.verify(&datagram, ends, 1000), Err(SignatureError::Wrong));
    let named = HtcpKey::parse("other 0123456789abcdef").expect("a key");
    assert_eq!(named.verify(&datagram, ends, 1000), Err(SignatureError::Name));
    let mut changed = bytes.clone();
    changed[11] ^= 1;
    let changed = HtcpDatagram::read(&changed).expect("still a datagram");
    assert_eq!(key.verify(&changed, ends, 1000), Err(SignatureError::Wrong));
    let plain = HtcpMessage::nop(1).write(None).expect("it can be sent");
    let plain = HtcpDatagram::read(&plain).expect("a datagram");
    assert_eq!(key.verify(&plain, ends, 1000), Err(SignatureError::Missing));
}

/// RFC 2202, test case 1 of HMAC-MD5, so that the library is the one that the RFC means.
#[test]
fn hmac_is_that_of_rfc_2202() {
    use hmac::{Hmac, KeyInit, Mac};
    let mut code = Hmac::<md5::Md5>::new_from_slice(&[0x0b; 16]).expect("any length");
    code.update(b"Hi There");
    assert_eq!(code.finalize().into_bytes()[..], hex("9294727a3638bb1c13f48ef8158bfc9d")[..]);
}

#[test]
fn keys_are_a_name_and_a_long_secret() {
    for bad in ["", "name", "name short", "  0123456789abcdef"] {
        assert_eq!(HtcpKey::parse(bad), Err(HtcpKeyError), "{bad:?}");
    }
    let key = HtcpKey::parse("a  0123456789abcdef\n").expect("blanks do not matter");
    assert!(!format!("{key:?}").contains("0123"), "no log shows a secret");
}

proptest! {
    #[test]
    fn asks_are_read_as_written(transaction: u32, uri in "[!-~]{1,300}", fields in "[ -~]{0,80}", clears: bool) {
        let specifier = HtcpSpecifier { method: "GET", uri: &uri, version: "1/1", fields: fields.as_bytes() };
        let opcode = if clears { HtcpOpcode::Clear } else { HtcpOpcode::Test };
        let content = HtcpContent::Ask { opcode, wants_answer: true, specifier: Some(specifier) };
        let message = HtcpMessage { transaction, content };
        let bytes = message.write(None).expect("it can be sent");
        let read = HtcpDatagram::read(&bytes).map(|datagram| datagram.message);
        prop_assert_eq!(read, Ok(message));
    }

    #[test]
    fn answers_are_read_as_written(transaction: u32, response in 0u8..16, is_about_message: bool, at in 0usize..5) {
        let opcode = [HtcpOpcode::Nop, HtcpOpcode::Test, HtcpOpcode::Monitor, HtcpOpcode::Set, HtcpOpcode::Clear][at];
        let message = HtcpMessage { transaction, content: HtcpContent::Answer { opcode, response, is_about_message } };
        let bytes = message.write(None).expect("it can be sent");
        let read = HtcpDatagram::read(&bytes).map(|datagram| datagram.message);
        prop_assert_eq!(read, Ok(message));
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let key = HtcpKey::parse("shoal 0123456789abcdef").expect("a key");
        let ends = SocketPair { source: ([10, 0, 0, 1], 1).into(), destination: ([10, 0, 0, 2], 2).into() };
        let mut framed = bytes.clone();
        if framed.len() >= 6 {
            let all = u16::try_from(framed.len()).expect("short");
            framed[..2].copy_from_slice(&all.to_be_bytes());
            framed[2..4].copy_from_slice(&[0, 1]);
        }
        for bytes in [&bytes, &framed] {
            if let Ok(datagram) = HtcpDatagram::read(bytes) {
                prop_assert!(key.verify(&datagram, ends, 0).is_err());
            }
        }
    }
}
