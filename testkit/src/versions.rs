//! URLs whose content changes while clients ask for it: what an answer may be at any time.
//!
//! Each URL has a *version*, which unsafe requests and tests raise; its body follows from URL,
//! variant and version. Who knows that what was cached before has been invalidated raises the URL's
//! *floor*: from then on nobody may be served anything older.

use crate::origin::{After, Framing, Received};
use crate::seeded::{Random, body};
use crate::{Answer, Request, Resource, Response};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// What origin and clients know of the URLs `/u/0`, `/u/1` and so on. Those of the upper half vary
/// by `X-Variant`.
pub struct Versions {
    versions: Vec<AtomicU64>,
    floors: Vec<AtomicU64>,
    sizes: Vec<usize>,
    /// The Cache-Control of a URL.
    control: fn(usize) -> &'static str,
}

impl Versions {
    /// So many URLs, whose bodies have these sizes in turn.
    pub fn new(urls: usize, sizes: &[usize], control: fn(usize) -> &'static str) -> Self {
        let zeros = || (0..urls).map(|_| AtomicU64::new(0)).collect();
        Self { versions: zeros(), floors: zeros(), sizes: sizes.to_vec(), control }
    }

    /// A URL drawn.
    pub fn url(&self, random: &mut Random) -> usize {
        random.below(self.versions.len() as u64) as usize
    }

    /// The oldest version that who asks from now on may be served.
    pub fn floor(&self, url: usize) -> u64 {
        self.floors[url].load(SeqCst)
    }

    /// Nobody who asks from now on may be served anything older.
    pub fn raise_floor(&self, url: usize, version: u64) {
        self.floors[url].fetch_max(version, SeqCst);
    }

    /// The content changes at the origin, without a word to anybody; gives the new version.
    pub fn change(&self, url: usize) -> u64 {
        self.versions[url].fetch_add(1, SeqCst) + 1
    }

    fn varies(&self, url: usize) -> bool {
        url >= self.versions.len() / 2
    }

    fn content(&self, url: usize, variant: &str, version: u64) -> Vec<u8> {
        body(&format!("{url} {variant} {version}"), self.sizes[url % self.sizes.len()])
    }

    /// The origin's answer to a request for a URL; `turn` draws how it is framed, how fast it comes
    /// and whether it breaks off.
    pub fn answer(&self, request: &Received, turn: u64) -> Answer {
        let url: usize = request.path().trim_start_matches("/u/").parse().expect("URLs are numbered");
        if request.method == "POST" {
            return Answer::new(200).field("X-Version", &self.change(url).to_string());
        }
        let version = self.versions[url].load(SeqCst);
        let variant = if self.varies(url) { request.fields.joined("x-variant") } else { String::new() };
        let whole = self.content(url, &variant, version);
        let mut resource =
            Resource::new(whole.clone()).etag(&etag(&variant, version)).cache_control((self.control)(url));
        if self.varies(url) {
            resource = resource.field("Vary", "X-Variant");
        }
        let answer = resource.answer(request);
        let halves = whole.split_at(whole.len() / 2);
        match turn % 32 {
            0..2 if answer.status == 200 && !whole.is_empty() => {
                let half = Answer { steps: Vec::new(), ..answer }.piece(halves.0);
                half.framed(Framing::Claimed(whole.len() as u64)).then(After::Reset)
            }
            2 if answer.status == 200 => {
                let slowly = Answer { steps: Vec::new(), ..answer }.piece(halves.0);
                slowly.pause(Duration::from_millis(turn / 32 % 50)).piece(halves.1)
            }
            3..8 if answer.status != 304 => answer.framed(Framing::Chunked),
            8..10 => answer.delay(Duration::from_millis(10)),
            10 => Answer::new(503),
            _ => answer,
        }
    }

    /// A request for a URL: for the whole, a part, the head, or on a condition.
    pub fn draw(&self, url: usize, random: &mut Random) -> Request {
        let path = format!("/u/{url}");
        let variant = ["a", "b"][random.below(2) as usize];
        let get = |method: &str| Request::new(method, &path).field("X-Variant", variant);
        match random.below(20) {
            0 => get("HEAD"),
            1..3 => {
                let known = etag(if self.varies(url) { variant } else { "" }, random.below(40));
                get("GET").field("If-None-Match", &known)
            }
            3..7 => {
                let first = random.below(30_000);
                get("GET").field("Range", &format!("bytes={first}-{}", first + random.below(30_000)))
            }
            _ => get("GET"),
        }
    }

    /// Panics unless the answer is an error of origin or proxy, visibly cut, or right.
    pub fn check(&self, url: usize, floor: u64, request: &Request, response: &Response) {
        if matches!(response.status, 416 | 502..=504) || !response.complete() {
            return;
        }
        let variant = if self.varies(url) { request.fields.joined("x-variant") } else { String::new() };
        let named =
            response.field("etag").unwrap_or_else(|| panic!("no ETag: {request:?} {:?}", response.fields));
        let (of, version) =
            named.trim_matches('"').split_once('.').expect("entity tags name variant and version");
        let version: u64 = version.parse().expect("entity tags end in a version");
        assert_eq!(of, variant, "another variant for {request:?}");
        let fields = &response.fields;
        assert!(version >= floor, "version {version} after {floor} was known, {request:?} {fields:?}");
        let whole = self.content(url, &variant, version);
        match response.status {
            200 if request.method == "HEAD" => {
                let length = response.number("content-length");
                assert!(length.is_none_or(|length| length == whole.len() as u64), "{request:?} {fields:?}");
            }
            200 => {
                assert!(response.body == whole, "{request:?} {fields:?}: {} bytes", response.body.len());
            }
            206 => assert!(response.body == whole[part(response)], "{request:?} {fields:?}"),
            304 => assert_eq!(request.fields.first("if-none-match"), Some(named), "304 for another tag"),
            other => panic!("{other} for {request:?}"),
        }
    }
}

fn etag(variant: &str, version: u64) -> String {
    format!("\"{variant}.{version}\"")
}

/// Which bytes a 206 says that it has.
fn part(response: &Response) -> std::ops::RangeInclusive<usize> {
    let range = response.field("content-range").unwrap_or_default();
    let span = range.strip_prefix("bytes ").and_then(|rest| rest.split('/').next()).unwrap_or_default();
    let (first, last) = span.split_once('-').expect("a part says which");
    first.parse().expect("a number")..=last.parse().expect("a number")
}
