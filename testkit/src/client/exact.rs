//! An answer as it stood on the wire, and what is left of it when the clock is left out.

/// An answer over HTTP/1: order and spelling of its fields and its reason phrase as they came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exact {
    /// Status line and fields, without the empty line.
    pub head: String,
    /// The body, transfer coding removed.
    pub body: Vec<u8>,
}

impl Exact {
    /// All of it but what the clock decides: `Age`, `Date`, the rest of the lifetime, and what
    /// parts several ranges.
    pub fn timeless(self) -> Self {
        let timeless = |line: &str| match line.split_once(": ") {
            Some((name @ ("age" | "date"), _)) => name.to_owned(),
            Some(("cache-status", _)) => line.split(";ttl=").next().unwrap_or_default().to_owned(),
            _ => line.to_owned(),
        };
        let head = self.head.split("\r\n").map(timeless).collect::<Vec<_>>().join("\r\n");
        let boundary = head.split_once("boundary=").and_then(|(_, rest)| rest.split("\r\n").next());
        match boundary.map(str::to_owned) {
            None => Self { head, body: self.body },
            Some(boundary) => {
                let body = String::from_utf8_lossy(&self.body).replace(&boundary, "BOUNDARY").into_bytes();
                Self { head: head.replace(&boundary, "BOUNDARY"), body }
            }
        }
    }

    /// Panics unless both are the same but for the clock.
    pub fn expect_like(self, other: Self, what: &str) {
        let (seen, expected) = (self.timeless(), other.timeless());
        assert_eq!(seen.head, expected.head, "{what}");
        let is_same = seen.body == expected.body;
        assert!(is_same, "{what}: {}", super::response::difference(&seen.body, &expected.body));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(head: &str, body: &str) -> Exact {
        Exact { head: head.into(), body: body.into() }
    }

    #[test]
    fn only_the_clock_is_left_out() {
        let one = exact("HTTP/1.1 200 OK\r\nage: 1\r\na: b\r\ndate: x\r\ncache-status: s;hit;ttl=4", "body");
        let later =
            exact("HTTP/1.1 200 OK\r\nage: 20\r\na: b\r\ndate: y\r\ncache-status: s;hit;ttl=3", "body");
        later.expect_like(one.clone(), "the same");
        for other in ["HTTP/1.1 200 Fine\r\nage: 1", "HTTP/1.1 200 OK\r\na: b\r\nage: 1", "HTTP/1.1 200 OK"] {
            assert_ne!(exact(other, "body").timeless(), one.clone().timeless());
        }
        let parts = |boundary: &str| {
            exact(&format!("a\r\nc: d; boundary={boundary}\r\ne: f"), &format!("--{boundary}--"))
        };
        assert_eq!(parts("abc").timeless(), parts("defg").timeless());
    }
}
