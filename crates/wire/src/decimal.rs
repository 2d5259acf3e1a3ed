//! Numbers in decimal, for what is written of every request.

/// A number in decimal, as text.
#[derive(Clone, Copy, Debug)]
pub struct Decimal {
    /// Its digits are the last.
    text: [u8; 20],
    start: usize,
}

impl Decimal {
    /// Of `value`.
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

    /// Its digits.
    pub fn as_bytes(&self) -> &[u8] {
        &self.text[self.start..]
    }
}

/// Appends a number in decimal.
pub fn push_decimal(out: &mut Vec<u8>, value: u64) {
    // Always so many bytes, of which the last may be none: to copy as many as there are digits would take a call.
    let (text, digits) = if value < 10_000 {
        let zeros = zeros_before(value);
        (u64::from(u32::from_le_bytes(four_digits(value)) >> (8 * zeros)), 4 - zeros)
    } else if value < 100_000_000 {
        let zeros = zeros_before(value / 10_000);
        (u64::from_le_bytes(eight_digits(value)) >> (8 * zeros), 8 - zeros)
    } else {
        push_decimal(out, value / 100_000_000);
        (u64::from_le_bytes(eight_digits(value % 100_000_000)), 8)
    };
    let length = out.len() + digits;
    out.extend_from_slice(&text.to_le_bytes());
    out.truncate(length);
}

/// The eight digits of a number below 100,000,000, with zeros before it.
#[inline]
fn eight_digits(value: u64) -> [u8; 8] {
    let ([a, b, c, d], [e, f, g, h]) = (four_digits(value / 10_000), four_digits(value % 10_000));
    [a, b, c, d, e, f, g, h]
}

/// The three digits of a number below a thousand; of others the last three.
#[inline]
pub fn three_digits(value: u64) -> [u8; 3] {
    let [_, digits @ ..] = four_digits(value % 10_000);
    digits
}

/// The digits of a number below 10,000, with zeros before it.
#[inline]
fn four_digits(value: u64) -> [u8; 4] {
    let ([a, b], [c, d]) = (PAIRS[(value / 100) as usize], PAIRS[(value % 100) as usize]);
    [a, b, c, d]
}

/// How many of its four digits are such zeros.
#[inline]
fn zeros_before(value: u64) -> usize {
    usize::from(value < 1000) + usize::from(value < 100) + usize::from(value < 10)
}

/// `00` to `99`.
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
            assert_eq!(String::from_utf8(out).expect("digits"), format!("x{value}"));
            assert_eq!(Decimal::of(value).as_bytes(), value.to_string().as_bytes());
            assert_eq!(three_digits(value), format!("{:03}", value % 1000).as_bytes());
        }
    }
}
