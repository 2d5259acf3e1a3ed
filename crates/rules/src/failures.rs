//! Settings of rules for failures: pages in place of errors, and errors that stale responses cover.

use crate::pattern::StatusSet;
use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Settings of a rule for failures. `None` leaves a thing as it is.
#[derive(Clone, Debug, Default)]
pub struct FailureEffects {
    /// Page in place of the body of errors.
    pub page: Option<ErrorPage>,
    /// Errors in place of which a stale response is served.
    pub stale_on: Option<Arc<StaleErrors>>,
}

/// Page of a rule.
#[derive(Clone, Debug)]
pub struct ErrorPage {
    /// File of the page.
    pub path: PathBuf,
    /// `true` if the page also stands in for errors of the origin.
    pub is_for_origin: bool,
    /// Contents, once they are read.
    pub content: Option<Arc<PageContent>>,
}

/// Contents of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageContent {
    /// Content type, by the name of the file.
    pub content_type: HeaderValue,
    /// The file.
    pub body: Bytes,
}

/// Failure of a request to an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// There was no connection.
    Connect,
    /// There was no connection in time.
    ConnectTimeout,
    /// There was no answer in time.
    Timeout,
    /// The answer was cut before the end of its head, or could not be understood.
    Broken,
}

/// Errors in place of which a stale response is served.
#[derive(Clone, Debug, Default)]
pub struct StaleErrors {
    statuses: StatusSet,
    connect: bool,
    timeout: bool,
    broken: bool,
}

impl FailureEffects {
    /// Returns `true` if nothing is set.
    pub fn is_empty(&self) -> bool {
        self.page.is_none() && self.stale_on.is_none()
    }
}

impl ErrorPage {
    /// Creates the page of a file that is not read yet.
    ///
    /// # Errors
    /// Names the known endings, if the file has another one.
    pub fn new(path: &Path, is_for_origin: bool) -> Result<Self, String> {
        match media_type(path) {
            Some(_) => Ok(Self { path: path.into(), is_for_origin, content: None }),
            None => {
                let known: Vec<&str> = MEDIA_TYPES.iter().map(|(ending, _)| *ending).collect();
                Err(format!("{} has no known ending: .{}", path.display(), known.join(", .")))
            }
        }
    }

    /// Takes the contents of the file.
    pub fn fill(&mut self, body: Vec<u8>) {
        let media_type = media_type(&self.path).expect("the ending was checked");
        let is_text = media_type.starts_with("text/") && std::str::from_utf8(&body).is_ok();
        debug_assert!(body.len() <= PAGE_MAX, "a page is bounded where it is read");
        let charset = if is_text { "; charset=utf-8" } else { "" };
        let content_type = HeaderValue::try_from(format!("{media_type}{charset}"));
        let content_type = content_type.expect("media types are visible ASCII");
        self.content = Some(Arc::new(PageContent { content_type, body: body.into() }));
    }
}

impl StaleErrors {
    /// Reads a list of statuses and of the words `connect`, `timeout` and `broken`; each mistake
    /// with its place in the list.
    pub fn parse(texts: &[String]) -> Result<Self, Vec<(usize, String)>> {
        let (mut errors, mut mistakes) = (Self::default(), Vec::new());
        for (at, text) in texts.iter().enumerate() {
            match text.as_str() {
                "connect" => errors.connect = true,
                "timeout" => errors.timeout = true,
                "broken" => errors.broken = true,
                _ => {
                    let mut own = StatusSet::default();
                    let added = own.add(text).and_then(|()| errors.statuses.add(text));
                    let is_success = (100..400).filter_map(|code| StatusCode::from_u16(code).ok());
                    match added {
                        Err(_) => mistakes.push((at, format!("{text:?} {NO_ERROR}"))),
                        Ok(()) if is_success.into_iter().any(|status| own.has(status)) => {
                            mistakes.push((at, format!("{text:?} is no error")));
                        }
                        Ok(()) => {}
                    }
                }
            }
        }
        if mistakes.is_empty() { Ok(errors) } else { Err(mistakes) }
    }

    /// Returns `true` if a stale response is served in place of an answer with this status.
    pub fn has_status(&self, status: StatusCode) -> bool {
        self.statuses.has(status)
    }

    /// Returns `true` if a stale response is served after such a failure.
    pub fn has_failure(&self, kind: FailureKind) -> bool {
        match kind {
            FailureKind::Connect => self.connect,
            FailureKind::ConnectTimeout => self.connect || self.timeout,
            FailureKind::Timeout => self.timeout,
            FailureKind::Broken => self.broken,
        }
    }
}

fn media_type(path: &Path) -> Option<&'static str> {
    let ending = path.extension()?.to_str()?;
    let known = MEDIA_TYPES.iter().find(|(known, _)| known.eq_ignore_ascii_case(ending));
    known.map(|(_, media_type)| *media_type)
}

/// Most bytes of a page.
pub const PAGE_MAX: usize = 1 << 20;
const NO_ERROR: &str = "is no error: write 503, 500-504, 5xx, \"timeout\", \"connect\" or \"broken\"";

/// Endings of files, and their media types.
const MEDIA_TYPES: [(&str, &str); 12] = [
    ("html", "text/html"),
    ("htm", "text/html"),
    ("txt", "text/plain"),
    ("json", "application/json"),
    ("xml", "application/xml"),
    ("md", "text/markdown"),
    ("svg", "image/svg+xml"),
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("ico", "image/x-icon"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(texts: &[&str]) -> Result<StaleErrors, Vec<(usize, String)>> {
        StaleErrors::parse(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn stale_errors_are_named() {
        let named = errors(&["5xx", "429", "timeout"]).expect("errors");
        let has = |code: u16| named.has_status(StatusCode::from_u16(code).expect("a status"));
        assert_eq!([500, 599, 429, 404].map(has), [true, true, true, false]);
        let kinds =
            [FailureKind::Connect, FailureKind::ConnectTimeout, FailureKind::Timeout, FailureKind::Broken];
        assert_eq!(kinds.map(|kind| named.has_failure(kind)), [false, true, true, false]);
        let connect = errors(&["connect", "broken"]).expect("errors");
        assert_eq!(kinds.map(|kind| connect.has_failure(kind)), [true, true, false, true]);
        let mistakes = errors(&["503", "200", "refused", "300-500"]).expect_err("mistakes");
        assert_eq!(mistakes.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn pages_have_a_type_by_ending() {
        for (name, body, content_type) in [
            ("a/down.html", &b"<p>"[..], "text/html; charset=utf-8"),
            ("DOWN.HTM", b"\xff", "text/html"),
            ("e.json", b"{}", "application/json"),
        ] {
            let mut page = ErrorPage::new(Path::new(name), false).expect("a known ending");
            page.fill(body.to_vec());
            let content = page.content.expect("it was read");
            assert_eq!(
                (&content.content_type, &*content.body),
                (&HeaderValue::from_static(content_type), body)
            );
        }
        for name in ["page", "page.php", ".html", ""] {
            assert!(ErrorPage::new(Path::new(name), false).is_err(), "{name}");
        }
    }
}
