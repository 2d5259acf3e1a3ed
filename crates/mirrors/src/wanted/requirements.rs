//! pip's requirements: `name==version --hash=sha256:HEX`, and `name @ URL`.
//!
//! Any of the hashes may be that of the file: they are of all the files that may be chosen.

use super::{ListEntry, Wishes};
use crate::{BadDocument, Digest, Kind};

/// Reads the file.
pub(super) fn parse(text: &str) -> Result<Wishes, BadDocument> {
    let mut wishes = Wishes::default();
    let mut whole = String::new();
    for line in text.lines() {
        let line = line.split_once(" #").map_or(line, |(line, _)| line).trim();
        if whole.len() + line.len() > REQUIREMENT_MAX {
            return Err(BadDocument { at: 0, why: "a longer requirement than 1 MiB" });
        }
        match line.strip_suffix('\\') {
            Some(part) => {
                whole.push_str(part);
                whole.push(' ');
            }
            None => {
                whole.push_str(line);
                requirement(&mut wishes, whole.trim())?;
                whole.clear();
            }
        }
    }
    requirement(&mut wishes, whole.trim())?;
    Ok(wishes)
}

fn requirement(wishes: &mut Wishes, text: &str) -> Result<(), BadDocument> {
    let is_other_file = ["-r", "--requirement", "-c", "--constraint", "-e", "--editable"];
    match text.split_ascii_whitespace().next() {
        None => return Ok(()),
        Some(first) if first.starts_with('#') => return Ok(()),
        Some(first) if is_other_file.iter().any(|option| first.starts_with(option)) => {
            return wishes.leave_out(text, "name the file itself");
        }
        Some(first) if first.starts_with('-') => return Ok(()),
        Some(_) => {}
    }
    let hashes = text.split_ascii_whitespace().filter_map(|word| word.strip_prefix("--hash="));
    let digests: Vec<Digest> = hashes.filter_map(Digest::from_named_hex).collect();
    let plain = text.split("--hash=").next().unwrap_or_default();
    if let Some((name, url)) = plain.split_once(" @ ") {
        return at_url(wishes, name.trim(), url.trim(), digests);
    }
    let plain = plain.split(';').next().unwrap_or_default();
    let Some((name, version)) = plain.split_once("==") else {
        return wishes.leave_out(plain.trim(), "no exact version");
    };
    let name = name.split('[').next().unwrap_or_default().trim();
    let version = version.trim_start_matches('=').trim();
    if version.contains(['*', ',', ' ']) || name.is_empty() {
        return wishes.leave_out(plain.trim(), "no exact version");
    }
    wishes.want(ListEntry::of(Kind::Pypi, name, version).checked(digests))
}

fn at_url(wishes: &mut Wishes, name: &str, url: &str, digests: Vec<Digest>) -> Result<(), BadDocument> {
    let url = url.split_ascii_whitespace().next().unwrap_or_default();
    if !(url.starts_with("https://") || url.starts_with("http://")) {
        return wishes.leave_out(name, "it comes from no index");
    }
    let (url, fragment) = url.split_once('#').unwrap_or((url, ""));
    let of_fragment = fragment.split('&').find_map(Digest::from_named_hex);
    let wanted = ListEntry { url: Some(url.to_owned()), ..ListEntry::of(Kind::Pypi, name, "") };
    wishes.want(wanted.checked(digests.into_iter().chain(of_fragment).collect()))
}

/// Longest requirement with its hashes, in bytes.
const REQUIREMENT_MAX: usize = 1 << 20;
