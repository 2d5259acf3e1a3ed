//! Operators' pages in place of the bodies of errors, of this node and of origins.
//!
//! Status and other fields stay, so that clients, caches and logs see the same error. Only errors
//! have pages: a stored success never gets one.

use super::request::RequestContext;
use super::settings::ExchangeSettings;
use super::target::Target;
use crate::message::{Client, ReplyBody, StreamBody};
use crate::upstream::UpstreamResponse;
use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_LOCATION,
    CONTENT_TYPE, ETAG, TRANSFER_ENCODING,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use http_body_util::{BodyExt, Full};
use shoal_core::{FieldLines, Fields};
use shoal_rules::{MatchedRules, PAGE_MAX, PageContent, RequestView};
use shoal_settings::Mode;
use shoal_wire::RequestParts;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

/// Fields and body of an answer of this node.
pub(super) type OwnPage = (HeaderMap, ReplyBody);

impl ExchangeSettings {
    /// Returns this node's answer with the operator's page, if the rules that match have one.
    pub(super) fn own_page(
        &self,
        matching: &MatchedRules,
        status: StatusCode,
        method: &Method,
        own: OwnPage,
    ) -> OwnPage {
        let (mut fields, body) = own;
        let Some(page) = self.rule_set.error_page(matching, (status, false), &fields) else {
            return (fields, body);
        };
        fields.insert(CONTENT_TYPE, page.content_type.clone());
        if method == Method::HEAD {
            fields.insert(CONTENT_LENGTH, HeaderValue::from(page.body.len()));
            return (fields, ReplyBody::Empty);
        }
        (fields, ReplyBody::Memory(page.body.clone()))
    }

    /// Returns this node's answer with the operator's page, for a request that has no
    /// [`RequestContext`] yet. A request without a readable URL has no page.
    pub(super) fn early_page(
        &self,
        head: &RequestParts,
        client: &Client,
        status: StatusCode,
        own: OwnPage,
    ) -> OwnPage {
        if !self.rule_set.has_pages() {
            return own;
        }
        let mode = self.mode(client);
        let Ok(target) = Target::of(head, mode, client) else { return own };
        let site = match mode {
            Mode::Forward => None,
            Mode::Reverse => self.routes.find(target.host().as_bytes(), target.path()),
        };
        let matching = self.rule_set.matching(&RequestView {
            site: site.map(|site| site.site),
            host: target.host(),
            path_and_query: target.path(),
            method: &head.method,
            fields: &head.fields,
        });
        self.own_page(&matching, status, &head.method, own)
    }
}

/// Puts the operator's page in place of the body of an origin's error.
pub(super) fn replace(ask: &RequestContext, response: &mut UpstreamResponse) {
    let (rules, matching) = (&ask.live.rule_set, ask.ruling.matching());
    let Some(page) = rules.error_page(matching, (response.status, true), &response.fields) else { return };
    debug_assert!(response.status.as_u16() >= 400, "a success has no page");
    let is_head = ask.method == Method::HEAD;
    let length = page.body.len();
    response.fields = page_fields(&response.fields, page);
    response.length = Some(if is_head { 0 } else { length as u64 });
    let body = if is_head { Bytes::new() } else { page.body.clone() };
    let body = Full::new(body).map_err(|never| match never {}).boxed_unsync();
    let own = std::mem::replace(&mut response.body, body);
    // The connection can carry further requests once its body is read.
    tokio::spawn(tokio::time::timeout(DRAIN_TIMEOUT, drain(own)));
}

/// Reads the file of a page.
///
/// # Errors
/// The reason why the file cannot be a page.
pub fn read(path: &Path) -> Result<Vec<u8>, String> {
    // Opening a pipe would wait for its other end.
    if std::fs::metadata(path).is_ok_and(|data| !data.is_file()) {
        return Err("it is no file".into());
    }
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut body = Vec::new();
    file.take(PAGE_MAX as u64 + 1).read_to_end(&mut body).map_err(|error| error.to_string())?;
    if body.len() > PAGE_MAX {
        return Err("a page has at most 1 MiB".into());
    }
    Ok(body)
}

/// Returns the error's fields as those of the page.
fn page_fields(fields: &FieldLines, page: &PageContent) -> FieldLines {
    let stays = |name: &[u8]| {
        !OF_CONTENT.iter().any(|other| other.as_str().as_bytes() == name)
            && !DIGESTS.iter().any(|other| other.as_bytes() == name)
    };
    let length = page.body.len().to_string();
    let own = [
        (CONTENT_TYPE.as_str().as_bytes(), page.content_type.as_bytes()),
        (CONTENT_LENGTH.as_str().as_bytes(), length.as_bytes()),
    ];
    fields.lines().filter(|(name, _)| stays(name)).chain(own).collect()
}

/// Reads the rest of a short body.
async fn drain(mut body: StreamBody) {
    let mut left = DRAIN_MAX;
    while let Some(Ok(frame)) = body.frame().await {
        left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
        if left == 0 {
            return;
        }
    }
}

/// Fields that describe the bytes of a body.
const OF_CONTENT: [HeaderName; 9] = [
    ACCEPT_RANGES,
    CONTENT_DISPOSITION,
    CONTENT_ENCODING,
    CONTENT_LANGUAGE,
    CONTENT_LENGTH,
    CONTENT_LOCATION,
    CONTENT_TYPE,
    ETAG,
    TRANSFER_ENCODING,
];
/// Checksums of a body (RFC 9530, and its predecessors).
const DIGESTS: [&str; 4] = ["content-digest", "repr-digest", "digest", "content-md5"];
/// Most bytes that are read of a replaced body; a longer one ends its connection.
const DRAIN_MAX: usize = 65_536;
/// Longest time for reading a replaced body.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
