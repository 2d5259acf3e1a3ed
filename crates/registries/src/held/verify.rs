//! `shoal mirror verify`: bodies as they lie in the stores, compared with the digests that their
//! indexes promise now.
//!
//! ```text
//!   list ─► files ──┬─ promise: in the URL, in a stored document, in the object's own fields
//!           documents┘        └─ body read and checked ─► agrees, differs, or nothing is promised
//! ```
//!
//! Nothing is fetched. A document that is not stored promises nothing.

use super::each_held;
use crate::checked::{BodyCheck, Mismatch};
use crate::inflated::{DocumentCoding, Inflater};
use crate::message::target::Target;
use crate::metadata::{ObjectMetadata, ResponseMetadata};
use crate::{MirrorRoute, Mirrors};
use http::header;
use shoal_core::{Fields, ObjectKey};
use shoal_mirrors::route::PromiseSource;
use shoal_mirrors::{Class, Fetch, Form, Place, Promise};
use shoal_store::StoredBody;
use shoal_store::inspect::Inspect;
use std::collections::HashMap;
use std::sync::Arc;

/// Result for one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeldFinding {
    /// The file is the promised one, or the document can be read to its end.
    Sound,
    /// Nothing promises the file's bytes.
    Unpromised,
    /// The object differs from its promise; the text says in which way.
    Differs(&'static str),
    /// The object's bytes fail the store's own check. They are never served.
    Damaged,
    /// The object was replaced or removed meanwhile.
    Gone,
}

/// Results for one mirror.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyCounts {
    /// Name of the mirror.
    pub mirror: String,
    /// Objects that are sound.
    pub sound: u64,
    /// Bytes of their bodies.
    pub sound_bytes: u64,
    /// Files without a promise.
    pub unpromised: u64,
    /// Objects that differ.
    pub differing: u64,
    /// Objects that are damaged.
    pub damaged: u64,
}

/// Object that is to be checked.
struct MirrorEntry {
    store: usize,
    key: Vec<u8>,
    url: String,
    mirror: Arc<MirrorRoute>,
    fetch: Fetch,
}

/// Head and body of a stored response.
type OpenResponse = (Arc<ResponseMetadata>, Arc<dyn StoredBody>);

/// Stores and the objects of mirrors in them.
struct HeldStores<'s> {
    stores: &'s [&'s dyn Inspect],
    objects: Vec<MirrorEntry>,
    /// Numbers of the documents with a URL; there may be several forms of one.
    documents: HashMap<String, Vec<usize>>,
}

/// Checks the objects of a mirror, or of all mirrors. Tells each object's URL and result
/// to `tell`.
///
/// # Errors
/// If a store cannot be read.
pub fn verify_held(
    mirrors: &Mirrors,
    stores: &[&dyn Inspect],
    name: Option<&str>,
    tell: &mut dyn FnMut(&str, &HeldFinding),
) -> Result<Vec<VerifyCounts>, shoal_store::Error> {
    let held = HeldStores::list(mirrors, stores)?;
    let mut counts = Vec::new();
    let wanted = mirrors.all().iter().filter(|mirror| name.is_none_or(|name| name == mirror.settings.name()));
    for mirror in wanted {
        let mut row = VerifyCounts { mirror: mirror.settings.name().to_owned(), ..VerifyCounts::default() };
        for object in held.objects.iter().filter(|object| Arc::ptr_eq(&object.mirror, mirror)) {
            let (finding, bytes) = held.check(object)?;
            match finding {
                HeldFinding::Sound => (row.sound, row.sound_bytes) = (row.sound + 1, row.sound_bytes + bytes),
                HeldFinding::Unpromised => row.unpromised += 1,
                HeldFinding::Differs(_) => row.differing += 1,
                HeldFinding::Damaged => row.damaged += 1,
                HeldFinding::Gone => {}
            }
            tell(&object.url, &finding);
        }
        counts.push(row);
    }
    Ok(counts)
}

impl<'s> HeldStores<'s> {
    fn list(mirrors: &Mirrors, stores: &'s [&'s dyn Inspect]) -> Result<Self, shoal_store::Error> {
        let (mut objects, mut documents) = (Vec::new(), HashMap::<String, Vec<usize>>::new());
        for (number, store) in stores.iter().enumerate() {
            each_held(mirrors, *store, &mut |held| {
                // A sidecar is a file, and promises another.
                documents.entry(held.url.to_owned()).or_default().push(objects.len());
                objects.push(MirrorEntry {
                    store: number,
                    key: held.key.to_vec(),
                    url: held.url.to_owned(),
                    mirror: Arc::clone(held.mirror),
                    fetch: held.fetch,
                });
            })?;
        }
        debug_assert!(documents.values().flatten().all(|number| *number < objects.len()));
        Ok(Self { stores, objects, documents })
    }

    /// Checks an object. Returns the length of its body, too.
    fn check(&self, object: &MirrorEntry) -> Result<(HeldFinding, u64), shoal_store::Error> {
        let Some((head, body)) = self.open(object)? else { return Ok((HeldFinding::Gone, 0)) };
        let fields = head.stored.fields();
        let check = match &object.fetch.class {
            Class::File(source) => {
                let promise = self.promise(object, source)?.unwrap_or_default();
                let field = |name: &str| {
                    let value = fields.value(&http::HeaderName::try_from(name).ok()?)?;
                    Some(String::from_utf8_lossy(value).into_owned())
                };
                let own = object.mirror.registry.promise_in(&field);
                BodyCheck::of_digests(promise.digest.iter().chain(&own), promise.size)
            }
            Class::Document(form) => {
                let given = form.given(&content_type(&head));
                // Addresses of clients play no part here.
                let facts = object.mirror.facts("http://mirror.invalid");
                let rewriter = object.mirror.registry.rewriter(&facts, given);
                rewriter.zip(Inflater::of(DocumentCoding::of(&fields))).map(|(rewriter, inflater)| {
                    BodyCheck::Document { inflater, rewriter, unread: Vec::new() }
                })
            }
        };
        let finding = match (check, &object.fetch.class) {
            (Some(check), _) => checked(check, &*body)?,
            (None, Class::File(_)) => HeldFinding::Unpromised,
            (None, Class::Document(_)) => checked_by_store(&*body)?,
        };
        Ok((finding, body.length()))
    }

    /// Looks for the promise of a file in the stored documents.
    fn promise(
        &self,
        object: &MirrorEntry,
        source: &PromiseSource,
    ) -> Result<Option<Promise>, shoal_store::Error> {
        let documents: &[(Place, Form)] = match source {
            PromiseSource::Nothing => return Ok(None),
            PromiseSource::Here(digest) => {
                return Ok(Some(Promise { digest: Some(digest.clone()), ..Promise::default() }));
            }
            PromiseSource::In(place, form) => &[(place.clone(), *form)],
            PromiseSource::InOneOf(documents) => documents,
        };
        for (place, form) in documents {
            if let Some(found) = self.promise_in(object, place, *form)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn promise_in(
        &self,
        object: &MirrorEntry,
        place: &Place,
        form: Form,
    ) -> Result<Option<Promise>, shoal_store::Error> {
        let facts = object.mirror.as_registry();
        let url = match place {
            Place::Below(path) => format!("{}{path}", facts.upstream),
            Place::Elsewhere(url) => url.clone(),
        };
        let Ok(url) = Target::parse(&url) else { return Ok(None) };
        for number in self.documents.get(&*url.url).into_iter().flatten() {
            let Some((head, body)) = self.open(&self.objects[*number])? else { continue };
            let given = form.given(&content_type(&head));
            let Some(mut promises) = object.mirror.registry.promises(&facts, given, &object.fetch.place)
            else {
                continue;
            };
            let Some(mut inflater) = Inflater::of(DocumentCoding::of(&head.stored.fields())) else {
                continue;
            };
            let mut take = |plain: &[u8]| promises.push(plain).map_err(crate::derived::malformed);
            let read = read_whole(&*body, &mut |bytes| inflater.push(bytes, &mut take).is_ok())?;
            if !read || inflater.finish(&mut take).is_err() {
                continue;
            }
            if let Ok(Some(promise)) = promises.finish() {
                return Ok(Some(promise));
            }
        }
        Ok(None)
    }

    fn open(&self, object: &MirrorEntry) -> Result<Option<OpenResponse>, shoal_store::Error> {
        let found = self.stores[object.store].find(&ObjectKey::new(&*object.key))?;
        Ok(found.and_then(|open| match ObjectMetadata::decode(&open.metadata)? {
            ObjectMetadata::Response(head) => Some((head, open.body)),
            _ => None,
        }))
    }
}

fn content_type(head: &ResponseMetadata) -> String {
    let fields = head.stored.fields();
    let value = fields.value(&header::CONTENT_TYPE).unwrap_or_default();
    String::from_utf8_lossy(value).into_owned()
}

/// Reads a body under its check.
fn checked(mut check: BodyCheck, body: &dyn StoredBody) -> Result<HeldFinding, shoal_store::Error> {
    let mut mismatch = None;
    let read = read_whole(body, &mut |bytes| {
        mismatch = check.push(bytes).err();
        mismatch.is_none()
    });
    let outcome = match read {
        Err(shoal_store::Error::Corrupt { .. }) => return Ok(HeldFinding::Damaged),
        Err(error) => return Err(error),
        Ok(_) => mismatch.map_or_else(|| check.finish(), Err),
    };
    Ok(match outcome {
        Ok(()) => HeldFinding::Sound,
        Err(mismatch) => HeldFinding::Differs(Mismatch::explanation(mismatch)),
    })
}

/// Reads a body that nothing but the store can check.
fn checked_by_store(body: &dyn StoredBody) -> Result<HeldFinding, shoal_store::Error> {
    match read_whole(body, &mut |_| true) {
        Ok(_) => Ok(HeldFinding::Sound),
        Err(shoal_store::Error::Corrupt { .. }) => Ok(HeldFinding::Damaged),
        Err(error) => Err(error),
    }
}

/// Reads a body to its end, or until `take` returns `false`.
fn read_whole(
    body: &dyn StoredBody,
    take: &mut dyn FnMut(&[u8]) -> bool,
) -> Result<bool, shoal_store::Error> {
    let mut at = 0;
    while at < body.length() {
        let bytes = body.read(at, BLOCK)?;
        if bytes.is_empty() {
            return Ok(false);
        }
        if !take(&bytes) {
            return Ok(false);
        }
        at += bytes.len() as u64;
    }
    Ok(true)
}

/// Bytes read at once.
const BLOCK: usize = 64 << 10;
