//! Hash of `go.sum` over the members of a zip, while it streams.
//!
//! ```text
//!   member: PK\3\4 flags method sizes name extra │ data │ descriptor, if the sizes came late
//!   h1 = base64(SHA-256 of a line for each member, sorted by name: "hex(SHA-256)  name\n")
//! ```
//!
//! The go command reads the directory at the zip's end; this reader follows the members, so that it
//! holds a window alone. Where the two could differ it gives no verdict, and go has the last word.

use crate::{Algorithm, Hasher};
use flate2::{Decompress, FlushDecompress, Status};

/// Reader of one zip.
#[derive(Debug)]
pub struct ZipHash {
    state: ZipState,
    /// Bytes that do not make a whole header yet.
    window: Vec<u8>,
    /// Name and digest of each member.
    members: Vec<(String, String)>,
}

#[derive(Debug)]
enum ZipState {
    /// A header, or the directory, begins.
    Header,
    /// Stored bytes, with the number of those that are left.
    Stored(Member, u64),
    /// Deflated bytes.
    Deflated(Member, Box<Decompress>),
    /// Descriptor behind deflated bytes.
    Descriptor,
    /// All members were read.
    Ended,
    /// A shape that go's zips do not have.
    Unknown,
}

#[derive(Debug)]
struct Member {
    name: String,
    hasher: Hasher,
    has_descriptor: bool,
}

impl Default for ZipHash {
    fn default() -> Self {
        Self { state: ZipState::Header, window: Vec::new(), members: Vec::new() }
    }
}

impl ZipHash {
    /// Takes the next piece.
    pub fn push(&mut self, piece: &[u8]) {
        if matches!(self.state, ZipState::Ended | ZipState::Unknown) {
            return;
        }
        self.window.extend_from_slice(piece);
        let mut input = std::mem::take(&mut self.window);
        let mut from = 0;
        while let Some(taken) = self.step(&input[from..]) {
            from += taken;
        }
        input.drain(..from);
        self.window = input;
        if self.members.len() > MEMBERS_MAX || self.window.len() > WINDOW_MAX + piece.len() {
            self.state = ZipState::Unknown;
        }
    }

    /// Takes the end. `None` if the zip's shape allows no verdict.
    pub fn finish(mut self) -> Option<[u8; 32]> {
        if !matches!(self.state, ZipState::Ended) {
            return None;
        }
        self.members.sort();
        let mut hasher = Hasher::new(Algorithm::Sha256);
        for (name, digest) in &self.members {
            hasher.push(format!("{digest}  {name}\n").as_bytes());
        }
        hasher.finish().bytes().try_into().ok()
    }

    /// Takes a part of the input. Returns its length, or `None` if more input is needed.
    fn step(&mut self, input: &[u8]) -> Option<usize> {
        match std::mem::replace(&mut self.state, ZipState::Unknown) {
            ZipState::Header => self.header(input),
            ZipState::Stored(mut member, left) => {
                let taken = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
                member.hasher.push(&input[..taken]);
                match left - taken as u64 {
                    0 => self.ended(member),
                    left => self.state = ZipState::Stored(member, left),
                }
                (taken > 0 || left == 0).then_some(taken)
            }
            ZipState::Deflated(member, inflater) => self.inflate(member, inflater, input),
            ZipState::Descriptor => self.descriptor(input),
            state @ (ZipState::Ended | ZipState::Unknown) => {
                self.state = state;
                None
            }
        }
    }

    fn header(&mut self, input: &[u8]) -> Option<usize> {
        let again = |this: &mut Self| {
            this.state = ZipState::Header;
            None
        };
        let Some(signature) = input.get(..4) else { return again(self) };
        if signature == DIRECTORY {
            self.state = ZipState::Ended;
            return None;
        }
        let Some(head) = input.get(..HEADER) else { return again(self) };
        let short = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        let long = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let end = HEADER + usize::from(short(26)) + usize::from(short(28));
        let Some(whole) = input.get(..end) else { return again(self) };
        let name = &whole[HEADER..HEADER + usize::from(short(26))];
        let (flags, method, size) = (short(6), short(8), long(18));
        let has_descriptor = flags & LATE_SIZES != 0;
        let is_known = signature == MEMBER && flags & ENCRYPTED == 0 && size != u32::MAX;
        let name = std::str::from_utf8(name).ok().filter(|_| is_known)?;
        let member = Member { name: name.to_owned(), hasher: Hasher::new(Algorithm::Sha256), has_descriptor };
        match method {
            0 if !has_descriptor => self.state = ZipState::Stored(member, size.into()),
            8 => self.state = ZipState::Deflated(member, Box::new(Decompress::new(false))),
            _ => return None,
        }
        Some(end)
    }

    fn inflate(&mut self, mut member: Member, mut inflater: Box<Decompress>, input: &[u8]) -> Option<usize> {
        let mut output = vec![0; STEP];
        let (before_in, before_out) = (inflater.total_in(), inflater.total_out());
        let status = inflater.decompress(input, &mut output, FlushDecompress::None).ok()?;
        let taken = (inflater.total_in() - before_in) as usize;
        let made = (inflater.total_out() - before_out) as usize;
        member.hasher.push(&output[..made]);
        if status == Status::StreamEnd {
            self.ended(member);
            return Some(taken);
        }
        self.state = ZipState::Deflated(member, inflater);
        (taken > 0 || made > 0).then_some(taken)
    }

    /// Takes a descriptor: perhaps a signature, then a checksum and two sizes of 4 or 8 bytes. The
    /// signature behind it tells which.
    fn descriptor(&mut self, input: &[u8]) -> Option<usize> {
        let is_next =
            |at: usize| input.get(at..at + 4).map(|signature| signature == MEMBER || signature == DIRECTORY);
        self.state = ZipState::Descriptor;
        for length in [16, 12, 24, 20] {
            if is_next(length)? {
                self.state = ZipState::Header;
                return Some(length);
            }
        }
        self.state = ZipState::Unknown;
        None
    }

    fn ended(&mut self, member: Member) {
        self.members.push((member.name, member.hasher.finish().hex()));
        self.state = if member.has_descriptor { ZipState::Descriptor } else { ZipState::Header };
    }
}

const MEMBER: &[u8] = b"PK\x03\x04";
const DIRECTORY: &[u8] = b"PK\x01\x02";
/// Bytes of a member's header before its name.
const HEADER: usize = 30;
const ENCRYPTED: u16 = 1;
const LATE_SIZES: u16 = 8;
/// Bytes inflated at a time.
const STEP: usize = 64 << 10;
/// Longest header with its name, in bytes.
const WINDOW_MAX: usize = HEADER + 2 * (64 << 10);
/// Most members of a zip.
const MEMBERS_MAX: usize = 200_000;

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::DeflateEncoder};
    use std::io::Write as _;

    /// A member as go writes it, deflated with its sizes behind, or stored.
    fn member(name: &str, data: &[u8], is_deflated: bool) -> Vec<u8> {
        let body = match is_deflated {
            true => {
                let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
                encoder.write_all(data).expect("memory");
                encoder.finish().expect("memory")
            }
            false => data.to_vec(),
        };
        let (flags, method): (u16, u16) = if is_deflated { (LATE_SIZES, 8) } else { (0, 0) };
        let size = if is_deflated { 0 } else { data.len() as u32 };
        let mut made = MEMBER.to_vec();
        made.extend([20, 0]);
        made.extend(flags.to_le_bytes());
        made.extend(method.to_le_bytes());
        made.extend([0; 8]);
        made.extend(size.to_le_bytes());
        made.extend(size.to_le_bytes());
        made.extend((name.len() as u16).to_le_bytes());
        made.extend([0, 0]);
        made.extend(name.as_bytes());
        made.extend(&body);
        if is_deflated {
            made.extend(b"PK\x07\x08");
            made.extend([0; 4]);
            made.extend((body.len() as u32).to_le_bytes());
            made.extend((data.len() as u32).to_le_bytes());
        }
        made
    }

    fn hash(zip: &[u8], cut: usize) -> Option<[u8; 32]> {
        let mut hash = ZipHash::default();
        zip.chunks(cut).for_each(|piece| hash.push(piece));
        hash.finish()
    }

    fn expected(members: &[(&str, &[u8])]) -> [u8; 32] {
        let sha256 = |bytes: &[u8]| {
            let mut hasher = Hasher::new(Algorithm::Sha256);
            hasher.push(bytes);
            hasher.finish()
        };
        let mut lines: Vec<String> =
            members.iter().map(|(name, data)| format!("{}  {name}\n", sha256(data).hex())).collect();
        lines.sort_by_key(|line| line[64..].to_owned());
        sha256(lines.concat().as_bytes()).bytes().try_into().expect("32 bytes")
    }

    #[test]
    fn members_are_hashed_in_the_order_of_names() {
        let large = vec![b'x'; 300_000];
        let members: [(&str, &[u8]); 3] =
            [("a@v1/z.go", b"package z\n"), ("a@v1/a.go", &large), ("a@v1/empty", b"")];
        let mut zip = Vec::new();
        for (number, (name, data)) in members.iter().enumerate() {
            zip.extend(member(name, data, number != 0));
        }
        zip.extend(DIRECTORY);
        zip.extend([0; 60]);
        for cut in [1, 7, 4096, zip.len()] {
            assert_eq!(hash(&zip, cut), Some(expected(&members)), "pieces of {cut}");
        }
        let mut other = zip.clone();
        other[35] ^= 1;
        assert_ne!(hash(&other, 4096), Some(expected(&members)));
    }

    #[test]
    fn other_shapes_give_no_verdict() {
        let zip = member("a", b"text", true);
        assert_eq!(hash(&zip, 10), None, "no directory");
        assert_eq!(hash(b"<html>", 3), None);
        let mut coded = member("a", b"text", false);
        coded[6] |= 1;
        coded.extend(DIRECTORY);
        assert_eq!(hash(&coded, 10), None, "encrypted");
    }
}
