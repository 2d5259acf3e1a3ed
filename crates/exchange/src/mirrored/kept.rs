//! Derived forms that stay in RAM: a form that was derived once is not derived again.
//!
//! ```text
//!   stored document in RAM ─► key of its form ─┬─ in RAM ─► reply
//!                                              └─ else ───► derive, gather, keep at the end
//! ```
//!
//! The key has the number of the stored response, its validator, the client's address of the mirror
//! and the form. A replaced document makes its forms unreachable, and RAM evicts them.

use super::MirrorRequest;
use super::shortcuts::{Destination, StoredPlace, derived_key, in_memory, is_head_of};
use crate::cache::Cache;
use crate::hybrid_cache::CachedBody;
use crate::message::{BodyError, Hold, Reply, StoredHead, StreamBody};
use crate::metadata::{ObjectMetadata, Provenance, ResponseMetadata};
use crate::request::RequestContext;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use shoal_core::{ObjectKey, Timestamp};
use shoal_mirrors::{Fetch, Form};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// Place in RAM of a derived form.
pub(super) struct DerivedPlace {
    cache: Arc<Cache>,
    key: ObjectKey,
    stored: StoredPlace,
    head: Arc<ResponseMetadata>,
    until: Timestamp,
}

impl DerivedPlace {
    /// Returns the place of the form that is derived from a reply. `None` if the document itself is
    /// not in RAM, or if such forms are not kept.
    pub fn of(
        cache: &Arc<Cache>,
        (request, fetch): (&MirrorRequest, &Fetch),
        (ask, reply): (&RequestContext, &Reply),
        (tag, form, until): (Option<&HeaderValue>, Form, Timestamp),
    ) -> Option<Self> {
        let tag = tag.filter(|_| request.may_have_shortcut(fetch))?;
        let (stored, head) = in_memory(cache, ask)?;
        let key = derived_key(&stored.key, &head, tag.as_bytes(), form);
        is_head_of(reply, &head).then(|| Self { cache: Arc::clone(cache), key, stored, head, until })
    }

    /// Returns head and body of the form if it is in RAM, and learns the shortcut to it.
    pub fn kept(&self, request: &MirrorRequest, ask: &RequestContext) -> Option<(Arc<StoredHead>, Bytes)> {
        let resident = self.cache.objects.memory_entry(&self.key)?;
        let derived = Some((self.head.identity.response(), self.key.clone()));
        let to = Destination { stored: self.stored.clone(), derived, until: self.until };
        request.learn(&self.cache, ask, to);
        let ObjectMetadata::Response(form) = &resident.record else { return None };
        match self.cache.objects.hold(&resident) {
            CachedBody::Memory(body) => Some((Arc::clone(&form.stored), body)),
            // Replies hold as much as they may: the form is derived anew, in a small window.
            CachedBody::Disk(_) => None,
        }
    }

    /// Lets a form with these fields of the reply be kept when it has been sent.
    pub fn gather(self, source: StreamBody, fields: HeaderMap) -> StreamBody {
        let Some(hold) = self.cache.objects.gathered().hold(0) else { return source };
        let gathered = Some((Vec::new(), hold));
        GatheredForm { source, gathered, place: Some((self, fields)) }.boxed_unsync()
    }

    fn keep(self, body: Vec<u8>, fields: HeaderMap) {
        let Self { cache, key, head, .. } = self;
        let validity = cache.invalidations.snapshot(&key);
        let origin =
            Provenance { requested: head.requested, names: head.names.clone(), identity: head.identity };
        let form = ResponseMetadata::new(StatusCode::OK, fields, head.policy, origin);
        let body = cache.objects.memory().place(key.hash(), body.into());
        let record = ObjectMetadata::Response(Arc::new(form));
        debug_assert!(!body.is_empty(), "a form has bytes");
        // RAM may have no room: the next request derives the form again.
        drop(cache.objects.insert_memory(&key, &record, body, &validity));
    }
}

/// A form on its way to a client, gathered for RAM.
struct GatheredForm {
    source: StreamBody,
    gathered: Option<(Vec<u8>, Hold)>,
    place: Option<(DerivedPlace, HeaderMap)>,
}

impl GatheredForm {
    fn take(&mut self, data: &Bytes) {
        let Some((body, hold)) = &mut self.gathered else { return };
        let bytes = (body.len() + data.len()) as u64;
        let most = self.place.as_ref().map_or(0, |(place, _)| place.cache.objects.limits().memory_object_max);
        if bytes <= most && hold.grow_to(bytes) {
            body.extend_from_slice(data);
        } else {
            (self.gathered, self.place) = (None, None);
        }
    }
}

impl Body for GatheredForm {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = ready!(Pin::new(&mut self.source).poll_frame(context));
        match &frame {
            Some(Ok(frame)) => frame.data_ref().into_iter().for_each(|data| self.take(data)),
            Some(Err(_)) => self.place = None,
            None => {
                if let (Some((place, fields)), Some((body, _))) = (self.place.take(), self.gathered.take())
                    && !body.is_empty()
                {
                    place.keep(body, fields);
                }
            }
        }
        Poll::Ready(frame)
    }
}
