//! Documents under a minimum age: versions that are too young, or of unknown time, are left out.

use super::documents::{DerivedForm, frames};
use super::kept::DerivedPlace;
use super::shortcuts::NEVER;
use super::{MirrorRequest, reply_fields};
use crate::CacheEngine;
use crate::message::Reply;
use crate::mirror::{entity_tag, read_survey};
use crate::request::RequestContext;
use http::{HeaderValue, StatusCode, header};
use shoal_core::{Fields, Key, Timestamp};
use shoal_mirrors::{Class, Facts, Fetch, Form, Place, Registry};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

impl CacheEngine {
    /// Returns the reply with the versions that are old enough, in this form. The document is read
    /// twice: `reply` has it for the times, and the cache once more.
    pub(super) async fn selected(
        self: &Arc<Self>,
        request: &MirrorRequest,
        (fetch, wanted): (&Fetch, Form),
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
        add_times(self, request, ask, &mut found).await;
        let until = next_change(request, ask, &found);
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
        let kept_as = (tag.as_ref(), wanted, until);
        let place = DerivedPlace::of(&self.cache, (request, fetch), (ask, &reply), kept_as);
        request.reply((ask, reply), DerivedForm { tag, fields, rewriter: Some(rewriter), place }, &document)
    }

    /// Turns a request for one version or tag into one for a version that is old enough. Returns a
    /// reply in its place, or `false` if the request is for something else.
    pub(super) async fn choose_version(
        self: &Arc<Self>,
        request: &MirrorRequest,
        fetch: &mut Fetch,
    ) -> Result<bool, Box<Reply>> {
        let registry = request.base.mirror.registry;
        let part =
            request.base.age_limit.and_then(|limit| Some((limit, registry.part_of_package(&fetch.place)?)));
        let Some((limit, part)) = part.filter(|_| matches!(fetch.class, Class::Document(_))) else {
            return Ok(false);
        };
        let refused = |status, why| Err(Box::new(request.refused(status, why)));
        let Some(document) = request.base.document(&part.package, part.form) else {
            return refused(StatusCode::BAD_REQUEST, NO_TIMES);
        };
        let reply = Box::pin(self.serve(&Arc::new(document))).await;
        if reply.head.status() != StatusCode::OK {
            return Err(Box::new(request.other(reply)));
        }
        let found = match survey(registry, part.form, reply).await {
            Ok(found) => found,
            Err(status) => return refused(status, NO_TIMES),
        };
        let old = found.versions.iter().filter(|(_, time)| time.is_some_and(|time| time <= limit));
        let versions: HashSet<String> = old.map(|(version, _)| version.clone()).collect();
        if part.version.is_none() {
            let tags = registry.tags(&found, &versions);
            return Err(Box::new(request.answered(200, "application/json", tags)));
        }
        match registry.place_of_version(&part, &found, &versions) {
            Some(place) => fetch.place = place,
            None => return refused(StatusCode::FORBIDDEN, TOO_YOUNG),
        }
        Ok(true)
    }
}

/// Adds the times that an index lacks, from the document of each version.
async fn add_times(
    engine: &Arc<CacheEngine>,
    request: &MirrorRequest,
    ask: &RequestContext,
    facts: &mut Facts,
) {
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
            let engine = Arc::clone(engine);
            asking.spawn(async move { (at, time_in(&engine, document, form).await) });
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
async fn time_in(engine: &Arc<CacheEngine>, document: RequestContext, form: Form) -> Option<i64> {
    let registry = document.mirror.as_ref()?.mirror.registry;
    let reply = Box::pin(engine.serve(&Arc::new(document))).await;
    let found = if reply.head.status() == StatusCode::OK {
        survey(registry, form, reply).await
    } else {
        return None;
    };
    found.ok()?.versions.into_iter().next()?.1
}

/// Returns the time at which the next version is old enough. It is past if times may yet become
/// known.
fn next_change(request: &MirrorRequest, ask: &RequestContext, found: &Facts) -> Timestamp {
    let (limit, registry) = (request.base.age_limit.unwrap_or(i64::MAX), request.base.mirror.registry);
    let place = ask.mirror.as_ref().map(|asked| &asked.place);
    let may_come =
        |version: &str| place.is_some_and(|place| registry.time_of_version(place, version).is_some());
    if found.versions.iter().any(|(version, time)| time.is_none() && may_come(version)) {
        return Timestamp::default();
    }
    let waits = found.versions.iter().filter_map(|(_, time)| time.filter(|time| *time > limit));
    let seconds = waits.min().map(|time| time.abs_diff(limit));
    seconds.map_or(NEVER, |seconds| ask.requested.plus(Duration::from_secs(seconds)))
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
