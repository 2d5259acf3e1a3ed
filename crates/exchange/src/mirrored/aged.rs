//! Documents under a minimum age: versions that are too young, or of unknown time, are left out.

use super::documents::frames;
use super::{MirrorRequest, reply_fields};
use crate::CacheEngine;
use crate::message::Reply;
use crate::mirror::{entity_tag, read_survey};
use crate::request::RequestContext;
use http::{HeaderValue, StatusCode, header};
use shoal_core::{Fields, Key};
use shoal_mirrors::{Facts, Form, Place, Registry};
use std::collections::HashSet;
use std::sync::Arc;
use tokio::task::JoinSet;

impl CacheEngine {
    /// Returns the reply with the versions that are old enough, in this form. The document is read
    /// twice: `reply` has it for the times, and the cache once more.
    pub(super) async fn selected(
        self: &Arc<Self>,
        request: &MirrorRequest,
        wanted: Form,
        ask: &Arc<RequestContext>,
        reply: Reply,
    ) -> Reply {
        if reply.head.status() != StatusCode::OK {
            return request.other(reply);
        }
        let (registry, facts) = (request.base.mirror.registry, &request.base.facts);
        let limit = request.base.age_limit.unwrap_or(i64::MAX);
        let mut found = match survey(registry, wanted, reply).await {
            Ok(found) => found,
            Err(status) => return request.refused(status, NO_TIMES),
        };
        self.add_times(request, ask, &mut found).await;
        let old = found.versions.iter().filter(|(_, time)| time.is_some_and(|time| time <= limit));
        let versions: HashSet<String> = old.map(|(version, _)| version.clone()).collect();
        let mut names: Vec<&[u8]> = versions.iter().map(|version| version.as_bytes()).collect();
        names.sort_unstable();
        let number = Key::unkeyed(&names.join(&0)).low();
        let Some((rewriter, media)) = registry.selected(facts, wanted, &found, versions) else {
            return request.refused(StatusCode::FORBIDDEN, TOO_YOUNG);
        };
        let reply = Box::pin(self.serve(ask)).await;
        if reply.head.status() != StatusCode::OK {
            return request.other(reply);
        }
        let document = reply_fields(&reply.head);
        let tag = entity_tag(&document, &facts.external, (Some(wanted), number));
        let mut fields = request.fields(&document, ask, tag.clone());
        fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
        request.reply(reply, (tag, fields), &document, Some(rewriter))
    }

    /// Adds the times that an index lacks, from the document of each version.
    async fn add_times(self: &Arc<Self>, request: &MirrorRequest, ask: &RequestContext, facts: &mut Facts) {
        let Some(asked) = &ask.mirror else { return };
        let registry = asked.mirror.registry;
        let undated = facts.versions.iter().enumerate().filter(|(_, (_, time))| time.is_none());
        let mut wanted = undated
            .filter_map(|(at, (version, _))| Some((at, registry.time_of_version(&asked.place, version)?)))
            .take(TIMES_MAX)
            .collect::<Vec<(usize, (Place, Form))>>();
        let mut asking = JoinSet::new();
        loop {
            while asking.len() < TIMES_AT_ONCE
                && let Some((at, (place, form))) = wanted.pop()
            {
                let Some(document) = request.base.document(&place, form) else { continue };
                let engine = Arc::clone(self);
                asking.spawn(async move { (at, engine.time_in(document, form).await) });
            }
            match asking.join_next().await {
                Some(Ok((at, time))) => facts.versions[at].1 = time,
                // A version without an answer has no known time.
                Some(Err(_)) => {}
                None => break,
            }
        }
        debug_assert!(wanted.is_empty(), "each version was asked about");
    }

    /// Reads the time of the only version in a document.
    async fn time_in(self: Arc<Self>, document: RequestContext, form: Form) -> Option<i64> {
        let registry = document.mirror.as_ref()?.mirror.registry;
        let reply = Box::pin(self.serve(&Arc::new(document))).await;
        let found = if reply.head.status() == StatusCode::OK {
            survey(registry, form, reply).await
        } else {
            return None;
        };
        found.ok()?.versions.into_iter().next()?.1
    }
}

/// Reads the versions and times of a document. An error is the status of the refusal.
async fn survey(registry: &dyn Registry, wanted: Form, reply: Reply) -> Result<Facts, StatusCode> {
    let fields = reply_fields(&reply.head);
    let content_type = fields.value(&header::CONTENT_TYPE).unwrap_or_default();
    let dated = registry.dated(wanted).ok_or(StatusCode::FORBIDDEN)?;
    // Another form than the one with times came, as some indexes have no other.
    if dated.given(&String::from_utf8_lossy(content_type)) != dated {
        return Err(StatusCode::FORBIDDEN);
    }
    let survey = registry.survey(dated).ok_or(StatusCode::FORBIDDEN)?;
    read_survey(frames(reply.body), &fields, survey).await.map_err(|_| StatusCode::BAD_GATEWAY)
}

/// Most versions of one list that are asked about. Further ones count as of unknown time.
const TIMES_MAX: usize = 1000;

/// Documents of versions that are asked for at once.
const TIMES_AT_ONCE: usize = 16;

const NO_TIMES: &str = "The publication times of the package's versions cannot be read (mirror.minimum_age).";
const TOO_YOUNG: &str =
    "The release is younger than this mirror takes, or of an unknown age (mirror.minimum_age).";
