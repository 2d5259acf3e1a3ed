//! Hashes of `go.sum` for zips and `go.mod` files, from a checksum database behind the upstream.
//!
//! A record that clients have asked for is in the cache; go asks for it before it fetches a zip.
//! With `mirror.checksum_database` this node asks itself. Without a record, a file is not checked:
//! no database knows private modules.

use super::documents::frames;
use super::places::MirrorBase;
use crate::CacheEngine;
use crate::mirror::MirrorRoute;
use crate::request::RequestContext;
use http::{Method, StatusCode};
use http_body_util::{BodyExt, Limited};
use shoal_mirrors::route::PromiseSource;
use shoal_mirrors::{Class, Fetch, Place};
use std::sync::Arc;

/// Remembers the checksum database that a request at a mirror is about.
pub(super) fn note_database(mirror: &MirrorRoute, path: &str) {
    let Some(name) = mirror.registry.checksum_database(path) else { return };
    let mut known = mirror.databases.lock();
    if known.len() < DATABASES_MAX && !known.iter().any(|known| **known == *name) {
        known.push(name.into());
    }
    debug_assert!(known.len() <= DATABASES_MAX, "few databases are known");
}

/// Searches for the hash of one file.
pub(super) struct SumSearch<'a> {
    /// Cache and origins.
    pub engine: &'a Arc<CacheEngine>,
    /// Facts of the client's request.
    pub base: &'a MirrorBase,
    /// Request of the file.
    pub ask: &'a RequestContext,
}

impl SumSearch<'_> {
    /// Returns the hash of the file's members, if a record has it.
    pub async fn find(&self) -> Option<[u8; 32]> {
        let asked = self.ask.mirror.as_ref()?;
        let (mirror, file) = (&asked.mirror, &asked.place);
        let own = mirror.settings.checksum_database.as_deref();
        let known: Vec<Box<str>> = mirror.databases.lock().clone();
        let others = known.iter().map(|name| &**name).filter(|name| Some(*name) != own);
        for (name, may_ask) in own.map(|own| (own, true)).into_iter().chain(others.map(|name| (name, false)))
        {
            let Some(place) = mirror.registry.place_of_sum(file, name) else { continue };
            if let Some(record) = self.record(place, may_ask).await
                && let Some(sum) = mirror.registry.sum_in(file, &record)
            {
                return Some(sum);
            }
        }
        None
    }

    async fn record(&self, place: Place, may_ask: bool) -> Option<String> {
        let class = Class::File(PromiseSource::Nothing);
        let fetch = Fetch { place, class, accept: None, form_asked: None };
        let mut ask = self.base.ageless().own(&fetch, Method::GET)?;
        ask.directives.only_if_cached |= !may_ask;
        let reply = Box::pin(self.engine.serve(&Arc::new(ask))).await;
        if reply.head.status() != StatusCode::OK {
            return None;
        }
        let body = Limited::new(frames(reply.body), RECORD_BYTES_MAX).collect().await.ok()?;
        String::from_utf8(body.to_bytes().to_vec()).ok()
    }
}

/// Most checksum databases of one mirror.
const DATABASES_MAX: usize = 8;
/// Longest record of a module.
const RECORD_BYTES_MAX: usize = 64 << 10;
