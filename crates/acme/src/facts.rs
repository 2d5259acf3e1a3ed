//! Dates and numbers in a certificate (RFC 5280, section 4.1), read from DER.
//!
//! Only parts that the node needs are read; the libraries of TLS judge the rest. A part that cannot
//! be read makes no facts, never a panic.

/// Parts of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFacts {
    /// First second of its validity, since 1970.
    pub not_before: u64,
    /// Last second of its validity, since 1970.
    pub not_after: u64,
    /// Serial number, as its bytes stand in the certificate.
    pub serial: Vec<u8>,
    /// Identifier of the key that signed; the authority leaves it out seldom.
    pub authority_key: Option<Vec<u8>>,
}

impl CertificateFacts {
    /// Reads a certificate; `None` if it cannot be read.
    pub fn read(certificate: &[u8]) -> Option<Self> {
        let mut signed = Der(Der(certificate).expect(SEQUENCE)?);
        let mut fields = Der(signed.expect(SEQUENCE)?);
        let (mut tag, mut content) = fields.element()?;
        if tag == VERSION {
            (tag, content) = fields.element()?;
        }
        let serial = (tag == INTEGER && content.len() <= SERIAL_MAX).then(|| content.to_vec())?;
        // The algorithm and the issuer.
        fields.expect(SEQUENCE)?;
        fields.expect(SEQUENCE)?;
        let mut validity = Der(fields.expect(SEQUENCE)?);
        let (not_before, not_after) = (time(validity.element()?)?, time(validity.element()?)?);
        // The subject and the key.
        fields.expect(SEQUENCE)?;
        fields.expect(SEQUENCE)?;
        let authority_key = authority_key(fields);
        Some(Self { not_before, not_after, serial, authority_key })
    }

    /// Returns the time of validity, in seconds.
    pub fn lifetime(&self) -> u64 {
        self.not_after.saturating_sub(self.not_before)
    }
}

/// Returns the identifier of the key that signed, among the fields behind the key.
fn authority_key(mut fields: Der<'_>) -> Option<Vec<u8>> {
    let extensions = std::iter::from_fn(|| fields.element()).find(|(tag, _)| *tag == EXTENSIONS)?;
    let mut list = Der(Der(extensions.1).expect(SEQUENCE)?);
    while let Some((SEQUENCE, extension)) = list.element() {
        let mut extension = Der(extension);
        if extension.expect(OID)? != AUTHORITY_KEY_OID {
            continue;
        }
        let (mut tag, mut content) = extension.element()?;
        if tag == BOOLEAN {
            (tag, content) = extension.element()?;
        }
        let value = (tag == OCTETS).then_some(content)?;
        let (tag, key) = Der(Der(value).expect(SEQUENCE)?).element()?;
        return (tag == KEY_IDENTIFIER && key.len() <= SERIAL_MAX).then(|| key.to_vec());
    }
    None
}

/// Reads a time. RFC 5280, 4.1.2.5: "Conforming applications MUST be able to process validity dates
/// that are encoded in either UTCTime or GeneralizedTime", both to the second and in UTC.
fn time((tag, text): (u8, &[u8])) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, rest) = match (tag, text.len()) {
        (UTC_TIME, 12) => {
            let (year, rest) = text.split_at(2);
            let year: i64 = year.parse().ok()?;
            // "Where YY is greater than or equal to 50, the year SHALL be interpreted as 19YY".
            (if year >= 50 { 1900 + year } else { 2000 + year }, rest)
        }
        (GENERALIZED_TIME, 14) => {
            let (year, rest) = text.split_at(4);
            (year.parse().ok()?, rest)
        }
        _ => return None,
    };
    let part = |at: usize| rest[at..at + 2].parse::<i64>().ok();
    let (month, day) = (part(0)?, part(2)?);
    let (hour, minute, second) = (part(4)?, part(6)?, part(8)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    // A certificate from before 1970 has ended.
    Some(u64::try_from(seconds).unwrap_or(0))
}

/// Returns the days from 1970 to a date of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so that the leap day is their last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    let (from_march, to_1970) = ((153 * month + 2) / 5 + day - 1, 719_468);
    year * 365 + leap_days + from_march - to_1970
}

/// Elements of DER, one behind the other.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// Takes the next element: its tag and content. Lengths have up to three bytes.
    fn element(&mut self) -> Option<(u8, &'a [u8])> {
        let (tag, rest) = self.0.split_first()?;
        let (first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(*first), rest),
            0x81..=0x83 => {
                let (length, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
                (length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((*tag, content))
    }

    /// Takes the next element, if it has this tag.
    fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.element().filter(|(found, _)| *found == tag).map(|(_, content)| content)
    }
}

const BOOLEAN: u8 = 0x01;
const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const OID: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const KEY_IDENTIFIER: u8 = 0x80;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;

/// Object identifier of the extension authorityKeyIdentifier (RFC 5280, section 4.2.1.1).
const AUTHORITY_KEY_OID: &[u8] = &[0x55, 0x1d, 0x23];

/// Longest serial number or identifier of a key that is read, in bytes.
const SERIAL_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn made(edit: impl FnOnce(&mut rcgen::CertificateParams)) -> Vec<u8> {
        let key = rcgen::KeyPair::generate().expect("a key");
        let mut params = rcgen::CertificateParams::new(vec!["a.test".into()]).expect("parameters");
        params.serial_number = Some(vec![0x7f, 1, 2].into());
        params.use_authority_key_identifier_extension = true;
        edit(&mut params);
        params.self_signed(&key).expect("a certificate").der().to_vec()
    }

    #[test]
    fn dates_and_numbers_are_read() {
        for (from, to, not_before, not_after) in [
            ((2020, 1, 1), (2020, 3, 1), 1_577_836_800, 1_583_020_800),
            ((1975, 1, 1), (4096, 1, 1), 157_766_400, 67_090_118_400),
            ((2024, 2, 29), (2049, 12, 31), 1_709_164_800, 2_524_521_600),
        ] {
            let certificate = made(|params| {
                params.not_before = rcgen::date_time_ymd(from.0, from.1, from.2);
                params.not_after = rcgen::date_time_ymd(to.0, to.1, to.2);
            });
            let facts = CertificateFacts::read(&certificate).expect("a sound certificate");
            assert_eq!((facts.not_before, facts.not_after), (not_before, not_after));
            assert_eq!(facts.serial, [0x7f, 1, 2]);
            assert_eq!(facts.authority_key.expect("asked for").len(), 20);
        }
    }

    #[test]
    fn cut_certificates_make_no_facts() {
        let certificate = made(|_| ());
        for length in 0..certificate.len() {
            assert_eq!(CertificateFacts::read(&certificate[..length]), None);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = CertificateFacts::read(&bytes);
        }

        /// Each byte of a certificate may be anything.
        #[test]
        fn damaged_certificates_are_read(at in 0usize..400, byte in any::<u8>()) {
            let mut certificate = made(|_| ());
            let at = at % certificate.len();
            certificate[at] = byte;
            let _ = CertificateFacts::read(&certificate);
        }
    }
}
