//! Decimal numbers for output that every request writes.

/// Decimal number as text.
#[derive(Clone, Copy, Debug)]
pub struct Decimal {
    /// Room for the digits; they fill its end.
    text: [u8; 20],
    start: usize,
}

impl Decimal {
    /// Converts `value`.
    pub fn of(value: u64) -> Self {
        let (mut text, mut rest) = ([0; 20], value);
        let (fours, _) = text.as_chunks_mut();
        for (place, four) in fours.iter_mut().enumerate().rev() {
            *four = four_digits(rest % 10_000);
            if rest < 10_000 {
                return Self { text, start: place * 4 + zeros_before(rest) };
            }
            rest /= 10_000;
        }
        unreachable!("twenty digits hold every number")
    }

    /// Returns the digits.
    pub fn as_bytes(&self) -> &[u8] {
        &self.text[self.start..]
    }
}

/// Appends a number in decimal.
pub fn push_decimal(out: &mut Vec<u8>, value: u64) {
    if value < EIGHT_DIGITS {
        let (text, length) = first_digits(value);
        push_first(out, &text, length);
    } else {
        push_decimal(out, value / EIGHT_DIGITS);
        out.extend_from_slice(&eight_digits(value % EIGHT_DIGITS));
    }
}

/// Appends `label` and a number in decimal.
#[inline]
pub fn push_labelled<const N: usize>(out: &mut Vec<u8>, label: &[u8; N], value: u64) {
    const { assert!(N + 8 <= LABELLED_BYTES) };
    if value >= EIGHT_DIGITS {
        out.extend_from_slice(label);
        return push_decimal(out, value);
    }
    let (digits, length) = first_digits(value);
    let mut text = [0; LABELLED_BYTES];
    // Places of a constant length are copied without a call.
    if let Some((place, rest)) = text.split_first_chunk_mut() {
        *place = *label;
        rest[..8].as_chunks_mut().0[0] = digits;
    }
    push_first(out, &text, N + length);
}

/// Returns the digits of a number below 100,000,000 at the front of a text, and their count.
#[inline]
fn first_digits(value: u64) -> ([u8; 8], usize) {
    if value < 10_000 {
        let zeros = zeros_before(value);
        let text = u64::from(u32::from_le_bytes(four_digits(value)) >> (8 * zeros));
        return (text.to_le_bytes(), 4 - zeros);
    }
    let zeros = zeros_before(value / 10_000);
    let text = u64::from_le_bytes(eight_digits(value)) >> (8 * zeros);
    (text.to_le_bytes(), 8 - zeros)
}

/// Appends a number with `fill` before it, to fill `width` bytes, at most eight.
#[inline]
pub fn push_filled(out: &mut Vec<u8>, value: u64, width: usize, fill: u8) {
    debug_assert!(width <= 8);
    debug_assert!(fill.is_ascii());
    if value >= EIGHT_DIGITS {
        return push_decimal(out, value);
    }
    let text = eight_digits(value);
    // A number has at least one digit.
    let zeros = (u64::from_le_bytes(text) ^ ZEROS).trailing_zeros().min(56) / 8;
    let is_zero = (1 << (8 * zeros)) - 1;
    let text = (u64::from_le_bytes(text) & !is_zero) | (u64::from_le_bytes([fill; 8]) & is_zero);
    let length = width.max(8 - zeros as usize);
    push_first(out, &(text >> (8 * (8 - length))).to_le_bytes(), length);
}

/// Appends the first `length` bytes of a text. All N bytes are copied and then truncated: copying
/// only `length` bytes would take a call.
#[inline]
fn push_first<const N: usize>(out: &mut Vec<u8>, text: &[u8; N], length: usize) {
    debug_assert!(length <= N);
    let length = out.len() + length;
    out.extend_from_slice(text);
    out.truncate(length);
}

/// Returns the eight digits of a number below 100,000,000, padded with zeros in front.
#[inline]
fn eight_digits(value: u64) -> [u8; 8] {
    let ([a, b, c, d], [e, f, g, h]) = (four_digits(value / 10_000), four_digits(value % 10_000));
    [a, b, c, d, e, f, g, h]
}

/// Returns the last three digits of a number, padded with zeros in front.
#[inline]
pub fn three_digits(value: u64) -> [u8; 3] {
    let [_, digits @ ..] = four_digits(value % 10_000);
    digits
}

/// Returns the four digits of a number below 10,000, padded with zeros in front.
#[inline]
fn four_digits(value: u64) -> [u8; 4] {
    debug_assert!(value < 10_000);
    let ([a, b], [c, d]) = (PAIRS[(value / 100) as usize], PAIRS[(value % 100) as usize]);
    [a, b, c, d]
}

/// Returns the number of padding zeros among the four digits.
#[inline]
fn zeros_before(value: u64) -> usize {
    usize::from(value < 1000) + usize::from(value < 100) + usize::from(value < 10)
}

/// Room for a label and eight digits.
const LABELLED_BYTES: usize = 32;

/// Least number with more than eight digits.
const EIGHT_DIGITS: u64 = 100_000_000;

/// Eight zero digits, `00000000`.
const ZEROS: u64 = u64::from_le_bytes([b'0'; 8]);

/// Pairs of digits from `00` to `99`.
static PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut value = 0;
    while value < 100 {
        pairs[value] = [b'0' + (value / 10) as u8, b'0' + (value % 10) as u8];
        value += 1;
    }
    pairs
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_decimal() {
        let powers = (0..20).map(|exponent| 10u64.pow(exponent));
        for value in
            powers.flat_map(|power| [power - 1, power, power + 1, power + power / 3]).chain([u64::MAX])
        {
            let mut out = b"x".to_vec();
            push_decimal(&mut out, value);
            push_labelled(&mut out, b": ", value);
            assert_eq!(String::from_utf8(out).expect("digits"), format!("x{value}: {value}"));
            assert_eq!(Decimal::of(value).as_bytes(), value.to_string().as_bytes());
            assert_eq!(three_digits(value), format!("{:03}", value % 1000).as_bytes());
            for width in 1..=8 {
                let mut out = b"x".to_vec();
                push_filled(&mut out, value, width, b' ');
                push_filled(&mut out, value, width, b'0');
                let expected = format!("x{value:width$}{value:0width$}");
                assert_eq!(String::from_utf8(out).expect("digits"), expected);
            }
        }
    }
}
