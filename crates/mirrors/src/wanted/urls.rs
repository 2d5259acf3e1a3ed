//! A list of URLs, one a line; comments begin with `#`.

use super::{ListEntry, Wishes};
use crate::BadDocument;

/// Reads the list.
pub(super) fn parse(text: &str) -> Result<Wishes, BadDocument> {
    let mut wishes = Wishes::default();
    for line in text.lines() {
        let Some(word) = line.split_ascii_whitespace().next().filter(|word| !word.starts_with('#')) else {
            continue;
        };
        match word.starts_with("http://") || word.starts_with("https://") {
            true => {
                let url = word.split('#').next().unwrap_or_default().to_owned();
                wishes.want(ListEntry { url: Some(url), ..ListEntry::default() })?;
            }
            false => wishes.leave_out(word, "it is no URL over http or https")?,
        }
    }
    Ok(wishes)
}
