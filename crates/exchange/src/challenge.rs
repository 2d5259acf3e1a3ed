//! Answers a certificate authority that asks for a proof over http (RFC 8555, section 8.3).
//!
//! The answer comes before all rules, redirects and lists of clients: the authority asks from any
//! address, and names nothing but a token that this node has got from it. Other paths below the
//! prefix, and tokens that this node has not got, go on to the site.

use super::answers;
use super::handling_report::{self, HandlingReport};
use super::settings::ExchangeSettings;
use super::target::Target;
use crate::message::{Client, Reply, ReplyBody};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use shoal_acme::Challenges;
use shoal_semantics::status_fields::Reason;
use shoal_wire::RequestParts;

/// Returns the answer, if the request is for an open challenge.
pub(super) fn answer(
    challenges: &Challenges,
    live: &ExchangeSettings,
    (head, target): (&RequestParts, &Target),
    client: &Client,
) -> Option<Reply> {
    let is_read = head.method == Method::GET || head.method == Method::HEAD;
    let authorization = is_read.then(|| challenges.http_answer(target.host(), target.path())).flatten()?;
    debug_assert!(target.path().starts_with(Challenges::PREFIX));
    let mut fields = HeaderMap::with_capacity(8);
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let body = match head.method == Method::HEAD {
        true => {
            fields.insert(header::CONTENT_LENGTH, HeaderValue::from(authorization.len()));
            ReplyBody::Empty
        }
        false => ReplyBody::Memory(Bytes::from(authorization)),
    };
    let verdict = HandlingReport::local(Reason::Challenge);
    let mut reply = answers::finish_early(live, client, StatusCode::OK, (fields, body), verdict);
    reply.record.method = Some(head.method.clone());
    reply.record.url = target.url.clone();
    reply.record.version = handling_report::version(head.version);
    tracing::info!(host = target.host(), client = %client.address, "a certificate authority has its answer");
    Some(reply)
}
