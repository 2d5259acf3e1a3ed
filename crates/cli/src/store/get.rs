//! `shoal store get`: writes the stored body for a URL.

use super::told::now;
use super::{InspectedStore, StoreSelection, failed};
use crate::failure::Failure;
use shoal_cache::stored_object::{StoredKind, StoredObject};
use shoal_core::ObjectKey;
use shoal_store::inspect::Inspect;
use shoal_store::{OpenObject, StoredBody};
use std::io::{ErrorKind, Write};

/// Write the stored body for a URL to stdout
///
/// The body is written as it is stored, with its content coding. If the URL has several variants,
/// the last stored one is written. If only ranges of the response are stored, nothing is written.
#[derive(clap::Args)]
pub struct StoreGetOptions {
    /// The absolute URL
    url: String,
    #[command(flatten)]
    which: StoreSelection,
    /// Write the response's head before the body
    #[arg(long)]
    head: bool,
}

impl StoreGetOptions {
    pub fn perform(self) -> Result<(), Failure> {
        let keys = StoredObject::keys_of(&self.url)
            .ok_or_else(|| Failure::Usage(format!("{} is no URL of http or https", self.url)))?;
        let stores = self.which.open()?;
        let Some((stored, object)) = find(&stores.seen, &keys)? else {
            let mut stores = stores;
            stores.failures.push(format!("nothing is stored for {}", self.url));
            return stores.end();
        };
        let mut out = std::io::stdout().lock();
        let written = match &object.kind {
            StoredKind::Response { status, fields, .. } if self.head => {
                let mut head = format!("HTTP/1.1 {status}\r\n").into_bytes();
                for (name, value) in fields {
                    head.extend([name.as_slice(), b": ", value, b"\r\n"].concat());
                }
                head.extend(b"\r\n");
                out.write_all(&head)
            }
            _ => Ok(()),
        };
        match written {
            Ok(()) => copy(&*stored.body, &mut out),
            Err(error) => ended(error),
        }
    }
}

/// Returns the response for a URL, on any disk and of any mode; the last stored one of several.
fn find(
    stores: &[InspectedStore],
    keys: &[ObjectKey],
) -> Result<Option<(OpenObject, StoredObject)>, Failure> {
    let found = keys.iter().map(|key| find_one(stores, key)).collect::<Result<Vec<_>, _>>()?;
    Ok(found.into_iter().flatten().max_by_key(|(_, object)| super::told::stored(object)))
}

fn find_one(
    stores: &[InspectedStore],
    key: &ObjectKey,
) -> Result<Option<(OpenObject, StoredObject)>, Failure> {
    let mut found: Vec<(OpenObject, StoredObject)> = Vec::new();
    let mut has_variants = false;
    for (_, store) in stores {
        let Some(stored) = store.find(key).map_err(failed)? else { continue };
        match StoredObject::read(key.full(), &stored.metadata, now()) {
            Some(object) if is_response(&object) => found.push((stored, object)),
            Some(StoredObject { kind: StoredKind::Variants, .. }) => has_variants = true,
            Some(_) => {
                let why = "only ranges of it are stored; `shoal store ls --all` lists them";
                return Err(Failure::Runtime(why.into()));
            }
            None => {}
        }
    }
    if found.is_empty() && has_variants {
        for (_, store) in stores {
            found.extend(newest_variant(&**store, key)?);
        }
    }
    Ok(found.into_iter().max_by_key(|(_, object)| super::told::stored(object)))
}

/// Returns the variant of a key that was written last to one store.
fn newest_variant(
    store: &dyn Inspect,
    key: &ObjectKey,
) -> Result<Option<(OpenObject, StoredObject)>, Failure> {
    let mut variant = None;
    let listing = store.list(true, &mut |listed| {
        let rest = listed.key.strip_prefix(key.full());
        if rest.is_some_and(|rest| rest.starts_with(b"\0variant")) {
            let object = StoredObject::read(listed.key, listed.metadata, now());
            variant = object.filter(is_response).map(|object| (ObjectKey::new(listed.key), object));
        }
        variant.is_none()
    });
    listing.map_err(failed)?;
    let Some((key, object)) = variant else { return Ok(None) };
    Ok(store.find(&key).map_err(failed)?.map(|stored| (stored, object)))
}

fn is_response(object: &StoredObject) -> bool {
    matches!(object.kind, StoredKind::Response { .. })
}

fn copy(body: &dyn StoredBody, out: &mut impl Write) -> Result<(), Failure> {
    let mut at = 0;
    while at < body.length() {
        let bytes = body.read(at, BLOCK).map_err(failed)?;
        if bytes.is_empty() {
            return Err(Failure::Runtime(format!("the body ends after {at} of {} bytes", body.length())));
        }
        if let Err(error) = out.write_all(&bytes) {
            return ended(error);
        }
        at += bytes.len() as u64;
    }
    out.flush().or_else(ended)
}

/// Maps a write error: a closed pipe is no failure.
fn ended(error: std::io::Error) -> Result<(), Failure> {
    match error.kind() {
        ErrorKind::BrokenPipe => Ok(()),
        _ => Err(Failure::Runtime(error.to_string())),
    }
}

/// Bytes read at once.
const BLOCK: usize = 64 * 1024;
