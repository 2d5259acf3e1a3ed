//! Objects that the old process passes on, in files without a name.

use crate::{Channel, ChannelFault, Message};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// Parts of an object: key, metadata and body.
pub type ObjectParts = (Vec<u8>, Vec<u8>, Vec<u8>);

/// Sends an object.
///
/// # Errors
/// If the object is too large, or the other process has ended or takes nothing in time.
pub fn send_object(channel: &Channel, key: &[u8], metadata: &[u8], body: &[u8]) -> Result<(), ChannelFault> {
    let length = |part: &[u8]| {
        let length = u32::try_from(part.len()).ok().filter(|length| *length <= PART_BYTES_MAX);
        length.ok_or(ChannelFault::Malformed("an object is too large to pass on"))
    };
    debug_assert!(!key.is_empty(), "an object without a key");
    let message = Message::Stored {
        key_bytes: length(key)?,
        metadata_bytes: length(metadata)?,
        body_bytes: length(body)?,
    };
    let file = File::from(memfd_create("shoal-object", MemfdFlags::CLOEXEC)?);
    let mut at = 0;
    for part in [key, metadata, body] {
        file.write_all_at(part, at)?;
        at += part.len() as u64;
    }
    channel.send_with(&message, &[file.as_fd()])
}

/// Reads the object that came with a message.
///
/// # Errors
/// If the lengths are beyond the limit, or the file is shorter.
pub fn read_object(lengths: [u32; 3], descriptor: OwnedFd) -> io::Result<ObjectParts> {
    if lengths.iter().any(|length| *length > PART_BYTES_MAX) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let (file, mut at) = (File::from(descriptor), 0);
    let mut part = |length: u32| {
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, at)?;
        at += u64::from(length);
        Ok::<_, io::Error>(bytes)
    };
    let [key, metadata, body] = lengths;
    Ok((part(key)?, part(metadata)?, part(body)?))
}

/// Returns bytes as hexadecimal digits.
pub fn to_digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the bytes of hexadecimal digits; `None` if they are none.
pub fn from_digits(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok().filter(|it| it.len() == 2)?, 16).ok())
        .collect()
}

/// Most bytes of a part.
const PART_BYTES_MAX: u32 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn object_arrives_whole() {
        let (one, other) = Channel::pair().expect("sockets");
        let body = vec![7; 300_000];
        send_object(&one, b"key", b"", &body).expect("sent");
        let (message, mut descriptors) = other.receive_with(Duration::from_secs(1)).expect("a message");
        let Message::Stored { key_bytes, metadata_bytes, body_bytes } = message else {
            panic!("{message:?}")
        };
        let lengths = [key_bytes, metadata_bytes, body_bytes];
        assert_eq!(lengths, [3, 0, 300_000]);
        let descriptor = descriptors.pop().expect("the file");
        let copy = descriptor.try_clone().expect("a handle");
        assert_eq!(read_object(lengths, descriptor).expect("whole"), (b"key".to_vec(), Vec::new(), body));
        assert!(read_object([3, 0, 300_001], copy).is_err(), "the file is shorter");
    }

    #[test]
    fn large_lengths_are_refused() {
        let file = OwnedFd::from(tempfile::tempfile().expect("a file"));
        assert!(read_object([PART_BYTES_MAX + 1, 0, 0], file).is_err());
        let (one, _other) = Channel::pair().expect("sockets");
        let long = vec![0; PART_BYTES_MAX as usize + 1];
        assert!(matches!(send_object(&one, b"key", b"", &long), Err(ChannelFault::Malformed(_))));
    }

    #[test]
    fn digits_and_bytes_agree() {
        assert_eq!(to_digits(&[0, 0xaf, 9]), "00af09");
        assert_eq!(from_digits("00af09"), Some(vec![0, 0xaf, 9]));
        assert_eq!((from_digits("0"), from_digits("zz"), from_digits("0\u{e4}")), (None, None, None));
    }
}
