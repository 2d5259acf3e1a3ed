//! Field `Shoal-Peer`: how a node asks another one for an object.
//!
//! ```text
//!  Shoal-Peer: 1 home 00d1…(16) 127.0.0.1:4711 1 5c0f…(16) 0000…(16) 1000 forward
//!  Shoal-Peer: 1 holder … … 2 … … 250 site a.test /path
//!              │ │     │   │  │ │ │ │   └ mode; a site by its first host and path prefix
//!              │ │     │   │  │ │ │ └ time left in milliseconds
//!              │ │     │   │  │ │ └ hash of the purge vector
//!              │ │     │   │  │ └ fingerprint of the view
//!              │ │     │   │  └ hops
//!              │ │     │   └ client of the entry node
//!              │ │     └ entry node
//!              │ └ kind
//!              └ version
//! ```
//!
//! The key is not told: the node computes the key from the target and the mode. The parts stand in
//! this order with one space between them. A field that deviates anywhere is refused.

use shoal_cooperation::{AskKind, NodeId};
use std::fmt::Write;
use std::net::SocketAddr;

/// Ask for an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectAsk {
    /// Kind of the ask.
    pub kind: AskKind,
    /// Node that a client asked.
    pub entry: NodeId,
    /// That client.
    pub client: SocketAddr,
    /// Hops so far, this one included.
    pub hops: u8,
    /// Fingerprint of the asker's view.
    pub view: u64,
    /// Hash of the asker's purge vector.
    pub purges: u64,
    /// Time in milliseconds in which the asker wants a sign of life.
    pub deadline_ms: u32,
    /// Mode of the request.
    pub mode: AskMode,
}

/// Mode of a request, which is a part of the key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AskMode {
    /// A client of the forward proxy.
    Forward,
    /// A client of a site.
    Site {
        /// First host of the site's settings.
        host: String,
        /// Path prefix of the site.
        prefix: String,
    },
    /// A client of a mirror; the request's target is a place at its registry.
    Mirror {
        /// Name of the mirror.
        name: String,
        /// Part of the keys of its answers.
        realm: String,
    },
}

/// Ask for an object, as it stands in a field: nothing is copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BorrowedAsk<'a> {
    /// Kind of the ask.
    pub kind: AskKind,
    /// Node that a client asked.
    pub entry: NodeId,
    /// That client.
    pub client: SocketAddr,
    /// Hops so far, this one included.
    pub hops: u8,
    /// Fingerprint of the asker's view.
    pub view: u64,
    /// Hash of the asker's purge vector.
    pub purges: u64,
    /// Time in milliseconds in which the asker wants a sign of life.
    pub deadline_ms: u32,
    /// First host and path prefix of the site, or name and realm of the mirror; `None` for a client
    /// of the forward proxy.
    pub site: Option<(&'a str, &'a str)>,
    /// `true` for a client of a mirror.
    pub is_mirror: bool,
}

/// Field that is no ask of this version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AskFault {
    /// Another version of the protocol.
    Version,
    /// A part is missing, malformed or out of its limits.
    Malformed(&'static str),
}

impl ObjectAsk {
    /// Writes the value of the field. Returns `None` if the site has a name that cannot be written.
    pub fn to_value(&self) -> Option<String> {
        let kind = match self.kind {
            AskKind::Home => "home",
            AskKind::Holder => "holder",
        };
        let Self { entry: NodeId(entry), client, hops, view, purges, deadline_ms, .. } = self;
        let mut value = String::with_capacity(160);
        let _ = write!(
            value,
            "{VERSION} {kind} {entry:016x} {client} {hops} {view:016x} {purges:016x} {deadline_ms} "
        );
        match &self.mode {
            AskMode::Forward => value.push_str("forward"),
            AskMode::Site { host: first, prefix: second }
            | AskMode::Mirror { name: first, realm: second } => {
                if ![first, second].into_iter().all(|part| is_name(part)) {
                    return None;
                }
                let word = if matches!(self.mode, AskMode::Site { .. }) { "site" } else { "mirror" };
                let _ = write!(value, "{word} {first} {second}");
            }
        }
        debug_assert_eq!(Self::parse(value.as_bytes()).as_ref(), Ok(self), "what is written can be read");
        Some(value)
    }

    /// Reads the value of the field.
    ///
    /// # Errors
    /// The first part that deviates.
    pub fn parse(value: &[u8]) -> Result<Self, AskFault> {
        let BorrowedAsk { kind, entry, client, hops, view, purges, deadline_ms, site, is_mirror } =
            BorrowedAsk::parse(value)?;
        let mode = match site {
            None => AskMode::Forward,
            Some((name, realm)) if is_mirror => {
                AskMode::Mirror { name: name.to_owned(), realm: realm.to_owned() }
            }
            Some((host, prefix)) => AskMode::Site { host: host.to_owned(), prefix: prefix.to_owned() },
        };
        Ok(Self { kind, entry, client, hops, view, purges, deadline_ms, mode })
    }
}

impl<'a> BorrowedAsk<'a> {
    /// Reads the value of the field without an allocation.
    ///
    /// # Errors
    /// The first part that deviates.
    pub fn parse(value: &'a [u8]) -> Result<Self, AskFault> {
        let wrong = AskFault::Malformed;
        if value.len() > VALUE_BYTES_MAX {
            return Err(wrong("length"));
        }
        let text = std::str::from_utf8(value).map_err(|_| wrong("characters"))?;
        let mut parts = text.split(' ');
        let mut part = |name| parts.next().ok_or(wrong(name));
        if part("version")? != VERSION {
            return Err(AskFault::Version);
        }
        let kind = match part("kind")? {
            "home" => AskKind::Home,
            "holder" => AskKind::Holder,
            _ => return Err(wrong("kind")),
        };
        let entry = NodeId(hexadecimal(part("entry")?).ok_or(wrong("entry"))?);
        let said = part("client")?;
        let client: SocketAddr = said.parse().map_err(|_| wrong("client"))?;
        if !is_written(&client, said) {
            return Err(wrong("client"));
        }
        let hops = decimal(part("hops")?).and_then(|hops| u8::try_from(hops).ok()).ok_or(wrong("hops"))?;
        let view = hexadecimal(part("view")?).ok_or(wrong("view"))?;
        let purges = hexadecimal(part("purges")?).ok_or(wrong("purges"))?;
        let deadline_ms =
            decimal(part("deadline")?).and_then(|left| u32::try_from(left).ok()).ok_or(wrong("deadline"))?;
        let mode = part("mode")?;
        let site = match mode {
            "forward" => None,
            "site" | "mirror" => Some((name(part("host")?)?, name(part("prefix")?)?)),
            _ => return Err(wrong("mode")),
        };
        let is_mirror = mode == "mirror";
        match parts.next() {
            Some(_) => Err(wrong("end")),
            None => Ok(Self { kind, entry, client, hops, view, purges, deadline_ms, site, is_mirror }),
        }
    }
}

/// Returns `true` if the address is written in this way alone.
fn is_written(address: &SocketAddr, said: &str) -> bool {
    /// Text that is still to be written.
    struct TextRest<'a>(&'a str);

    impl Write for TextRest<'_> {
        fn write_str(&mut self, piece: &str) -> std::fmt::Result {
            self.0 = self.0.strip_prefix(piece).ok_or(std::fmt::Error)?;
            Ok(())
        }
    }

    let mut expected = TextRest(said);
    write!(expected, "{address}").is_ok() && expected.0.is_empty()
}

fn name(part: &str) -> Result<&str, AskFault> {
    if is_name(part) { Ok(part) } else { Err(AskFault::Malformed("site")) }
}

/// Returns `true` for a text that stands in the field as it is.
fn is_name(part: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Reads exactly sixteen digits in lower case.
pub(crate) fn hexadecimal(digits: &str) -> Option<u64> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(u64::from(byte - b'0')),
        b'a'..=b'f' => Some(u64::from(byte - b'a') + 10),
        _ => None,
    };
    let digits: &[u8; 16] = digits.as_bytes().try_into().ok()?;
    digits.iter().try_fold(0, |number, byte| Some(number << 4 | digit(*byte)?))
}

/// Reads a number without needless zeros or a sign.
pub(crate) fn decimal(digits: &str) -> Option<u64> {
    let is_shortest = !digits.starts_with('0') || digits == "0";
    let is_number = is_shortest && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

/// Name of the field, in lower case.
pub const PEER_FIELD: &str = "shoal-peer";

/// TE of an ask by a node that reads trailers, but no mark of a digest in the answer.
pub const TE_TRAILERS: &str = "trailers";

/// TE of an ask by a node that also reads the mark of a digest in the answer. A node of an earlier
/// build does not say this, and takes an answer with a mark for a lie.
pub const TE_MARK: &str = "trailers, shoal-mark";

/// Version of asks and answers.
pub(crate) const VERSION: &str = "1";

/// Most bytes of a field that is read.
pub(crate) const VALUE_BYTES_MAX: usize = 2048;

/// Most bytes of a site's host or prefix.
const NAME_BYTES_MAX: usize = 768;

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(mode: AskMode) -> ObjectAsk {
        ObjectAsk {
            kind: AskKind::Home,
            entry: NodeId(0xd1),
            client: ([127, 0, 0, 1], 4711).into(),
            hops: 1,
            view: 0x5c0f,
            purges: 0,
            deadline_ms: 1000,
            mode,
        }
    }

    #[test]
    fn asks_are_read_as_they_were_written() {
        let written = ask(AskMode::Forward).to_value().expect("it can be written");
        assert_eq!(
            written,
            "1 home 00000000000000d1 127.0.0.1:4711 1 0000000000005c0f 0000000000000000 1000 forward"
        );
        let site = AskMode::Site { host: "*.a.test".into(), prefix: "/b".into() };
        let holder = ObjectAsk { kind: AskKind::Holder, client: "[::1]:1".parse().expect("it"), ..ask(site) };
        let written = holder.to_value().expect("it can be written");
        assert_eq!(ObjectAsk::parse(written.as_bytes()), Ok(holder));
        let mirror = ask(AskMode::Mirror { name: "npm".into(), realm: "npm-1".into() });
        let written = mirror.to_value().expect("it can be written");
        assert!(written.ends_with(" mirror npm npm-1"), "{written}");
        assert_eq!(ObjectAsk::parse(written.as_bytes()), Ok(mirror));
        let odd = AskMode::Site { host: "a b".into(), prefix: "/".into() };
        assert_eq!(ask(odd).to_value(), None);
    }

    #[test]
    fn whatever_deviates_is_refused() {
        let written = ask(AskMode::Forward).to_value().expect("it can be written");
        for (from, to) in [
            ("1 home", "2 home"),
            ("home", "parent"),
            ("00d1", "00D1"),
            ("00d1", "0d1"),
            ("127.0.0.1:4711", "127.0.0.1"),
            ("127.0.0.1:4711", "127.0.0.1:04711"),
            (" 1 0000", " +1 0000"),
            (" 1 0000", " 256 0000"),
            ("1000 forward", "01000 forward"),
            ("1000 forward", "4294967296 forward"),
            ("forward", "reverse"),
            ("forward", "site a.test"),
            ("forward", "forward "),
            ("home ", "home  "),
            ("forward", ""),
        ] {
            let changed = written.replacen(from, to, 1);
            assert!(ObjectAsk::parse(changed.as_bytes()).is_err(), "{changed}");
        }
        assert_eq!(ObjectAsk::parse(b"2 home"), Err(AskFault::Version));
        assert_eq!(ObjectAsk::parse(&[b' '; 4096]), Err(AskFault::Malformed("length")));
        assert!(ObjectAsk::parse(b"\xff").is_err());
    }
}
