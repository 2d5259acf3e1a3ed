//! The requests of a training, each from its number.

use crate::Request;

/// Objects among which hits in memory choose.
pub const OBJECTS: usize = 16;
/// Small objects on disk.
const ON_DISK: usize = 3_000;
/// Large ones.
const LARGE: usize = 8;

/// One of few objects that are kept.
pub fn kept(number: usize, bytes: usize) -> Request {
    object("kept", number % OBJECTS, bytes)
}

/// An object that the site has kept in this way.
pub fn object(how: &str, number: usize, bytes: usize) -> Request {
    Request::get(&format!("/{how}/{number}/{bytes}"))
}

/// A request with a body.
pub fn post(request: Request) -> Request {
    Request { method: "POST".into(), ..request }.body(&[b'x'; 4096])
}

/// One of two variants.
pub fn varied(number: usize) -> Request {
    let language = if (number / OBJECTS).is_multiple_of(2) { "de" } else { "en-GB,en;q=0.9" };
    object("varied", number % OBJECTS, 1024).field("Accept-Language", language)
}

/// A small object that goes to disk.
pub fn on_disk(number: usize) -> Request {
    let number = number % ON_DISK;
    object("kept/disk", number, 500 + number * 37 % 30_000)
}

/// An object that is never in memory as a whole.
pub fn large(number: usize) -> Request {
    object("kept/large", number % LARGE, 3_000_000)
}

/// Numbers in an order without a pattern.
pub fn scattered(number: usize) -> usize {
    number * 7919
}

/// With the fields of one of few browsers.
pub fn browser(number: usize, request: Request) -> Request {
    with_session(number % BROWSERS, request)
}

/// With the fields of a browser that was never seen before.
pub fn stranger(number: usize, request: Request) -> Request {
    with_session(number + BROWSERS, request)
}

fn with_session(session: usize, request: Request) -> Request {
    let cookie = format!("session={session:032x}; theme=dark; consent=1");
    FIELDS.iter().fold(request, |request, (name, value)| request.field(name, value)).field("Cookie", &cookie)
}

const BROWSERS: usize = 5;

const FIELDS: &[(&str, &str)] = &[
    ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"),
    ("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"),
    ("Accept-Language", "en-GB,en;q=0.9,de;q=0.8"),
    ("Accept-Encoding", "gzip, deflate, br, zstd"),
    ("Referer", "http://www.example.org/section/page.html"),
    ("DNT", "1"),
    ("Sec-Fetch-Dest", "document"),
    ("Sec-Fetch-Mode", "navigate"),
    ("Sec-Fetch-Site", "same-origin"),
    ("Upgrade-Insecure-Requests", "1"),
];
