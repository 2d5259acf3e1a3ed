//! Huffman code of HPACK (RFC 7541 section 5.2 and appendix B).
//!
//! The code is canonical. Codes of one length are consecutive numbers, in the order of their
//! symbols, and the first code of a length follows from the shorter codes. The source therefore
//! lists only the lengths; the compiler computes codes and tables from them. Decoding looks up
//! eight bits at once, which is a whole symbol in nearly any field. A longer code is found by its
//! length. Cost: one lookup a symbol, and one step for each bit beyond eight.

/// Appends the text that `coded` stands for. `None` when `coded` is invalid: padding of eight bits
/// or more, padding with a zero bit, or the symbol that ends a string.
pub fn decode(coded: &[u8], out: &mut Vec<u8>) -> Option<()> {
    // Bits read and not yet decoded, left-aligned.
    let (mut bits, mut count) = (0u64, 0u32);
    let mut rest = coded.iter();
    loop {
        while count <= 56 {
            let Some(&byte) = rest.next() else { break };
            bits |= u64::from(byte) << (56 - count);
            count += 8;
        }
        let (symbol, length) = match SHORT[(bits >> 56) as usize] {
            (_, 0) => long(bits)?,
            (symbol, length) => (u16::from(symbol), u32::from(length)),
        };
        if length > count {
            // The remaining bits are no whole symbol, so they must be padding: fewer than eight
            // ones.
            let ones = if count == 0 { 0 } else { u64::MAX << (64 - count) };
            return (count < 8 && bits == ones).then_some(());
        }
        // The end-of-string symbol is not allowed ("MUST be treated as a decoding error").
        out.push(u8::try_from(symbol).ok()?);
        debug_assert!(length > 0 && length <= count);
        bits <<= length;
        count -= length;
    }
}

/// Returns the symbol at the front of `bits` with a code longer than eight bits, and the code's
/// length.
fn long(bits: u64) -> Option<(u16, u32)> {
    (9..=LENGTH_MAX as u32).find_map(|length| {
        let code = (bits >> (64 - length)) as u32;
        let group = &GROUPS[length as usize];
        let place = code.checked_sub(group.first).filter(|place| *place < u32::from(group.count))?;
        Some((SYMBOLS[usize::from(group.start) + place as usize], length))
    })
}

/// Codes of one length.
#[derive(Clone, Copy)]
struct Group {
    /// First code of this length.
    first: u32,
    count: u16,
    /// Position of their first symbol in [`SYMBOLS`].
    start: u16,
}

static GROUPS: [Group; LENGTH_MAX + 1] = groups();

/// All symbols in the order of their codes; 256 is the end of a string.
static SYMBOLS: [u16; 257] = symbols();

/// Symbol and length of the code that begins each value of eight bits; length 0 when the code is
/// longer than eight bits.
static SHORT: [(u8, u8); 256] = short();

const fn groups() -> [Group; LENGTH_MAX + 1] {
    let mut groups = [Group { first: 0, count: 0, start: 0 }; LENGTH_MAX + 1];
    let mut symbol = 0;
    while symbol < LENGTHS.len() {
        groups[LENGTHS[symbol] as usize].count += 1;
        symbol += 1;
    }
    let mut length = 1;
    while length <= LENGTH_MAX {
        let before = groups[length - 1];
        groups[length].first = (before.first + before.count as u32) << 1;
        groups[length].start = before.start + before.count;
        length += 1;
    }
    groups
}

const fn symbols() -> [u16; 257] {
    let mut symbols = [0; 257];
    let (mut length, mut at) = (1, 0);
    while length <= LENGTH_MAX {
        let mut symbol = 0;
        while symbol < LENGTHS.len() {
            if LENGTHS[symbol] as usize == length {
                symbols[at] = symbol as u16;
                at += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    symbols
}

const fn short() -> [(u8, u8); 256] {
    let (groups, symbols) = (groups(), symbols());
    let mut table = [(0, 0); 256];
    let mut length = 1;
    while length <= 8 {
        let group = groups[length];
        let mut place = 0;
        while place < group.count {
            let first = ((group.first + place as u32) << (8 - length)) as usize;
            let mut byte = first;
            while byte < first + (1 << (8 - length)) {
                table[byte] = (symbols[(group.start + place) as usize] as u8, length as u8);
                byte += 1;
            }
            place += 1;
        }
        length += 1;
    }
    table
}

const LENGTH_MAX: usize = 30;

/// Length of each symbol's code (RFC 7541 appendix B).
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7,
    7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21,
    23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24,
    21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

const _: () = {
    // The codes are complete: each string of bits begins with exactly one (Kraft's equality).
    let (mut at, mut sum) = (0, 0_u64);
    while at < LENGTHS.len() {
        assert!(LENGTHS[at] as usize <= LENGTH_MAX);
        sum += 1 << (LENGTH_MAX - LENGTHS[at] as usize);
        at += 1;
    }
    assert!(sum == 1 << LENGTH_MAX);
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the code of `text`, bit by bit.
    pub fn encode(text: &[u8]) -> Vec<u8> {
        let mut bits = Vec::new();
        for &byte in text {
            let length = LENGTHS[usize::from(byte)];
            let group = GROUPS[usize::from(length)];
            let symbols = &SYMBOLS[usize::from(group.start)..];
            let place = symbols.iter().position(|&symbol| symbol == u16::from(byte)).expect("it has a code");
            let code = group.first + place as u32;
            bits.extend((0..length).rev().map(|bit| code >> bit & 1 == 1));
        }
        bits.resize(bits.len().next_multiple_of(8), true);
        bits.chunks(8).map(|eight| eight.iter().fold(0, |byte, &bit| byte << 1 | u8::from(bit))).collect()
    }

    fn decoded(coded: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        decode(coded, &mut out).map(|()| out)
    }

    /// RFC 7541 appendix C.4 and C.6.
    #[test]
    fn the_examples_of_the_rfc() {
        let examples: [(&[u8], &str); 4] = [
            (b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff", "www.example.com"),
            (b"\xa8\xeb\x10\x64\x9c\xbf", "no-cache"),
            (b"\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf", "custom-value"),
            (
                b"\xd0\x7a\xbe\x94\x10\x54\xd4\x44\xa8\x20\x05\x95\x04\x0b\x81\x66\xe0\x82\xa6\x2d\x1b\xff",
                "Mon, 21 Oct 2013 20:13:21 GMT",
            ),
        ];
        for (coded, text) in examples {
            assert_eq!(decoded(coded).as_deref(), Some(text.as_bytes()));
            assert_eq!(encode(text.as_bytes()), coded);
        }
    }

    #[test]
    fn other_paddings_are_errors() {
        // '0' is 00000, 'o' is 00111.
        assert_eq!(decoded(b"\x07").as_deref(), Some(&b"0"[..]));
        assert_eq!(decoded(b"\x06"), None, "a padding with a zero");
        assert_eq!(decoded(b"\x07\xff"), None, "eight bits too many");
        assert_eq!(decoded(b"\xff\xff\xff\xff"), None, "the end of a string");
        assert_eq!(decoded(b""), Some(Vec::new()));
    }

    proptest! {
        #[test]
        fn encoded_text_decodes(text in prop::collection::vec(any::<u8>(), 0..80)) {
            prop_assert_eq!(decoded(&encode(&text)), Some(text));
        }

        /// The decoder accepts only the output of [`encode`].
        #[test]
        fn decoder_accepts_encoder_output_only(coded in prop::collection::vec(any::<u8>(), 0..20)) {
            if let Some(text) = decoded(&coded) {
                prop_assert_eq!(encode(&text), coded);
            }
        }
    }
}
