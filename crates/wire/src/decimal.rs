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
    let text = u64::from_le_bytes(eight_digits(value));
    // A number has at least one digit.
    let zeros = (text ^ ZEROS).trailing_zeros().min(56) / 8;
    ((text >> (8 * zeros)).to_le_bytes(), 8 - zeros as usize)
}

/// Appends a number with `fill` before it, to fill `width` bytes, at most eight.
#[inline]
pub fn push_filled(out: &mut Vec<u8>, value: u64, width: usize, fill: u8) {
    debug_assert!(width <= 8);
    debug_assert!(fill.is_ascii());
    if value >= EIGHT_DIGITS {
        return push_decimal(out, value);
    }
    let text = u64::from_le_bytes(eight_digits(value));
    // A number has at least one digit.
    let zeros = (text ^ ZEROS).trailing_zeros().min(56) / 8;
    let is_zero = (1 << (8 * zeros)) - 1;
    let text = (text & !is_zero) | (u64::from_le_bytes([fill; 8]) & is_zero);
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
///
/// The word is divided as two numbers of 32 bits, then four of 16, then eight of 8 (Khuong, "How to
/// print integers really fast", 2017). Each multiplication divides all of them at once, by the
/// rounded reciprocal; the values are small enough for the quotients to be exact.
#[inline]
fn eight_digits(value: u64) -> [u8; 8] {
    debug_assert!(value < EIGHT_DIGITS);
    let fours = value / 10_000 | (value % 10_000) << 32;
    let hundreds = (fours.wrapping_mul(10_486) >> 20) & 0x7f_0000_007f;
    let twos = hundreds | (fours - 100 * hundreds) << 16;
    let tens = (twos.wrapping_mul(103) >> 10) & 0x000f_000f_000f_000f;
    let ones = tens | (twos - 10 * tens) << 8;
    (ones | ZEROS).to_le_bytes()
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

    #[test]
    fn each_four_digits_are_right() {
        for four in 0..10_000 {
            for value in [four, four * 10_000, four * 10_000 + 9999 - four] {
                assert_eq!(eight_digits(value), *format!("{value:08}").as_bytes());
            }
        }
    }
}
