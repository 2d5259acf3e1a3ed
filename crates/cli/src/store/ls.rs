//! `shoal store ls`: lists the stored objects.

use super::StoreSelection;
use super::told::{kind, line_of_json, now, stored, time};
use crate::failure::Failure;
use crate::show;
use shoal_cache::stored_object::{StoredKind, StoredObject};
use shoal_core::ByteCount;
use shoal_store::inspect::ListedObject;
use std::io::{BufWriter, ErrorKind, Write};

/// List stored objects: time, size, position, URL
///
/// The order is the order of writing, oldest first. --all also lists notes of the variants and
/// ranges of a URL.
#[derive(clap::Args)]
pub struct StoreLsOptions {
    /// Only URLs that contain this
    #[arg(value_name = "TEXT")]
    text: Option<String>,
    #[command(flatten)]
    which: StoreSelection,
    /// Only bodies of at least this many bytes, such as 1MB
    #[arg(long, value_name = "SIZE")]
    larger: Option<ByteCount>,
    /// Only responses of this status
    #[arg(long, value_name = "CODE")]
    status: Option<u16>,
    /// Only responses that may be used without validation
    #[arg(long, conflicts_with = "stale")]
    fresh: bool,
    /// Only responses that must be validated first
    #[arg(long)]
    stale: bool,
    /// Also notes of variants and ranges
    #[arg(long)]
    all: bool,
    /// The newest first
    #[arg(long)]
    newest: bool,
    /// At most this many objects of each store
    #[arg(long, value_name = "COUNT")]
    limit: Option<u64>,
    /// Print JSON, one line an object
    #[arg(long)]
    json: bool,
}

impl StoreLsOptions {
    pub fn perform(mut self) -> Result<(), Failure> {
        let which = std::mem::replace(&mut self.which, StoreSelection { stores: Vec::new(), config: None });
        let mut stores = which.open()?;
        let mut out = BufWriter::new(std::io::stdout().lock());
        let now = now();
        for (folder, store) in &stores.seen {
            let (folder, mut shown, mut written) = (folder.display().to_string(), 0, Ok(()));
            let listing = store.list(self.newest, &mut |listed| {
                let object = StoredObject::read(listed.key, listed.metadata, now);
                if let Some(object) = object.filter(|object| self.is_wanted(listed, object)) {
                    written = match self.json {
                        true => writeln!(out, "{}", line_of_json(&folder, listed, &object)),
                        false => writeln!(out, "{}", line(listed, &object)),
                    };
                    shown += 1;
                }
                written.is_ok() && self.limit.is_none_or(|limit| shown < limit)
            });
            if let Err(error) = listing {
                stores.failures.push(format!("{folder}: {error}"));
            }
            match written.and_then(|()| out.flush()) {
                Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                    return Err(Failure::Runtime(error.to_string()));
                }
                // The reader has closed the pipe and wants no more.
                Err(_) => return Ok(()),
                Ok(()) => {}
            }
        }
        stores.end()
    }

    fn is_wanted(&self, listed: &ListedObject<'_>, object: &StoredObject) -> bool {
        let is_of_kind = match &object.kind {
            StoredKind::Response { status, is_fresh, .. } => {
                self.status.is_none_or(|wanted| wanted == status.as_u16())
                    && (*is_fresh || !self.fresh)
                    && (!*is_fresh || !self.stale)
            }
            StoredKind::Variants | StoredKind::Parts => {
                self.all && self.status.is_none() && !self.fresh && !self.stale
            }
        };
        is_of_kind
            && self.text.as_ref().is_none_or(|text| object.url.contains(text))
            && self.larger.is_none_or(|least| listed.body_bytes >= least.0)
    }
}

fn line(listed: &ListedObject<'_>, object: &StoredObject) -> String {
    let when = stored(object).map_or_else(|| kind(object).to_owned(), time);
    let status = match &object.kind {
        StoredKind::Response { status, .. } => status.as_str().to_owned(),
        StoredKind::Variants | StoredKind::Parts => "-".into(),
    };
    format!(
        "{when:20} {status:>3} {:>8} {:>14} {}",
        show::size(listed.body_bytes),
        listed.position,
        object.url
    )
}
