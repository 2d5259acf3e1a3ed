//! Rights of clients: before a client gets an answer that is stored for all, the registry is asked
//! whether it would answer this client (`mirror.rights`).
//!
//! The question is a HEAD for the document that names a file, or for the place itself, with the
//! client's Authorization. It reaches the upstream alone. A success lets the client in. A redirect
//! of an image registry does so too, since its blobs stand elsewhere. Other redirects and pages of
//! HTML may lead to a login. While the registry cannot be reached, clients that it has let in
//! within `mirror.stale` stay in.

use super::{MirrorRequest, reply_fields};
use crate::CacheEngine;
use crate::clock;
use crate::message::{Reply, ReplyHead};
use http::{Method, StatusCode, header};
use shoal_mirrors::route::PromiseSource;
use shoal_mirrors::{Class, Fetch, Place};
use shoal_settings::MirrorKind;
use std::sync::Arc;

/// A client's request, for which the registry is asked.
pub(super) struct RightsCheck<'a> {
    /// Access to the registry.
    pub engine: &'a Arc<CacheEngine>,
    /// Request of the client.
    pub request: &'a MirrorRequest,
}

impl RightsCheck<'_> {
    /// Returns a refusal if the registry does not let the client have this.
    pub async fn refuse(&self, fetch: &Fetch) -> Option<Reply> {
        let mirror = &self.request.base.mirror;
        if !mirror.asks_for_rights() {
            return None;
        }
        let Some((place, accept)) = place_of_right(fetch) else {
            return Some(self.request.refused(StatusCode::FORBIDDEN, AMBIGUOUS));
        };
        let name = match &self.request.packages[..] {
            [package] if mirror.registry.shares_rights() => package.clone(),
            // A file's name that may be read in several ways gives no right to a package.
            _ => format!("{place:?}"),
        };
        let credentials = self.request.base.credentials.as_ref().map(|value| value.as_bytes());
        let right = mirror.rights.right(credentials, &name);
        let now = clock::now();
        if mirror.rights.holds(right, mirror.settings.rights_lifetime, now) {
            return None;
        }
        let Some(answer) = self.probe((place, accept)).await else {
            return Some(self.request.refused(StatusCode::FORBIDDEN, NO_RIGHT));
        };
        let status = answer.head.status();
        if self.agrees(&answer) {
            mirror.rights.let_in(right, now);
            return None;
        }
        if is_silent(status) && mirror.rights.holds(right, mirror.settings.stale, now) {
            return None;
        }
        if !is_silent(status) {
            mirror.rights.forget(right);
        }
        Some(self.request.refused_by(&answer))
    }

    /// Returns `true` for an answer that lets the client in.
    fn agrees(&self, answer: &Reply) -> bool {
        let (status, kind) = (answer.head.status(), self.request.base.mirror.settings.kind);
        let fields = reply_fields(&answer.head);
        let content_type = fields.get(header::CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
        let is_page = content_type.trim_ascii_start().to_ascii_lowercase().starts_with(b"text/html");
        let may_be_page = matches!(kind, MirrorKind::Pypi | MirrorKind::Generic);
        status.is_success() && (may_be_page || !is_page) || status.is_redirection() && kind == MirrorKind::Oci
    }

    /// Returns the registry's challenge to a client that looks for an image registry, which says
    /// where tokens are. While the registry cannot be reached, its last challenge stands in.
    pub async fn challenge(&self) -> Option<Reply> {
        let mirror = &self.request.base.mirror;
        if !mirror.asks_for_rights() || mirror.settings.kind != MirrorKind::Oci {
            return None;
        }
        let place = Place::Below(self.request.below.clone());
        let answer = self.probe((&place, None)).await?;
        let status = answer.head.status();
        if status == StatusCode::UNAUTHORIZED {
            *mirror.challenge.lock() = reply_fields(&answer.head).get(header::WWW_AUTHENTICATE).cloned();
            return Some(self.request.refused_by(&answer));
        }
        if is_silent(status) && self.request.base.credentials.is_none() {
            let challenge = mirror.challenge.lock().clone();
            let mut reply = self.request.refused(StatusCode::UNAUTHORIZED, NO_RIGHT);
            if let ReplyHead::Built(_, fields) = &mut reply.head {
                fields.insert(header::WWW_AUTHENTICATE, challenge?);
            }
            return Some(reply);
        }
        None
    }

    /// Asks the registry for a place with the client's credentials, and with this Accept. `None` if
    /// the place is none.
    async fn probe(&self, (place, accept): (&Place, Option<&str>)) -> Option<Reply> {
        if self.request.is_offline() {
            return Some(self.request.refused(StatusCode::GATEWAY_TIMEOUT, OFFLINE));
        }
        let head = self.request.base.probing(Method::HEAD, place, accept)?;
        let answer = Box::pin(self.engine.pass(&head, None)).await;
        match answer.head.status() {
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => {
                let get = self.request.base.probing(Method::GET, place, accept)?;
                Some(Box::pin(self.engine.pass(&get, None)).await)
            }
            _ => Some(answer),
        }
    }
}

impl MirrorRequest {
    /// Returns the registry's refusal: its status and challenge, without its body.
    fn refused_by(&self, answer: &Reply) -> Reply {
        let status = answer.head.status();
        let is_error = status.is_client_error() || status.is_server_error();
        let status = if is_error { status } else { StatusCode::FORBIDDEN };
        let mut reply = self.refused(status, NO_RIGHT);
        let said = reply_fields(&answer.head);
        if let ReplyHead::Built(_, fields) = &mut reply.head {
            for name in [header::WWW_AUTHENTICATE, header::RETRY_AFTER] {
                said.get_all(&name).iter().for_each(|value| {
                    fields.append(&name, value.clone());
                });
            }
        }
        reply
    }
}

/// Returns the place at which the registry is asked, and the Accept for it. It is the document that
/// names a file, since the file itself may be at another host, which gets no credentials. Where
/// several documents may name it, a file at the upstream speaks for itself; `None` for a file
/// elsewhere.
fn place_of_right(fetch: &Fetch) -> Option<(&Place, Option<&str>)> {
    let (place, form) = match &fetch.class {
        Class::File(PromiseSource::In(place, form)) => (place, form),
        Class::File(PromiseSource::InOneOf(documents)) => {
            let (first, form) = documents.first()?;
            match documents.iter().all(|(place, _)| place == first) {
                true => (first, form),
                false => {
                    return matches!(fetch.place, Place::Below(_)).then_some((&fetch.place, fetch.accept));
                }
            }
        }
        _ => return Some((&fetch.place, fetch.accept)),
    };
    Some((place, form.accept()))
}

/// Returns `true` for an answer that says nothing about the client.
fn is_silent(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
}

const NO_RIGHT: &str = "The registry does not give this to the client (mirror.rights).";
const AMBIGUOUS: &str = "Several packages may have a file of this name, so that no right to it can be told.";
const OFFLINE: &str = "This mirror is offline, and cannot ask the registry for the client's rights.";
