//! Bodies that clients put into a build cache: they are stored as an origin's response would be.
//!
//! The client gets its answer when the body has come whole and passed its check. A body that
//! another client reads meanwhile streams to it as it arrives.

use super::MirrorRequest;
use super::documents::frames;
use crate::CacheEngine;
use crate::clock;
use crate::deliver::{BodySource, whole};
use crate::fetch::FetchOutcome;
use crate::message::{Reply, RequestBody, StreamBody};
use crate::mirror::{BodyCheck, VerifiedBody};
use crate::purge::{PurgeOutcome, PurgeRequest};
use crate::upstream::UpstreamResponse;
use http::{StatusCode, header};
use http_body_util::{BodyExt, Empty};
use shoal_core::{FieldLines, Fields};
use shoal_mirrors::{Fetch, Place};
use std::sync::Arc;

impl CacheEngine {
    /// Stores the body of a request under its place.
    pub(super) async fn write_entry(
        self: &Arc<Self>,
        request: &MirrorRequest,
        (fetch, status): (&Fetch, u16),
        body: RequestBody,
    ) -> Reply {
        let Some(ask) = request.base.entry(fetch) else {
            return request.refused(StatusCode::BAD_REQUEST, super::NO_PLACE);
        };
        let ask = Arc::new(ask);
        let fields = &request.admitted.head.fields;
        let length = match (&body, fields.value(&header::CONTENT_LENGTH)) {
            (None, _) => Some(0),
            (_, Some(said)) => std::str::from_utf8(said).ok().and_then(|said| said.trim().parse().ok()),
            (Some(_), None) => None,
        };
        let mut frames_in: StreamBody =
            body.unwrap_or_else(|| Empty::new().map_err(|never| match never {}).boxed_unsync());
        let promise = ask.mirror.as_ref().and_then(|asked| asked.promise());
        if let Some(check) = promise.as_ref().and_then(BodyCheck::of_file) {
            let url = Arc::clone(&ask.target.url);
            frames_in = VerifiedBody::boxed(frames_in, check, url, &self.metrics);
        }
        let now = clock::now();
        let response = UpstreamResponse {
            status: StatusCode::OK,
            version: request.admitted.head.version,
            fields: stored_fields(fields),
            body: frames_in,
            length,
            request_time: now,
            response_time: now,
            peer: request.admitted.client.address,
            member: 0,
            upgraded: None,
            account: None,
            is_proxy_only: false,
            from_peer: None,
        };
        let told = self.fetcher.spawn_answered(self.fetcher.plan_fetch(&ask, None), response);
        match told.await {
            Ok(FetchOutcome::Shared(arrived, first)) => {
                let source = BodySource::Growing(Arc::clone(&arrived.body), arrived.length, first);
                let is_whole = match whole(&self.cache.objects, source) {
                    Some(body) => drained(frames(body)).await,
                    None => false,
                };
                match is_whole {
                    true => request.answered(status, "text/plain", Vec::new()),
                    false => request.refused(StatusCode::BAD_REQUEST, BROKEN),
                }
            }
            Ok(FetchOutcome::Private(_)) => request.refused(StatusCode::PAYLOAD_TOO_LARGE, NOT_STORED),
            _ => request.refused(StatusCode::INTERNAL_SERVER_ERROR, NOT_STORED),
        }
    }

    /// Removes the entry of a place.
    pub(super) async fn remove_entry(self: &Arc<Self>, request: &MirrorRequest, place: &Place) -> Reply {
        let Place::Below(path) = place else {
            return request.refused(StatusCode::BAD_REQUEST, super::NO_PLACE);
        };
        let url = format!("{}{path}", request.base.facts.upstream);
        match self.purge(PurgeRequest::Url(url)).await {
            PurgeOutcome::Failed(_) | PurgeOutcome::Invalid(_) => {
                request.refused(StatusCode::INTERNAL_SERVER_ERROR, "The entry could not be removed.")
            }
            _ => request.answered(200, "text/plain", Vec::new()),
        }
    }
}

/// Returns the fields of an entry: those that its readers need.
fn stored_fields(request: &FieldLines) -> FieldLines {
    let kept = [&b"content-type"[..], b"x-artifact-tag", b"x-artifact-duration"];
    let lines = request.lines().filter(|(name, _)| kept.contains(name));
    lines.chain([(&b"cache-control"[..], &b"max-age=31536000"[..])]).collect()
}

/// Reads a body to its end. Returns `false` if it breaks off.
async fn drained(mut body: StreamBody) -> bool {
    while let Some(frame) = body.frame().await {
        if frame.is_err() {
            return false;
        }
    }
    true
}

const BROKEN: &str = "The body broke off, or has another digest than its path.";
const NOT_STORED: &str = "The body is too large, or cannot be stored.";
