//! Bytes of a file, kept compactly. The store reads back its own headers and checks them, so their
//! bytes must be there. The bodies of a replay are mostly a pattern, and millions of them have to
//! fit.
//!
//! Bytes are kept in pieces of 1 KB. A piece that repeats its first 64 bytes is kept as those.
//! Every other piece is kept as it is.

/// Bytes of a file; bytes never written are zero.
#[derive(Debug, Default)]
pub(in super::super) struct Contents(Vec<ContentPiece>);

#[derive(Debug, Default)]
enum ContentPiece {
    #[default]
    Zero,
    Repeats(Box<[u8; PERIOD]>),
    Raw(Box<[u8; PIECE]>),
}

impl Contents {
    /// Copies bytes out.
    pub(in super::super) fn read(&self, buffer: &mut [u8], offset: u64) {
        let mut done = 0;
        while done < buffer.len() {
            let at = offset + done as u64;
            let (piece, from) = ((at / PIECE as u64) as usize, (at % PIECE as u64) as usize);
            let count = (PIECE - from).min(buffer.len() - done);
            let target = &mut buffer[done..done + count];
            match self.0.get(piece) {
                None | Some(ContentPiece::Zero) => target.fill(0),
                Some(ContentPiece::Raw(bytes)) => target.copy_from_slice(&bytes[from..from + count]),
                Some(ContentPiece::Repeats(bytes)) => repeat(target, bytes, from),
            }
            done += count;
        }
    }

    /// Copies bytes in.
    pub(in super::super) fn write(&mut self, bytes: &[u8], offset: u64) {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let (piece, from) = ((at / PIECE as u64) as usize, (at % PIECE as u64) as usize);
            let count = (PIECE - from).min(bytes.len() - done);
            if self.0.len() <= piece {
                self.0.resize_with(piece + 1, ContentPiece::default);
            }
            self.0[piece].write(&bytes[done..done + count], from);
            done += count;
        }
    }

    /// Forgets everything from `length` on.
    pub(in super::super) fn truncate(&mut self, length: u64) {
        let (whole, rest) = ((length / PIECE as u64) as usize, (length % PIECE as u64) as usize);
        self.0.truncate(whole + usize::from(rest > 0));
        if rest > 0
            && let Some(piece) = self.0.get_mut(whole)
        {
            piece.write(&[0; PIECE][rest..], rest);
        }
    }
}

impl ContentPiece {
    fn write(&mut self, bytes: &[u8], from: usize) {
        if bytes.len() == PIECE {
            *self = Self::of(bytes);
            return;
        }
        if !matches!(self, Self::Raw(_)) {
            let mut raw = Box::new([0; PIECE]);
            if let Self::Repeats(bytes) = self {
                repeat(&mut raw[..], bytes, 0);
            }
            *self = Self::Raw(raw);
        }
        if let Self::Raw(raw) = self {
            raw[from..from + bytes.len()].copy_from_slice(bytes);
        }
    }

    fn of(bytes: &[u8]) -> Self {
        if bytes[PERIOD..] != bytes[..PIECE - PERIOD] {
            let mut raw = Box::new([0; PIECE]);
            raw.copy_from_slice(bytes);
            return Self::Raw(raw);
        }
        let mut period = [0; PERIOD];
        period.copy_from_slice(&bytes[..PERIOD]);
        if period == [0; PERIOD] { Self::Zero } else { Self::Repeats(Box::new(period)) }
    }
}

/// Fills `target`, which begins `from` bytes into a piece.
fn repeat(target: &mut [u8], period: &[u8; PERIOD], from: usize) {
    for (at, byte) in target.iter_mut().enumerate() {
        *byte = period[(from + at) % PERIOD];
    }
}

const PIECE: usize = 1024;
/// Patterns of 1, 2, 4 and so on up to 64 bytes are found.
const PERIOD: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_plain_bytes() {
        let (mut contents, mut plain, mut state) = (Contents::default(), vec![0u8; 20_000], 5u64);
        for _ in 0..3000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let random = (state >> 33) as usize;
            let (offset, length) = (random % 16_000, random / 7 % 4000);
            let period = [1, 8, 64, 101][random % 4];
            let bytes: Vec<u8> = (0..length).map(|at| (at % period * (random % 3)) as u8).collect();
            if random.is_multiple_of(50) {
                contents.truncate(offset as u64);
                plain[offset..].fill(0);
            }
            contents.write(&bytes, offset as u64);
            plain[offset..offset + length].copy_from_slice(&bytes);
            let mut read = vec![1; 5000];
            contents.read(&mut read, (random % 15_000) as u64);
            assert_eq!(read, plain[random % 15_000..random % 15_000 + 5000]);
        }
    }

    #[test]
    fn patterns_are_kept_small() {
        let mut contents = Contents::default();
        contents.write(&b"abcdefgh".repeat(1000), 1024);
        let raw = contents.0.iter().filter(|piece| matches!(piece, ContentPiece::Raw(_))).count();
        assert_eq!((contents.0.len(), raw), (9, 1), "the last piece was written in part");
    }
}
