//! A response as it came over the wire.

use crate::fields::Fields;
use crate::members::{self, Member};

/// Status line and fields.
#[derive(Clone, Debug, Default)]
pub struct Head {
    /// The version, such as `HTTP/1.1`.
    pub version: String,
    /// The status code.
    pub status: u16,
    /// The reason phrase.
    pub reason: String,
    /// The fields.
    pub fields: Fields,
}

impl Head {
    /// Reads a head without its final empty line; panics when its first line is no status line.
    pub fn parse(text: &str) -> Self {
        let (line, rest) = text.split_once("\r\n").unwrap_or((text, ""));
        let mut words = line.splitn(3, ' ');
        let version = words.next().unwrap_or_default().to_string();
        let status = words.next().and_then(|word| word.parse().ok());
        let (true, Some(status)) = (version.starts_with("HTTP/"), status) else {
            panic!("not a status line: {line:?}");
        };
        Self { version, status, reason: words.next().unwrap_or_default().into(), fields: Fields::parse(rest) }
    }
}

/// How a response ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By its own framing.
    Complete,
    /// Before its framing said so: the connection was closed or reset, or a stream reset.
    Cut(String),
}

/// A whole response, or as much of one as came.
#[derive(Clone, Debug)]
pub struct Response {
    /// Interim (1xx) responses that came before it.
    pub interim: Vec<Head>,
    /// Its version, such as `HTTP/1.1`.
    pub version: String,
    /// Its status.
    pub status: u16,
    /// Its fields.
    pub fields: Fields,
    /// Its body, transfer coding removed.
    pub body: Vec<u8>,
    /// Its trailer fields.
    pub trailers: Fields,
    /// Whether all of it came.
    pub ending: Ending,
}

impl Response {
    /// The first value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.first(name)
    }

    /// A field as a number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.field(name).and_then(|value| value.parse().ok())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Whether all of it came.
    pub fn complete(&self) -> bool {
        self.ending == Ending::Complete
    }

    /// The last member of Cache-Status: the cache nearest this client. Panics when there is none.
    pub fn cache(&self) -> Member {
        let status = members::cache_status(&self.fields).pop();
        status.unwrap_or_else(|| panic!("no Cache-Status on {} {:?}", self.status, self.fields))
    }

    /// The last member of Proxy-Status. Panics when there is none.
    pub fn proxy(&self) -> Member {
        let status = members::proxy_status(&self.fields).pop();
        status.unwrap_or_else(|| panic!("no Proxy-Status on {} {:?}", self.status, self.fields))
    }

    /// Whether it was answered from the cache without asking the origin.
    pub fn hit(&self) -> bool {
        self.cache().is("hit")
    }

    /// Panics unless it is a whole response with this status.
    pub fn expect_status(&self, status: u16) -> &Self {
        let text = self.text();
        let shown: String = text.chars().take(300).collect();
        assert_eq!(self.status, status, "fields {:?}\nbody {shown}", self.fields);
        assert_eq!(self.ending, Ending::Complete, "fields {:?}\nbody {shown}", self.fields);
        self
    }

    /// Panics unless it is a whole 200 with this body.
    pub fn expect_body(&self, body: impl AsRef<[u8]>) -> &Self {
        self.expect_status(200);
        assert!(self.body == body.as_ref(), "another body: {}", difference(&self.body, body.as_ref()));
        self
    }

    /// Panics unless it is a hit; says what it was.
    pub fn expect_hit(&self) -> &Self {
        assert!(self.hit(), "not a hit: {:?}", self.fields);
        self
    }

    /// Panics unless it was forwarded for `reason` (RFC 9211 section 2.2).
    pub fn expect_forwarded(&self, reason: &str) -> &Self {
        assert_eq!(self.cache().word("fwd").as_deref(), Some(reason), "{:?}", self.fields);
        self
    }
}

/// Says briefly how two bodies differ.
pub fn difference(seen: &[u8], expected: &[u8]) -> String {
    let common = seen.iter().zip(expected).take_while(|(a, b)| a == b).count();
    let shown =
        |bytes: &[u8]| String::from_utf8_lossy(&bytes[common..bytes.len().min(common + 40)]).into_owned();
    format!(
        "{} bytes instead of {}; they part at {common}: {:?} instead of {:?}",
        seen.len(),
        expected.len(),
        shown(seen),
        shown(expected)
    )
}
