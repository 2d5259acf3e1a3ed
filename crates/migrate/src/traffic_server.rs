//! Traffic Server: `remap.config`, with `records`, `cache`, `storage`, `ip_allow`, `parent` and
//! `ssl_multicert` beside it.
//!
//! Traffic Server stores only answers with an explicit lifetime (`required_headers` 2). It heeds no
//! reload of clients, and serves stale answers for a week while the origin fails. The settings say
//! so.

use crate::document::{Document, Section};
use crate::ledger::{Ledger, LineId};
use crate::traffic_records::Records;
use crate::{
    Error, Files, SourceText, TEXT_BYTES_MAX, traffic_access, traffic_cache, traffic_records, traffic_remap,
};

/// A line of a `.config` file.
#[derive(Clone, Debug)]
pub struct ConfigLine {
    /// Words.
    pub words: Vec<String>,
    /// Statement.
    pub id: LineId,
}

impl ConfigLine {
    /// Returns the value of `name=value`, without quotes.
    pub fn value(&self, name: &str) -> Option<&str> {
        let is_it = |word: &&String| {
            word.len() > name.len() && word.starts_with(name) && word[name.len()..].starts_with('=')
        };
        self.words.iter().find(is_it).map(|word| word[name.len() + 1..].trim_matches('"'))
    }
}

/// Converts a Traffic Server configuration.
pub fn convert(
    file: SourceText,
    files: &dyn Files,
    ledger: &mut Ledger,
    document: &mut Document,
) -> Result<(), Error> {
    let name = file.name.clone();
    let is_records = name.contains("records");
    let beside = |names: &[&str]| -> Result<Option<SourceText>, Error> {
        for other in names {
            if *other == name {
                return Ok(Some(file.clone()));
            }
            // A file that is not there says nothing.
            if let Some(found) = files.read(other).ok().and_then(|found| found.into_iter().next()) {
                return match found.text.len() > TEXT_BYTES_MAX {
                    true => Err(Error::Limit(format!("{other} has more than {TEXT_BYTES_MAX} bytes"))),
                    false => Ok(Some(found)),
                };
            }
        }
        Ok(None)
    };
    let remap = if is_records { beside(&["remap.config"])? } else { Some(file.clone()) };
    let records = beside(&["records.yaml", "records.config"])?;
    let cache = beside(&["cache.config"])?;
    let access = beside(&["ip_allow.yaml", "ip_allow.config"])?;
    let storage = beside(&["storage.config"])?;
    let parents = beside(&["parent.config"])?;
    let certificates = beside(&["ssl_multicert.config"])?;
    let records = match records {
        Some(file) => Records::read(&file, ledger)?,
        None => Records::default(),
    };
    let lines = lines(remap.as_ref(), ledger)?;
    let is_forward = lines.is_empty() && records.number("proxy.config.url_remap.remap_required") == Some(0);
    let multicert = self::lines(certificates.as_ref(), ledger)?;
    traffic_records::listeners(&records, &multicert, files, ledger, document, is_forward);
    let allowed = match &access {
        Some(file) => Some(traffic_access::read(file, ledger, document)?),
        None => None,
    };
    traffic_records::base(&records, ledger, document);
    traffic_remap::sites(&lines, &records, ledger, document);
    let cache = self::lines(cache.as_ref(), ledger)?;
    let may_pin = records.number("proxy.config.cache.permit.pinning") == Some(1);
    traffic_cache::rules(&cache, &lines, may_pin, ledger, document);
    let storage = self::lines(storage.as_ref(), ledger)?;
    traffic_records::storage(&storage, ledger, document);
    for line in self::lines(parents.as_ref(), ledger)? {
        ledger.left_out(line.id, "Shoal asks origins itself, not through parents");
    }
    match allowed {
        Some(nets) => traffic_access::write(&nets, document, is_forward),
        None if !is_forward => traffic_access::stock(document),
        None => {}
    }
    if document.sites.is_empty() && !is_forward {
        return Err(Error::Nothing(format!("{name}: no map leads to an origin that Shoal could ask")));
    }
    document.tables.retain(|(_, section)| !section.entries.is_empty());
    Ok(())
}

/// Splits a file into lines of words; `\` at the end continues a line, quotes keep blanks.
pub fn lines(file: Option<&SourceText>, ledger: &mut Ledger) -> Result<Vec<ConfigLine>, Error> {
    let mut found = Vec::new();
    let Some(file) = file else { return Ok(found) };
    let (mut text, mut start) = (String::new(), 1);
    for (at, part) in file.text.lines().chain([""]).enumerate() {
        if text.is_empty() {
            start = at + 1;
        }
        if part.trim_start().starts_with('#') {
            continue;
        }
        if let Some(part) = part.strip_suffix('\\') {
            text.push_str(part);
            text.push(' ');
            continue;
        }
        text.push_str(part);
        let whole = std::mem::take(&mut text);
        let words = words(&whole);
        if !words.is_empty() {
            let id = ledger.add(&file.name, start, &whole)?;
            found.push(ConfigLine { words, id });
        }
    }
    Ok(found)
}

fn words(text: &str) -> Vec<String> {
    let (mut found, mut word, mut quote) = (Vec::new(), String::new(), None);
    for c in text.chars() {
        match (c, quote) {
            ('#', None) if word.is_empty() => break,
            ('"' | '\'', None) => {
                quote = Some(c);
                word.push('"');
            }
            (c, Some(open)) if c == open => {
                quote = None;
                word.push('"');
            }
            (c, None) if c.is_whitespace() => {
                if !word.is_empty() {
                    found.push(std::mem::take(&mut word));
                }
            }
            (c, _) => word.push(c),
        }
    }
    if !word.is_empty() {
        found.push(word);
    }
    found
}

/// Makes a rule that comes from a line.
pub fn rule(line: &ConfigLine) -> Section {
    Section::of(&[line.id])
}
