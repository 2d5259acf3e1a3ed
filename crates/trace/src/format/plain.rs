//! Formats of one or two words a line.

use crate::record::Record;
use crate::scan::{Reason, bytes};

/// Parses `URL SIZE`.
pub(super) fn url_size(line: &str) -> Result<Record<'_>, Reason> {
    let (url, size) = line.trim().rsplit_once([' ', '\t']).ok_or("there is no size after the URL")?;
    let url = url.trim_end();
    if url.is_empty() || url.contains(char::is_whitespace) {
        return Err("there are more than a URL and a size");
    }
    let bytes = bytes(size)?.ok_or("the size is not a whole number")?;
    Ok(Record { url: url.into(), bytes: Some(bytes), ..Record::default() })
}

/// Parses a name.
pub(super) fn path(line: &str) -> Result<Record<'_>, Reason> {
    let name = line.trim();
    if name.contains(char::is_whitespace) {
        return Err("there is more than a name");
    }
    Ok(Record { url: name.into(), ..Record::default() })
}

/// Parses a page number, alone or after `l` or `s` (load, store).
pub(super) fn page(line: &str) -> Result<Record<'_>, Reason> {
    let line = line.trim();
    let page = match line.as_bytes() {
        [b'l' | b's', b' ', ..] => line[2..].trim_start(),
        _ => line,
    };
    match page.parse::<u64>() {
        Ok(_) => Ok(Record { url: page.into(), ..Record::default() }),
        Err(_) => Err("this is no page number"),
    }
}
