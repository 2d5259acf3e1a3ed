//! Project pages in HTML (PEP 503): the links of their anchors, and the promise about one file.
//!
//! Only tags are read. A tag is kept until its end, 64 KiB at most; text between tags is passed on,
//! and so are comments with all that is in them.

use super::file_name::METADATA;
use super::json::relative;
use super::page::escaped;
use super::page_url;
use crate::url::joined;
use crate::wanted::FoundFile;
use crate::{BadDocument, Digest, Mirror, Promise, Promises, Rewriter};
use std::ops::Range;

/// Rewriter of the links of anchors to relative URLs.
pub(super) struct HtmlLinks {
    tags: Tags,
    upstream: String,
    page: String,
}

impl HtmlLinks {
    pub fn new(mirror: &Mirror) -> Self {
        Self { tags: Tags::default(), upstream: mirror.upstream.clone(), page: page_url(mirror) }
    }
}

impl Rewriter for HtmlLinks {
    fn push(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<(), BadDocument> {
        let (upstream, page) = (&self.upstream, &self.page);
        self.tags.push(input, output, |tag, output| {
            let link =
                anchor(tag).and_then(|attributes| attributes.into_iter().find(|(name, _)| name == "href"));
            let made = link.and_then(|(_, place)| {
                let url = unescaped(std::str::from_utf8(&tag[place.clone()]).ok()?);
                Some((place, escaped(&relative(upstream, page, &url)?)))
            });
            match made {
                Some((place, url)) => {
                    output.extend_from_slice(&tag[..place.start]);
                    output.extend_from_slice(url.as_bytes());
                    output.extend_from_slice(&tag[place.end..]);
                }
                None => output.extend_from_slice(tag),
            }
        })
    }

    fn finish(&mut self, output: &mut Vec<u8>) -> Result<(), BadDocument> {
        self.tags.finish(output)
    }
}

/// Search for one file.
pub(super) struct HtmlPromise {
    tags: Tags,
    page: String,
    wanted: String,
    is_metadata: bool,
    unread: Vec<u8>,
    found: Option<Promise>,
}

impl HtmlPromise {
    pub fn new(mirror: &Mirror, url: &str) -> Self {
        let (wanted, is_metadata) = url.strip_suffix(METADATA).map_or((url, false), |url| (url, true));
        Self {
            tags: Tags::default(),
            page: page_url(mirror),
            wanted: wanted.to_owned(),
            is_metadata,
            unread: Vec::new(),
            found: None,
        }
    }
}

impl Promises for HtmlPromise {
    fn push(&mut self, input: &[u8]) -> Result<(), BadDocument> {
        let Self { tags, page, wanted, is_metadata, unread, found } = self;
        unread.clear();
        tags.push(input, unread, |tag, _| {
            if found.is_none() {
                *found = anchor(tag)
                    .and_then(|attributes| promise(tag, &attributes, page, (wanted, *is_metadata)));
            }
        })
    }

    fn finish(&mut self) -> Result<Option<Promise>, BadDocument> {
        self.tags.finish(&mut self.unread)?;
        Ok(self.found.take())
    }
}

/// Reader of all the files of a page.
pub struct HtmlFiles {
    tags: Tags,
    page: String,
    unread: Vec<u8>,
    /// Files in the page's order.
    pub files: Vec<FoundFile>,
}

impl HtmlFiles {
    /// Begins the page of a mirror.
    pub fn new(mirror: &Mirror) -> Self {
        Self { tags: Tags::default(), page: page_url(mirror), unread: Vec::new(), files: Vec::new() }
    }

    /// Takes the next piece.
    pub fn push(&mut self, input: &[u8]) -> Result<(), BadDocument> {
        let Self { tags, page, unread, files } = self;
        unread.clear();
        tags.push(input, unread, |tag, _| {
            files.extend(anchor(tag).and_then(|attributes| found(tag, &attributes, page)));
        })
    }
}

/// Returns the file that an anchor leads to.
fn found(tag: &[u8], attributes: &[(String, Range<usize>)], page: &str) -> Option<FoundFile> {
    let value = |wanted: &str| {
        let (_, place) = attributes.iter().find(|(name, _)| name == wanted)?;
        Some(unescaped(std::str::from_utf8(&tag[place.clone()]).ok()?))
    };
    let link = value("href")?;
    let (url, fragment) = link.split_once('#').unwrap_or((&link, ""));
    let has = |name: &str| value(name).is_some_and(|value| value != "false");
    Some(FoundFile {
        url: joined(page, url.split('?').next()?)?,
        digest: fragment.split('&').find_map(Digest::from_named_hex),
        size: None,
        has_metadata: has("data-core-metadata") || has("data-dist-info-metadata"),
    })
}

/// Returns the promise of an anchor, if it leads to the wanted file.
fn promise(
    tag: &[u8],
    attributes: &[(String, Range<usize>)],
    page: &str,
    (wanted, is_metadata): (&str, bool),
) -> Option<Promise> {
    let value = |wanted: &str| {
        let (_, place) = attributes.iter().find(|(name, _)| name == wanted)?;
        Some(unescaped(std::str::from_utf8(&tag[place.clone()]).ok()?))
    };
    let link = value("href")?;
    let (url, fragment) = link.split_once('#').unwrap_or((&link, ""));
    if joined(page, url.split('?').next()?)? != wanted {
        return None;
    }
    let digest = match is_metadata {
        true => value("data-core-metadata").or_else(|| value("data-dist-info-metadata")),
        false => fragment.split('&').find(|part| part.contains('=')).map(str::to_owned),
    };
    let digest = digest.and_then(|digest| Digest::from_named_hex(&digest));
    Some(Promise { digest, size: None, published: None, is_withdrawn: value("data-yanked").is_some() })
}

/// Cuts a page into tags and the text between them.
#[derive(Default)]
struct Tags {
    /// Bytes since the last `<`, while a tag is open.
    tag: Vec<u8>,
    /// Quote that an attribute's value ends with, if one is open.
    quote: Option<u8>,
    /// Dashes at the end of the comment so far, two at most, if one is open.
    comment: Option<u8>,
    at: u64,
}

impl Tags {
    /// Passes text to `output` and each whole tag to `taker`.
    fn push(
        &mut self,
        input: &[u8],
        output: &mut Vec<u8>,
        mut taker: impl FnMut(&[u8], &mut Vec<u8>),
    ) -> Result<(), BadDocument> {
        let mut rest = input;
        while !rest.is_empty() {
            debug_assert!(self.comment.is_none() || self.tag.is_empty(), "a comment is passed on");
            if let Some(dashes) = self.comment {
                output.push(rest[0]);
                self.comment = match (rest[0], dashes) {
                    (b'>', 2) => None,
                    (b'-', dashes) => Some((dashes + 1).min(2)),
                    _ => Some(0),
                };
                self.at += 1;
                rest = &rest[1..];
                continue;
            }
            if self.tag.is_empty() {
                let text = memchr::memchr(b'<', rest).unwrap_or(rest.len());
                output.extend_from_slice(&rest[..text]);
                self.at += text as u64;
                rest = &rest[text..];
                if rest.is_empty() {
                    return Ok(());
                }
            }
            let byte = rest[0];
            self.at += 1;
            rest = &rest[1..];
            self.tag.push(byte);
            if self.tag == b"<!--" {
                output.append(&mut self.tag);
                // A comment may end at once: `<!-->`.
                self.comment = Some(2);
                continue;
            }
            if self.tag.len() > TAG_MAX {
                return Err(BadDocument { at: self.at, why: "a longer tag than any index has" });
            }
            match self.quote {
                Some(quote) if byte == quote => self.quote = None,
                Some(_) => {}
                None if matches!(byte, b'"' | b'\'') => self.quote = Some(byte),
                None if byte == b'>' => {
                    taker(&self.tag, output);
                    self.tag.clear();
                }
                None => {}
            }
        }
        Ok(())
    }

    fn finish(&mut self, _: &mut Vec<u8>) -> Result<(), BadDocument> {
        match self.tag.is_empty() && self.comment.is_none() {
            true => Ok(()),
            false => Err(BadDocument { at: self.at, why: "the page ends within a tag or a comment" }),
        }
    }
}

/// Returns the attributes of an anchor, each with the place of its value in the tag.
fn anchor(tag: &[u8]) -> Option<Vec<(String, Range<usize>)>> {
    let is_anchor = tag.len() > 3 && tag[1].eq_ignore_ascii_case(&b'a') && tag[2].is_ascii_whitespace();
    if !is_anchor {
        return None;
    }
    let mut attributes = Vec::new();
    let mut at = 2;
    while at < tag.len() && attributes.len() < ATTRIBUTES_MAX {
        let is_separator = |byte: u8| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>');
        let Some(gap) = tag[at..].iter().position(|byte| !is_separator(*byte)) else { break };
        let start = at + gap;
        let is_end_of_name = |byte: &u8| is_separator(*byte) || *byte == b'=';
        let end = start + tag[start..].iter().position(is_end_of_name).unwrap_or(tag.len() - start);
        let name = String::from_utf8_lossy(&tag[start..end]).to_ascii_lowercase();
        let value = end + tag[end..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        if tag.get(value) != Some(&b'=') {
            attributes.push((name, end..end));
            at = end.max(start + 1);
            continue;
        }
        let value = value + 1;
        let value = value + tag[value..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let place = match tag.get(value)? {
            quote @ (b'"' | b'\'') => {
                let length = memchr::memchr(*quote, &tag[value + 1..])?;
                value + 1..value + 1 + length
            }
            _ => {
                let is_end = |byte: &u8| byte.is_ascii_whitespace() || *byte == b'>';
                value..value + tag[value..].iter().position(is_end).unwrap_or(tag.len() - value)
            }
        };
        at = place.end + 1;
        attributes.push((name, place));
    }
    Some(attributes)
}

/// Replaces the character references that indexes use.
fn unescaped(text: &str) -> String {
    let mut made = text.to_owned();
    for (reference, char) in
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&#x27;", "'"), ("&amp;", "&")]
    {
        if made.contains(reference) {
            made = made.replace(reference, char);
        }
    }
    made
}

/// Longest tag in bytes.
const TAG_MAX: usize = 64 << 10;
/// Most attributes of a tag.
const ATTRIBUTES_MAX: usize = 32;
