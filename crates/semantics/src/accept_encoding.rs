//! Accept-Encoding: the codings that a client takes (RFC 9110, section 12.5.3), for a node that has
//! some of them.

use crate::lists;

/// Coding of a body that this node can make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// gzip (RFC 1952).
    Gzip,
    /// br (RFC 7932).
    Brotli,
    /// zstd (RFC 8878).
    Zstd,
}

/// Set of codings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Codings(u8);

/// Codings that a client takes, each with its weight in thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcceptedCodings {
    /// Weights of the codings, by number; 0 for one that the client does not take.
    weights: [u16; Coding::ALL.len()],
    /// Weight of the body as it is. A field that says nothing of it takes it last.
    identity: u16,
}

impl Coding {
    /// All codings, by number.
    pub const ALL: [Self; 3] = [Self::Gzip, Self::Brotli, Self::Zstd];

    /// Returns the `detail` of Cache-Status for a body that this cache coded.
    pub fn detail(self) -> &'static str {
        match self {
            Self::Gzip => "coded-gzip",
            Self::Brotli => "coded-br",
            Self::Zstd => "coded-zstd",
        }
    }

    /// Returns the name in Content-Encoding.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }

    /// Returns the coding with this name, in any case.
    pub fn named(name: &[u8]) -> Option<Self> {
        // RFC 9110, section 8.4.1.3: "A recipient SHOULD consider "x-gzip" to be equivalent to
        // "gzip"."
        let name = if name.eq_ignore_ascii_case(b"x-gzip") { b"gzip" } else { name };
        Self::ALL.into_iter().find(|coding| name.eq_ignore_ascii_case(coding.name().as_bytes()))
    }
}

impl Codings {
    /// Returns the set with these bits; other bits are ignored.
    pub fn from_bits(bits: u8) -> Self {
        Self(bits & ((1 << Coding::ALL.len()) - 1))
    }

    /// Returns the set as bits, the first for the first coding.
    pub fn bits(self) -> u8 {
        self.0
    }

    /// Returns the set of one coding.
    pub fn of(coding: Coding) -> Self {
        Self(1 << coding as u8)
    }

    /// Returns `true` if the coding is in the set.
    pub fn has(self, coding: Coding) -> bool {
        self.0 & Self::of(coding).0 != 0
    }
}

impl AcceptedCodings {
    /// Reads the lines of the field. A member with a weight that breaks the grammar counts as
    /// refused. Members beyond a number that no client needs are ignored.
    pub fn of<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut named = [None; Coding::ALL.len()];
        let (mut identity, mut others) = (None, None);
        for member in lines.into_iter().flat_map(lists::members).take(MEMBERS_MAX) {
            let (name, weight) = split_weight(member);
            match Coding::named(name) {
                Some(coding) => named[coding as usize] = Some(weight),
                None if name == b"*" => others = Some(weight),
                None if name.eq_ignore_ascii_case(b"identity") => identity = Some(weight),
                None => {}
            }
        }
        Self { weights: named.map(|weight| weight.or(others).unwrap_or(0)), identity: identity.unwrap_or(0) }
    }

    /// Returns the coding among `order` that the client likes best; of equals the first. `None` if
    /// it takes none of them, or likes the body as it is better.
    pub fn best(&self, order: impl IntoIterator<Item = Coding>) -> Option<Coding> {
        let mut best = None;
        let mut least = self.identity.max(1);
        for coding in order {
            let weight = self.weights[coding as usize];
            if weight > least || (weight == least && best.is_none()) {
                (best, least) = (Some(coding), weight);
            }
        }
        best
    }
}

/// Splits `br;q=0.5` into the name and the weight in thousandths.
fn split_weight(member: &[u8]) -> (&[u8], u16) {
    let mut parts = member.split(|byte| *byte == b';');
    let name = lists::trim(parts.next().unwrap_or_default());
    match (parts.next().map(lists::trim), parts.next()) {
        (None, _) => (name, 1000),
        (Some([b'q' | b'Q', b'=', digits @ ..]), None) => (name, thousandths(digits).unwrap_or(0)),
        // RFC 9110 defines no other parameter of a coding.
        (Some(_), _) => (name, 0),
    }
}

/// Reads a weight (RFC 9110, section 12.4.2).
fn thousandths(digits: &[u8]) -> Option<u16> {
    let (whole, fraction) = match digits {
        [whole @ (b'0' | b'1')] => (*whole, &[][..]),
        [whole @ (b'0' | b'1'), b'.', fraction @ ..] if fraction.len() <= 3 => (*whole, fraction),
        _ => return None,
    };
    let mut weight = u16::from(whole - b'0') * 1000;
    for (digit, unit) in fraction.iter().zip([100, 10, 1]) {
        weight += u16::from(digit.checked_sub(b'0').filter(|digit| *digit <= 9)?) * unit;
    }
    (weight <= 1000).then_some(weight)
}

/// Most members that are read.
const MEMBERS_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use Coding::{Brotli, Gzip, Zstd};
    use proptest::prelude::*;

    fn best(field: &str) -> Option<Coding> {
        AcceptedCodings::of([field.as_bytes()]).best([Brotli, Zstd, Gzip])
    }

    #[test]
    fn the_best_coding_is_taken() {
        for (field, expected) in [
            // browsers, curl --compressed
            ("gzip, deflate, br, zstd", Some(Brotli)),
            ("gzip, deflate, br", Some(Brotli)),
            ("gzip, deflate", Some(Gzip)),
            ("deflate, gzip, br, zstd", Some(Brotli)),
            ("GZIP", Some(Gzip)),
            ("x-gzip", Some(Gzip)),
            // weights
            ("gzip;q=1.0, br;q=0.8", Some(Gzip)),
            ("br;q=0.001", Some(Brotli)),
            ("br;q=0, gzip", Some(Gzip)),
            ("br ; q=0.5 , zstd; Q=0.7", Some(Zstd)),
            ("*", Some(Brotli)),
            ("br;q=0, *", Some(Zstd)),
            ("*;q=0", None),
            ("gzip, *;q=0", Some(Gzip)),
            ("identity, gzip;q=0.5", None),
            ("identity;q=0.5, gzip;q=0.5", Some(Gzip)),
            ("identity;q=0, gzip;q=0.1", Some(Gzip)),
            // none
            ("", None),
            ("identity", None),
            ("deflate", None),
            ("br;q=2", None),
            ("br;q=1.001", None),
            ("br;q=x", None),
            ("br;level=1", None),
            ("br;q=1;q=1", None),
            (",,;,;;", None),
        ] {
            assert_eq!(best(field), expected, "{field:?}");
        }
    }

    #[test]
    fn lines_are_one_list() {
        let read = AcceptedCodings::of([&b"gzip;q=0.1"[..], b"br"]);
        assert_eq!(read, AcceptedCodings::of([&b"gzip;q=0.1, br"[..]]));
        assert_eq!(read.best([Gzip]), Some(Gzip));
        assert_eq!(read.best([Zstd]), None);
        assert_eq!(AcceptedCodings::of([]).best(Coding::ALL), None);
    }

    #[test]
    fn members_beyond_the_limit_are_ignored() {
        let many = "a,".repeat(MEMBERS_MAX) + "gzip";
        assert_eq!(best(&many), None);
    }

    #[test]
    fn sets_keep_their_codings() {
        for coding in Coding::ALL {
            let set = Codings::of(coding);
            assert!(Coding::ALL.into_iter().all(|other| set.has(other) == (other == coding)));
            assert_eq!(Codings::from_bits(set.bits() | 0xf0), set);
        }
    }

    proptest! {
        #[test]
        fn a_refused_coding_is_never_taken(field in "((gzip|br|zstd|\\*|identity)(;q=[01](\\.[0-9]{1,4})?)?,? ?){0,8}") {
            let refused = format!("{field}, br;q=0");
            prop_assert_ne!(best(&refused), Some(Brotli));
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = AcceptedCodings::of([&*bytes]).best(Coding::ALL);
        }
    }
}
