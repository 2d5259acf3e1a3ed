//! Documents that belong together: a checksum is that of the document which the cache has, and a
//! part of an index is no older than the index.
//!
//! ```text
//!   maven-metadata.xml.sha1 ─► the stored maven-metadata.xml ─► its checksum
//!   /info/NAME, stored before /versions changed ─► validated first
//! ```

use super::documents::frames;
use super::{MirrorRequest, reply_fields};
use crate::CacheEngine;
use crate::clock;
use crate::message::Reply;
use crate::mirror::IndexVersion;
use crate::request::RequestContext;
use http::{StatusCode, header};
use http_body_util::BodyExt;
use shoal_core::Timestamp;
use shoal_mirrors::{Fetch, Hasher, Place};
use std::sync::Arc;

impl CacheEngine {
    /// Answers a request for the checksum of a document. `None` if the place is that of no such
    /// checksum.
    pub(super) async fn checksum(self: &Arc<Self>, request: &MirrorRequest, fetch: &Fetch) -> Option<Reply> {
        let (place, form, algorithm) = request.base.mirror.registry.sum_of(fetch)?;
        let ask = Arc::new(request.base.document(&place, form)?);
        let reply = Box::pin(self.serve(&ask)).await;
        if reply.head.status() != StatusCode::OK {
            return Some(request.other(reply));
        }
        let (mut body, mut sum) = (frames(reply.body), Hasher::new(algorithm));
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(frame) => frame.data_ref().into_iter().for_each(|data| sum.push(data)),
                Err(_) => return Some(request.refused(StatusCode::BAD_GATEWAY, CUT)),
            }
        }
        Some(request.answered(200, "text/plain", sum.finish().hex().into_bytes()))
    }
}

impl MirrorRequest {
    /// Remembers when the index last changed.
    pub(super) fn note_index(&self, fetch: &Fetch, reply: &Reply) {
        let registry = self.base.mirror.registry;
        let is_index = matches!(&fetch.place, Place::Below(path) if registry.is_index(path));
        if !is_index || !matches!(reply.head.status().as_u16(), 200 | 206 | 304) {
            return;
        }
        let fields = reply_fields(&reply.head);
        let Some(validator) = fields.get(header::ETAG).or_else(|| fields.get(header::LAST_MODIFIED)) else {
            return;
        };
        let mut seen = self.base.mirror.index_version.lock();
        if seen.validator != validator.as_bytes() {
            *seen = IndexVersion { validator: validator.as_bytes().to_vec(), since: clock::now() };
        }
    }

    /// Lets a part of the index be validated if it was stored before the index changed.
    pub(super) fn follow_index(&self, fetch: &Fetch, ask: &mut RequestContext) {
        let follows =
            matches!(&fetch.place, Place::Below(path) if self.base.mirror.registry.is_of_index(path));
        let since = self.base.mirror.index_version.lock().since;
        if !follows || since == Timestamp::default() || self.is_offline() {
            return;
        }
        let seconds = u32::try_from(clock::now().since(since).as_secs()).unwrap_or(u32::MAX);
        let most = ask.directives.max_age.unwrap_or(u32::MAX);
        ask.directives.max_age = Some(most.min(seconds));
    }
}

const CUT: &str = "The document of this checksum broke off.";
