//! Heads and bodies that parsers have been known to read in different ways, each with how it is to
//! be read.
//!
//! All but a few ask for [`PATH`], and hold [`HIDDEN`] where a disagreement about the end of the
//! first request would show.

/// A request that some parsers frame in one way and others in another.
pub struct Case {
    pub name: &'static str,
    /// Its place in the corpus, which its paths end in.
    pub number: usize,
    /// What is sent.
    pub bytes: String,
    /// Requests that these are; 0 when the first of them is to be refused.
    pub requests: usize,
}

impl Case {
    /// What the origin says to each of its requests.
    pub fn answers(&self) -> Vec<String> {
        let method = self.bytes.split_whitespace().next().unwrap_or_default();
        let both = [(method, "a"), ("GET", "hidden")];
        let named = both.map(|(method, path)| format!("{method} of /{path}/{:03}", self.number));
        named[..self.requests].to_vec()
    }
}

/// All of them.
pub fn corpus() -> Vec<Case> {
    let all =
        [lengths(), codings(), heads_around_codings(), chunks(), trailers(), lines(), hosts(), others()];
    let case = |(number, (name, requests, bytes)): (usize, Row)| Case {
        name,
        number,
        bytes: bytes.replace("/000", &format!("/{number:03}")),
        requests,
    };
    all.concat().into_iter().enumerate().map(case).collect()
}

/// Name, requests and bytes of a case; the bytes as those of number 0.
type Row = (&'static str, usize, String);

const PATH: &str = "/a/000";
const HIDDEN: &str = "GET /hidden/000 HTTP/1.1\r\nHost: site.test\r\n\r\n";

fn post(fields: &str, body: &str) -> String {
    format!("POST {PATH} HTTP/1.1\r\nHost: site.test\r\n{fields}\r\n{body}")
}

fn get(fields: &str) -> String {
    format!("GET {PATH} HTTP/1.1\r\nHost: site.test\r\n{fields}\r\n{HIDDEN}")
}

/// With this request line in front, and a hidden request behind.
fn line(line: &str) -> String {
    format!("{line}\r\nHost: site.test\r\n\r\n{HIDDEN}")
}

/// A body that ends at once for who reads chunks, and a hidden request after it.
fn last_chunk() -> String {
    format!("0\r\n\r\n{HIDDEN}")
}

/// Lengths that are several, or no numbers, or not quite named.
fn lengths() -> Vec<Row> {
    let length = HIDDEN.len();
    let with = |field: String| post(&format!("{field}\r\n"), HIDDEN);
    vec![
        ("two lengths", 0, with(format!("Content-Length: 0\r\nContent-Length: {length}"))),
        ("two equal lengths", 0, with(format!("Content-Length: {length}\r\nContent-Length: {length}"))),
        ("a list of lengths", 0, with(format!("Content-Length: 0, {length}"))),
        ("a length and a comma", 0, with(format!("Content-Length: {length},"))),
        ("a signed length", 0, with(format!("Content-Length: +{length}"))),
        ("a negative length", 0, with("Content-Length: -1".into())),
        ("a hexadecimal length", 0, with(format!("Content-Length: 0x{length:x}"))),
        ("a length with a point", 0, with(format!("Content-Length: {length}.0"))),
        ("a length in two words", 0, with(format!("Content-Length: {length} 0"))),
        ("a length with leading zeros", 1, with(format!("Content-Length: 00{length}"))),
        ("an empty length", 0, with("Content-Length:".into())),
        ("a length that overflows", 0, with("Content-Length: 18446744073709551616".into())),
        ("a length after a space", 0, with(format!("Content-Length : {length}"))),
        ("a length between blanks", 1, with(format!("Content-Length:\t {length} \t"))),
        ("a length behind a form feed", 0, with(format!("Content-Length: \u{c}{length}"))),
        ("a length in a fold", 0, with(format!("Content-Length: 0\r\n {length}"))),
        ("a length behind an underscore", 2, with(format!("Content_Length: {length}"))),
        (
            "connection names the length",
            1,
            with(format!("Connection: content-length\r\nContent-Length: {length}")),
        ),
    ]
}

/// Codings beside a length, or spelled so that some do not see them.
fn codings() -> Vec<Row> {
    let chunked = last_chunk();
    let length = chunked.len();
    let coding = |field: &str| post(&format!("{field}\r\n"), &chunked);
    let both = |field: &str| post(&format!("Content-Length: {length}\r\n{field}\r\n"), &chunked);
    let hex = format!("{:x}", HIDDEN.len());
    vec![
        ("length before coding", 0, both("Transfer-Encoding: chunked")),
        (
            "coding before length",
            0,
            coding(&format!("Transfer-Encoding: chunked\r\nContent-Length: {length}")),
        ),
        (
            "short length, whole chunk",
            0,
            post(
                "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
                &format!("{hex}\r\n{HIDDEN}\r\n0\r\n\r\n"),
            ),
        ),
        ("a coding after a space", 0, both("Transfer-Encoding : chunked")),
        ("a coding after a no-break space", 0, both("Transfer-Encoding\u{a0}: chunked")),
        ("a coding behind a tab", 0, both("Transfer-Encoding:\tchunked")),
        ("a coding behind a vertical tab", 0, both("Transfer-Encoding: \u{b}chunked")),
        ("a coding before a form feed", 0, both("Transfer-Encoding: chunked\u{c}")),
        ("a coding between blanks", 2, coding("Transfer-Encoding: \t chunked \t")),
        ("a coding in capitals", 0, both("Transfer-Encoding: CHUNKED")),
        ("a coding in capitals alone", 2, coding("TRANSFER-ENCODING: CHUNKED")),
        ("an unknown coding", 0, both("Transfer-Encoding: xchunked")),
        ("chunked not last", 0, both("Transfer-Encoding: chunked, identity")),
        ("chunked behind another", 0, coding("Transfer-Encoding: identity, chunked")),
        ("chunked before a comma", 0, coding("Transfer-Encoding: chunked,")),
        ("chunked behind a comma", 0, coding("Transfer-Encoding: , chunked")),
        ("chunked with a parameter", 0, coding("Transfer-Encoding: chunked;a=b")),
        ("chunked twice", 0, both("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked")),
        ("a quoted coding", 0, both("Transfer-Encoding: \"chunked\"")),
        ("a coding behind an underscore", 1, both("Transfer_Encoding: chunked")),
        ("a coding in HTTP/1.0", 0, coding("Transfer-Encoding: chunked").replacen("HTTP/1.1", "HTTP/1.0", 1)),
        (
            "connection names the coding",
            2,
            coding("Connection: transfer-encoding\r\nTransfer-Encoding: chunked"),
        ),
    ]
}

/// Ends of lines by which a coding is seen, or not.
fn heads_around_codings() -> Vec<Row> {
    let chunked = last_chunk();
    let length = chunked.len();
    let around = |before: &str| {
        let fields = format!("{before}Transfer-Encoding: chunked\r\nContent-Length: {length}\r\n");
        post(&fields, &chunked)
    };
    let folded = format!("Content-Length: {length}\r\nTransfer-Encoding:\r\n chunked\r\n");
    let nul = format!("X-A: b\0\r\nContent-Length: {length}\r\nTransfer-Encoding\0: chunked\r\n");
    let bare = format!("POST {PATH} HTTP/1.1\nHost: site.test\nContent-Length: {}\n\n{HIDDEN}", HIDDEN.len());
    let ended = post(&format!("Content-Length: {}\r\n", HIDDEN.len()), "");
    vec![
        ("a folded coding", 0, post(&folded, &chunked)),
        ("a coding in a fold", 0, around("X-A: b\r\n ")),
        ("a coding behind a fold of a blank", 0, around("X-A: b\r\n \r\n")),
        ("a bare CR before the coding", 0, around("X-A: b\r")),
        ("a bare LF before the coding", 0, around("X-A: b\n")),
        ("a line ended by CR CR LF", 0, around("X-A: b\r\r\n")),
        ("bare LFs throughout", 0, bare),
        ("a head ended by LF", 0, [ended.trim_end(), "\r\n\n", HIDDEN].concat()),
        ("a NUL before the coding", 0, post(&nul, &chunked)),
    ]
}

/// Chunks whose size or end can be read in two ways.
fn chunks() -> Vec<Row> {
    let chunked = last_chunk();
    let first = |chunk: &str| post("Transfer-Encoding: chunked\r\n", &format!("{chunk}{chunked}"));
    vec![
        ("a chunk extension", 2, first("1;a=b\r\nx\r\n")),
        ("a chunk extension behind a tab", 2, first("1\t;a=b\r\nx\r\n")),
        ("a chunk extension with an open quote", 2, first("1;a=\"\r\nx\r\n")),
        ("a chunk extension with a bare LF", 0, first("1;a\nx\r\n")),
        ("a chunk extension with a bare CR", 0, first("1;a\rb\r\nx\r\n")),
        ("a chunk extension with a NUL", 0, first("1;a\0\r\nx\r\n")),
        ("a chunk size ended by LF", 0, first("1\nx\r\n")),
        ("a chunk ended by LF", 0, first("1\r\nx\n")),
        ("a chunk that is longer than its size", 0, first("1\r\nxy\r\n")),
        ("a signed chunk size", 0, first("+1\r\nx\r\n")),
        ("a chunk size with 0x", 0, first("0x1\r\nx\r\n")),
        ("a chunk size with spaces", 0, first(" 1 \r\nx\r\n")),
        ("a chunk size before a space", 0, first("1 \r\nx\r\n")),
        ("a chunk size that overflows", 0, first("10000000000000001\r\nx\r\n")),
        ("a chunk size of many digits", 0, first("00000000000000001\r\nx\r\n")),
    ]
}

/// Ends of chunked bodies.
fn trailers() -> Vec<Row> {
    let last = |last: &str| post("Transfer-Encoding: chunked\r\n", &format!("{last}{HIDDEN}"));
    vec![
        ("a last chunk of many zeros", 2, last("0000000\r\n\r\n")),
        ("a last chunk with an extension", 2, last("0;a=b\r\n\r\n")),
        ("a last chunk ended by LF", 0, last("0\n\r\n")),
        ("a body ended by LF", 0, last("0\r\n\n")),
        ("a trailer that frames", 2, last(&format!("0\r\nContent-Length: {}\r\n\r\n", HIDDEN.len()))),
        ("a trailer that names a host", 2, last("0\r\nHost: other.test\r\n\r\n")),
        ("a trailer after a space", 0, last("0\r\nX-A : b\r\n\r\n")),
        ("a trailer ended by LF", 0, last("0\r\nX-A: b\n\r\n")),
        ("a folded trailer", 0, last("0\r\nX-A: b\r\n c\r\n\r\n")),
    ]
}

/// Request lines, and what stands around them.
fn lines() -> Vec<Row> {
    vec![
        (
            "a space before the first field",
            0,
            line(&format!("GET {PATH} HTTP/1.1")).replacen("Host", " Host", 1),
        ),
        ("two spaces in the request line", 0, line(&format!("GET  {PATH} HTTP/1.1"))),
        ("a tab in the request line", 0, line(&format!("GET\t{PATH} HTTP/1.1"))),
        ("a space behind the version", 0, line(&format!("GET {PATH} HTTP/1.1 "))),
        ("a bare CR in the request line", 0, line(&format!("GET {PATH}\rHTTP/1.1"))),
        ("a second version", 0, line(&format!("GET {PATH} HTTP/1.1 HTTP/1.1"))),
        ("another version", 0, line(&format!("GET {PATH} HTTP/1.2"))),
        ("HTTP/0.9", 0, format!("GET {PATH}\r\n\r\n{HIDDEN}")),
        ("an empty line first", 2, line(&format!("\r\nGET {PATH} HTTP/1.1"))),
        ("a bare LF first", 0, line(&format!("\nGET {PATH} HTTP/1.1"))),
    ]
}

/// Who is asked.
fn hosts() -> Vec<Row> {
    let hosts = |hosts: &str| format!("GET {PATH} HTTP/1.1\r\n{hosts}\r\n{HIDDEN}");
    vec![
        ("two hosts", 0, get("Host: other.test\r\n")),
        ("two equal hosts", 0, get("Host: site.test\r\n")),
        ("a list of hosts", 0, hosts("Host: site.test, other.test\r\n")),
        ("a host after a space", 0, hosts("Host : site.test\r\n")),
        ("a host after a fold", 0, get("X-A: b\r\n Host: other.test\r\n")),
        ("an empty host", 0, hosts("Host:\r\n")),
        ("no host", 0, hosts("X-A: b\r\n")),
        ("absolute form with this host", 2, line(&format!("GET http://site.test{PATH} HTTP/1.1"))),
        ("absolute form with another host", 0, line(&format!("GET http://other.test{PATH} HTTP/1.1"))),
        ("absolute form with another port", 0, line(&format!("GET http://site.test:81{PATH} HTTP/1.1"))),
        ("absolute form with a user", 0, line(&format!("GET http://site.test@other.test{PATH} HTTP/1.1"))),
        ("absolute form without a host", 0, format!("GET http://site.test{PATH} HTTP/1.1\r\n\r\n{HIDDEN}")),
    ]
}

/// Methods and fields by which a body is expected, or not.
fn others() -> Vec<Row> {
    let length = HIDDEN.len();
    let chunked = last_chunk();
    let delete = |fields: &str, body: &str| post(fields, body).replacen("POST", "DELETE", 1);
    vec![
        ("a GET with a length", 1, get(&format!("Content-Length: {length}\r\n"))),
        ("a GET with a coding", 2, get("Transfer-Encoding: chunked\r\n").replace(HIDDEN, &chunked)),
        ("a GET with Expect", 2, get("Expect: 100-continue\r\n")),
        ("a GET with another Expect", 0, get("Expect: x 100-continue\r\n")),
        (
            "a POST with Expect",
            1,
            post(&format!("Expect: 100-continue\r\nContent-Length: {length}\r\n"), HIDDEN),
        ),
        ("a GET with an unknown upgrade", 2, get("Connection: upgrade\r\nUpgrade: nothing\r\n")),
        ("a DELETE with a length", 1, delete(&format!("Content-Length: {length}\r\n"), HIDDEN)),
        ("a DELETE with a coding", 2, delete("Transfer-Encoding: chunked\r\n", &chunked)),
        (
            "a CONNECT with a length",
            0,
            format!(
                "CONNECT site.test:80 HTTP/1.1\r\nHost: site.test\r\nContent-Length: {length}\r\n\r\n{HIDDEN}"
            ),
        ),
        ("connection names the host", 2, get("Connection: host\r\n")),
    ]
}
