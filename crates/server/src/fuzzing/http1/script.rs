//! HTTP/1 client script from any bytes: one byte for the manner of reading and writing, then steps.
//!
//! The lower half of a step's first byte is its kind, the upper half a choice. No step depends on a
//! reply: the client pipelines all requests.

use crate::fuzzing::input::Input;
use crate::fuzzing::peer::{Manner, Next};

/// State of a script.
pub(super) struct Http1Script {
    input: Input,
    pub manner: Manner,
}

impl Http1Script {
    /// Creates the script of `data`.
    pub fn new(data: &[u8]) -> Self {
        let mut input = Input::new(data);
        let manner = Manner::new(input.byte().unwrap_or_default());
        Self { input, manner }
    }

    /// Returns the next step; `None` after the last.
    pub fn next(&mut self) -> Option<Next> {
        let step = self.input.byte()?;
        let (kind, choice) = (step & 15, step >> 4);
        let place = usize::from(choice);
        let words = match kind {
            0..3 => {
                let bytes = place * 17 * self.input.number()? / 64;
                request("GET", &format!("/{}/{bytes}", ["hit", "memory", "stored"][usize::from(kind)]), "")
            }
            3 => request(ASKED[place].0, ASKED[place].1, ""),
            4 => request("GET", "/hit/99", FIELDS[place]),
            // A body with a length, or in chunks given by the next byte.
            5 => {
                let body = vec![b'b'; self.input.number()? % 9000];
                let fields = format!("Content-Length: {}\r\n", body.len());
                [request("POST", TAKEN[place % 4], &fields), body].concat()
            }
            6 => {
                let head = request("POST", TAKEN[place % 4], "Transfer-Encoding: chunked\r\n");
                [head, self.chunks()?].concat()
            }
            7 => {
                let fields = format!("Expect: 100-continue\r\nContent-Length: {choice}\r\n");
                [request("POST", TAKEN[place % 4], &fields), vec![b'b'; place]].concat()
            }
            // A head with arbitrary bytes in a field.
            8 => {
                let fields = [&b"X: "[..], &self.input.some(), b"\r\n"].concat();
                let mut words = request("GET", "/hit/9", "");
                words.splice(words.len() - 2..words.len() - 2, fields);
                words
            }
            9 => self.input.some(),
            10 => BROKEN[place].as_bytes().to_vec(),
            11 => b"\r\n".repeat(place / 4),
            _ => return self.pause(choice),
        };
        Some(Next::Say(words))
    }

    fn pause(&mut self, choice: u8) -> Option<Next> {
        Some(match choice {
            0 => Next::Release,
            1 => Next::Drain,
            2 => {
                self.manner = Manner::new(self.input.byte()?);
                Next::Rest { silent: 0, deaf: 0 }
            }
            _ => {
                let turns = u32::from(self.input.byte()?);
                let (silent, deaf) = [(turns, 0), (0, turns), (turns, turns)][usize::from(choice % 3)];
                Next::Rest { silent, deaf }
            }
        })
    }

    /// Returns chunks; a byte gives the length of each. The last, empty chunk may be missing.
    fn chunks(&mut self) -> Option<Vec<u8>> {
        let manner = self.input.byte()?;
        let mut chunks = Vec::new();
        for _ in 0..manner & 7 {
            let bytes = usize::from(self.input.byte()?) + 1;
            chunks.extend(format!("{bytes:x}{}\r\n", if manner & 8 != 0 { ";a=\"b\"" } else { "" }).bytes());
            chunks.resize(chunks.len() + bytes, b'c');
            chunks.extend(if manner & 16 != 0 { &b"\n"[..] } else { b"\r\n" });
        }
        if manner & 32 == 0 {
            chunks.extend(b"0\r\n");
            chunks.extend(if manner & 64 != 0 { &b"X-Sum: 7\r\n\r\n"[..] } else { b"\r\n" });
        }
        Some(chunks)
    }
}

fn request(method: &str, target: &str, fields: &str) -> Vec<u8> {
    let version = if fields.starts_with("X-Old") { "1.0" } else { "1.1" };
    format!("{method} {target} HTTP/{version}\r\nHost: test\r\n{fields}\r\n").into_bytes()
}

/// Requests other than those for a number of bytes.
const ASKED: [(&str, &str); 16] = [
    ("GET", "/frames"),
    ("GET", "/fails"),
    ("GET", "/long"),
    ("GET", "/trailers"),
    ("GET", "/hints"),
    ("GET", "/gated"),
    ("GET", "/never"),
    ("GET", "/304"),
    ("HEAD", "/memory/500"),
    ("HEAD", "/frames"),
    ("GET", "/empty"),
    ("OPTIONS", "*"),
    ("CONNECT", "test:443"),
    ("GET", "http://test/hit/7"),
    ("GET", "/nowhere"),
    ("DELETE", "/memory/3"),
];

/// Paths that read a body, each in another way.
const TAKEN: [&str; 4] = ["/count", "/echo", "/first", "/memory/7"];

/// Fields that affect the connection or the request's path through the server.
const FIELDS: [&str; 16] = [
    "",
    "Connection: close\r\n",
    "Connection: keep-alive\r\n",
    "X-Old: 1\r\n",
    "X-Old: 1\r\nConnection: keep-alive\r\n",
    "Connection: upgrade\r\nUpgrade: other\r\n",
    "TE: trailers\r\nConnection: te\r\n",
    "Content-Length: 0\r\n",
    "Expect: 100-continue\r\n",
    "Expect: a miracle\r\n",
    "Cookie: a=b\r\nUser-Agent: x\r\n",
    "Range: bytes=0-1\r\n",
    "Host: test\r\n",
    "Host : test\r\n",
    "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
    "Transfer-Encoding: gzip, chunked\r\n",
];

/// Invalid or unfinished requests.
const BROKEN: [&str; 16] = [
    "GET /hit/5 HTTP/1.1\r\n",
    "GET /hit/5 HTTP/1.1\nHost: test\n\n",
    "GET /hit/5 HTTP/1.1\r\nHost: test\r\nX: a\r\n b\r\n\r\n",
    "GET /hit/5 HTTP/2.0\r\n\r\n",
    "GET  /hit/5 HTTP/1.1\r\nHost: test\r\n\r\n",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "POST /count HTTP/1.1\r\nHost: test\r\nContent-Length: 3, 3\r\n\r\nabc",
    "POST /count HTTP/1.1\r\nHost: test\r\nContent-Length: 70000\r\n\r\n",
    "POST /memory/5 HTTP/1.1\r\nHost: test\r\nContent-Length: 70000\r\n\r\n",
    "GET /hit/5 HTTP/1.1\r\nHost: other\r\nHost: test\r\n\r\n",
    "GET http://other/hit/5 HTTP/1.1\r\nHost: test\r\n\r\n",
    "CONNECT test HTTP/1.1\r\nHost: test\r\n\r\n",
    "\x16\x03\x01\x02\0\x01\0\x01\r\n\r\n",
    "POST /count HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "POST /echo HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc",
    "GET /frames HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
];
