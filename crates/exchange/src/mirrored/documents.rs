//! Documents: the reply from the cache becomes the form for one client.

use super::kept::DerivedPlace;
use super::shortcuts::NEVER;
use super::{MirrorRequest, reply_fields};
use crate::cache::Cache;
use crate::message::{Reply, ReplyBody, ReplyForm, ReplyHead, StreamBody};
use crate::mirror::{DerivedBody, FETCHED, entity_tag};
use crate::request::RequestContext;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use http_body_util::{BodyExt, Empty, Full};
use shoal_core::Fields;
use shoal_mirrors::{Fetch, Form, Rewriter};
use shoal_semantics::entity_tag::EntityTag;
use shoal_semantics::status_fields::{CACHE_STATUS, PROXY_STATUS};
use std::sync::Arc;

impl MirrorRequest {
    /// Returns the reply in the form for this client.
    pub(super) fn derived(
        &self,
        cache: &Arc<Cache>,
        (fetch, form): (&Fetch, Form),
        ask: &RequestContext,
        reply: Reply,
    ) -> Reply {
        let is_derived = ask.mirror.as_ref().is_some_and(|asked| asked.is_derived);
        if !is_derived {
            return reply;
        }
        if reply.head.status() != StatusCode::OK {
            return self.other(reply);
        }
        debug_assert!(!matches!(reply.body, ReplyBody::Tunnel(_)), "documents are no tunnels");
        debug_assert_eq!(ask.method, Method::GET, "the document itself is needed");
        let document = reply_fields(&reply.head);
        let content_type = document.get(header::CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
        let given = form.given(&String::from_utf8_lossy(content_type));
        let (registry, facts) = (self.base.mirror.registry, &self.base.facts);
        let converted = fetch
            .form_asked
            .filter(|asked| *asked != given)
            .and_then(|asked| Some((asked, registry.converter(facts, given, asked)?)));
        let (rewriter, content_type, form) = match converted {
            Some((asked, (rewriter, content_type))) => (Some(rewriter), Some(content_type), asked),
            None => (registry.rewriter(facts, given), None, given),
        };
        let tag = entity_tag(&document, &facts.external, (Some(form), 0));
        let mut fields = self.fields(&document, ask, tag.clone());
        if let Some(content_type) = content_type {
            fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        }
        let kept_as = (tag.as_ref(), form, NEVER);
        // With a minimum age, the version of a tag changes with time.
        let place = DerivedPlace::of(cache, (self, fetch), (ask, &reply), kept_as);
        let place = place.filter(|_| self.base.age_limit.is_none());
        self.reply((ask, reply), DerivedForm { tag, fields, rewriter, place }, &document)
    }

    /// Returns the reply with a derived form, or 304 if the client has it.
    pub(super) fn reply(
        &self,
        (ask, reply): (&RequestContext, Reply),
        form: DerivedForm,
        document: &HeaderMap,
    ) -> Reply {
        let DerivedForm { tag, mut fields, rewriter, place } = form;
        let is_held = tag.is_some_and(|tag| self.has(&tag));
        let is_head = self.method == Method::HEAD;
        let kept = place.as_ref().and_then(|place| place.kept(self, ask));
        let Reply { head, body, mut record } = reply;
        record.method = Some(self.method.clone());
        if is_held {
            record.status = StatusCode::NOT_MODIFIED.as_u16();
        }
        if let (Some((form, body)), ReplyHead::Stored { age_seconds, cache_status, proxy_status, .. }) =
            (kept, &head)
        {
            let length = Some(body.len() as u64);
            let (form_of_reply, body) = match (is_held, is_head) {
                (true, _) => (ReplyForm::NotModified, ReplyBody::Empty),
                (false, true) => (ReplyForm::Head { length }, ReplyBody::Empty),
                (false, false) => (ReplyForm::Whole, ReplyBody::Memory(body)),
            };
            let head = ReplyHead::Stored {
                stored: form,
                form: form_of_reply,
                age_seconds: *age_seconds,
                cache_status: cache_status.clone(),
                proxy_status: proxy_status.clone(),
                varies: false,
                peer_answer: None,
            };
            return Reply { head, body, record };
        }
        if is_held {
            fields.remove(header::CONTENT_TYPE);
            let head = ReplyHead::Built(StatusCode::NOT_MODIFIED, fields);
            return Reply { head, body: ReplyBody::Empty, record };
        }
        let Some(derived) = DerivedBody::new(frames(body), document, rewriter) else {
            return self.refused(StatusCode::BAD_GATEWAY, CODING);
        };
        let derived = derived.boxed_unsync();
        let body = match (is_head, place) {
            (true, _) => ReplyBody::Empty,
            (false, Some(place)) => {
                ReplyBody::Stream { frames: place.gather(derived, kept_fields(&fields)), length: None }
            }
            (false, None) => ReplyBody::Stream { frames: derived, length: None },
        };
        Reply { head: ReplyHead::Built(StatusCode::OK, fields), body, record }
    }

    /// Returns a reply that is no document: absence, or an error.
    pub(super) fn other(&self, mut reply: Reply) -> Reply {
        reply.record.method = Some(self.method.clone());
        if self.method == Method::HEAD {
            reply.body = ReplyBody::Empty;
            if let ReplyHead::Stored { form, .. } = &mut reply.head {
                *form = ReplyForm::Head { length: None };
            }
        }
        reply
    }

    /// Returns the fields of the derived form.
    pub(super) fn fields(
        &self,
        document: &HeaderMap,
        ask: &RequestContext,
        tag: Option<HeaderValue>,
    ) -> HeaderMap {
        let mut fields = document.clone();
        OF_BYTES.into_iter().chain([FETCHED]).for_each(|name| drop(fields.remove(name)));
        let lifetime = self.base.mirror.settings.index_lifetime.as_secs();
        if let Ok(lifetime) = HeaderValue::try_from(format!("max-age={lifetime}")) {
            fields.insert(header::CACHE_CONTROL, lifetime);
        }
        if ask.mirror.as_ref().is_some_and(|asked| asked.varies) {
            fields.insert(header::VARY, HeaderValue::from_static("Accept"));
        }
        if let Some(tag) = tag {
            fields.insert(header::ETAG, tag);
        }
        fields
    }

    /// Returns `true` if the client has the form with this entity tag.
    fn has(&self, tag: &HeaderValue) -> bool {
        let own = EntityTag::parse(tag.as_bytes());
        let is_own = |said: &[u8]| {
            said.trim_ascii() == b"*"
                || EntityTag::parse(said).zip(own).is_some_and(|(said, own)| said.matches_weakly(own))
        };
        let fields = &self.admitted.head.fields;
        // Our tags have no commas.
        fields.values(&header::IF_NONE_MATCH).any(|line| line.split(|byte| *byte == b',').any(is_own))
    }
}

/// A derived form on its way to a client.
pub(super) struct DerivedForm {
    /// Entity tag of the form.
    pub tag: Option<HeaderValue>,
    /// Fields of the reply.
    pub fields: HeaderMap,
    /// Rewriter of the document.
    pub rewriter: Option<Box<dyn Rewriter + Send>>,
    /// Place in RAM, if the form may stay there.
    pub place: Option<DerivedPlace>,
}

/// Returns the fields of a reply that stay with a kept form. Each hit gets the others anew.
fn kept_fields(fields: &HeaderMap) -> HeaderMap {
    let mut kept = fields.clone();
    [header::AGE, CACHE_STATUS, PROXY_STATUS].into_iter().for_each(|name| drop(kept.remove(name)));
    kept
}

/// Returns the frames of a reply's body.
pub(crate) fn frames(body: ReplyBody) -> StreamBody {
    match body {
        ReplyBody::Memory(bytes) => Full::new(bytes).map_err(|never| match never {}).boxed_unsync(),
        ReplyBody::Stream { frames, .. } => frames,
        ReplyBody::Empty | ReplyBody::Tunnel(_) => {
            Empty::new().map_err(|never| match never {}).boxed_unsync()
        }
    }
}

/// Fields about the stored bytes, which are not those that the client gets.
const OF_BYTES: [HeaderName; 9] = [
    header::ETAG,
    header::LAST_MODIFIED,
    header::CONTENT_LENGTH,
    header::CONTENT_ENCODING,
    header::ACCEPT_RANGES,
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("repr-digest"),
    HeaderName::from_static("content-digest"),
];

const CODING: &str = "The registry sent a document in a coding that was not asked for.";
