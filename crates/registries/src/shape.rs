//! An origin's response in the shape in which a mirror stores and sends it.
//!
//! A mirror states its own freshness: an index lives for a set time, a file for ever, absence for a
//! minute, and nothing else is stored. The origin's word about caches is set aside, since a
//! registry's fields are meant for its own clients, or are missing.

use super::MirroredAsk;
use super::checked::{BodyCheck, Mismatch, VerifiedBody};
use super::entity_tag::FETCHED;
use super::inflated::{DocumentCoding, Inflater};
use crate::metrics::Metrics;
use crate::upstream::UpstreamResponse;
use bytes::Bytes;
use http::{StatusCode, header};
use http_body_util::{BodyExt, Full};
use shoal_core::{FieldLines, Fields};
use shoal_mirrors::route::PromiseSource;
use shoal_mirrors::{Class, Kind};
use shoal_settings::MirrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Brings a response to a GET, or to a HEAD, into a mirror's shape. `has_body` is true for a GET.
pub fn shape(asked: &MirroredAsk, has_body: bool, response: &mut UpstreamResponse, metrics: &Arc<Metrics>) {
    let Some(class) = &asked.class else {
        // Sessions of this node's own credentials are no client's.
        response.fields = kept(&response.fields, |name| !OF_ORIGIN.contains(&name));
        return;
    };
    // The query may be a signature: no log shows it.
    let url = asked.url_of(asked.fetched_from());
    let url: Arc<str> = url.split('?').next().unwrap_or_default().into();
    if response.status == StatusCode::OK && is_page_in_place(asked, class, &response.fields, &url) {
        metrics.mirror_html.increment();
        tracing::warn!(%url, "a registry sent a page of HTML in place of a package; it is not kept");
        return replace(response, "The registry sent a page of HTML in place of a package.");
    }
    let status = response.status.as_u16();
    // A body is checked with 200 alone. A part is asked for where nothing could be checked.
    let is_part = status == 206 && !asked.fetches_whole();
    if (201..=300).contains(&status) && !is_part {
        metrics.mirror_status.increment();
        tracing::warn!(%url, status, "a registry sent a body with a status that no package has; it is not kept");
        return replace(response, "The registry sent a status that no package has.");
    }
    let is_ok = response.status == StatusCode::OK;
    response.fields = shaped(asked, class, response);
    debug_assert!(!response.fields.has(&header::SET_COOKIE), "answers are for all clients");
    if is_ok && has_body {
        check(asked, class, response, url, metrics);
    }
}

/// Puts the body under its check.
fn check(
    asked: &MirroredAsk,
    class: &Class,
    response: &mut UpstreamResponse,
    url: Arc<str>,
    metrics: &Arc<Metrics>,
) {
    let check = match class {
        Class::File(_) => {
            let promise = asked.promise().unwrap_or_default();
            let own = asked.mirror.registry.promise_in(&|name| text_of(&response.fields, name));
            BodyCheck::of_digests(promise.digest.iter().chain(&own), promise.size)
        }
        Class::Document(form) => {
            let content_type = response.fields.value(&header::CONTENT_TYPE).unwrap_or_default();
            let given = form.given(&String::from_utf8_lossy(content_type));
            let rewriter = asked.mirror.registry.rewriter(&asked.facts, given);
            rewriter.and_then(|rewriter| {
                let inflater = Inflater::of(DocumentCoding::of(&response.fields))?;
                Some(BodyCheck::Document { inflater, rewriter, unread: Vec::new() })
            })
        }
    };
    let Some(check) = check else { return };
    // Such a response is delivered without a look at its body.
    if response.length == Some(0) {
        if let Err(mismatch) = check.finish() {
            mismatch.report(&url, metrics);
            replace(response, explanation(mismatch));
        }
        return;
    }
    response.body = VerifiedBody::boxed(std::mem::take(&mut response.body), check, url, metrics);
}

const fn explanation(mismatch: Mismatch) -> &'static str {
    match mismatch {
        Mismatch::Document => "The registry sent an empty document.",
        Mismatch::Digest | Mismatch::Length => "The registry sent an empty file.",
    }
}

/// Returns `true` for HTML where no page is expected: a login, a block page, an error with 200.
fn is_page_in_place(asked: &MirroredAsk, class: &Class, fields: &FieldLines, url: &str) -> bool {
    let content_type = fields.value(&header::CONTENT_TYPE).unwrap_or_default();
    if !content_type.trim_ascii_start().to_ascii_lowercase().starts_with(b"text/html") {
        return false;
    }
    match class {
        Class::Document(form) => !form.may_be_html(),
        Class::File(_) => {
            asked.mirror.settings.kind != MirrorKind::Generic
                && !url.ends_with(".html")
                && !url.ends_with(".htm")
        }
    }
}

/// Returns the response's fields with the mirror's own freshness.
fn shaped(asked: &MirroredAsk, class: &Class, response: &UpstreamResponse) -> FieldLines {
    let (own, fetched) = (freshness(asked, class, (response.status, &response.fields)), FETCHED);
    let has_validator = [header::ETAG, header::LAST_MODIFIED].iter().any(|name| response.fields.has(name));
    let mut further: Vec<(&[u8], Vec<u8>)> = Vec::new();
    if let Some(own) = &own {
        further.push((b"cache-control", own.clone().into_bytes()));
    }
    if asked.varies {
        further.push((b"vary", b"Accept".to_vec()));
    }
    if response.status == StatusCode::OK && asked.is_derived && !has_validator {
        further.push((fetched.as_str().as_bytes(), fetch_number(response).into_bytes()));
    }
    if let (Class::File(_), 200, Some(promise)) = (class, response.status.as_u16(), asked.promise())
        && let Some(digest) = &promise.digest
        && let Some(name) = asked.mirror.registry.field_of(digest)
        && text_of(&response.fields, name).is_none()
    {
        further.push((name.as_bytes(), digest.hex().into_bytes()));
    }
    // A file that is an archive is often said to be coded, and is not.
    let is_archive =
        matches!(class, Class::File(_)) && DocumentCoding::of(&response.fields) == DocumentCoding::Gzip;
    let is_dropped = |name: &[u8]| match name {
        b"cache-control" | b"expires" | b"pragma" | b"age" | b"date" => own.is_some(),
        b"content-encoding" => is_archive,
        name => OF_ORIGIN.contains(&name) || name == fetched.as_str().as_bytes(),
    };
    let lines = response.fields.lines().filter(|(name, _)| !is_dropped(name));
    let lines = lines.map(|(name, value)| (name, value.to_vec()));
    lines.chain(further).collect()
}

/// Returns the fields with names that `is_kept` takes.
fn kept(fields: &FieldLines, is_kept: impl Fn(&[u8]) -> bool) -> FieldLines {
    fields.lines().filter(|(name, _)| is_kept(name)).map(|(name, value)| (name, value.to_vec())).collect()
}

/// Returns the value of a field as text.
fn text_of(fields: &FieldLines, name: &str) -> Option<String> {
    let name = http::HeaderName::try_from(name).ok()?;
    fields.value(&name).map(|value| String::from_utf8_lossy(value).into_owned())
}

/// Returns the Cache-Control of a response; `None` leaves the origin's.
fn freshness(
    asked: &MirroredAsk,
    class: &Class,
    (status, fields): (StatusCode, &FieldLines),
) -> Option<String> {
    let settings = &asked.mirror.settings;
    let stale = settings.stale.as_secs();
    Some(match status.as_u16() {
        200 | 206 | 304 => match class {
            Class::Document(_) => {
                format!("max-age={}, stale-if-error={stale}", settings.index_lifetime.as_secs())
            }
            // The origin's own freshness holds, if it states any.
            Class::File(PromiseSource::Nothing) if settings.kind == MirrorKind::Generic => {
                let states = [header::CACHE_CONTROL, header::EXPIRES].iter().any(|name| fields.has(name));
                match states {
                    true => return None,
                    false => format!("max-age={}", settings.index_lifetime.as_secs()),
                }
            }
            // An index may name it later, with another digest.
            Class::File(_) if asked.is_unnamed() => "no-store".to_owned(),
            Class::File(_) => FOR_EVER.to_owned(),
        },
        // Absence at one place says nothing about others with the digest.
        404 | 410 if asked.own_place.is_some() => "no-store".to_owned(),
        404 | 410 if !settings.absence_lifetime.is_zero() => {
            format!("max-age={}", settings.absence_lifetime.as_secs())
        }
        _ => "no-store".to_owned(),
    })
}

/// Returns a value that no other fetch of the document has.
fn fetch_number(response: &UpstreamResponse) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{}-{}", response.response_time.millis(), COUNT.fetch_add(1, Relaxed))
}

/// Puts an answer of this node in the place of a response: an error of the registry.
fn replace(response: &mut UpstreamResponse, why: &'static str) {
    let text = format!("502 Bad Gateway\n\n{why}\n");
    response.status = StatusCode::BAD_GATEWAY;
    response.fields =
        [("content-type", "text/plain; charset=utf-8"), ("cache-control", "no-store")].into_iter().collect();
    response.length = Some(text.len() as u64);
    response.body = Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync();
}

/// Fields of an origin that say nothing about a mirror's answer.
const OF_ORIGIN: &[&[u8]] = &[
    b"set-cookie",
    b"vary",
    b"alt-svc",
    b"strict-transport-security",
    b"cdn-cache-control",
    b"shoal-cache-control",
    b"surrogate-control",
    b"nel",
    b"report-to",
    b"server-timing",
];

/// Lifetime of a file with a checked digest: nothing else may ever stand under its name.
const FOR_EVER: &str = "max-age=31536000, immutable";

/// Kinds and settings name the same registries.
const _: () = assert!(Kind::ALL.len() == MirrorKind::ALL.len());
