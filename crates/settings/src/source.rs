//! Sources of settings, and the steps from the sources to [`Settings`].

use crate::mistake::{Mistake, Mistakes, position};
use crate::overrides::{FURTHER_MIRRORS, FURTHER_RULES, LISTEN_ADDRESS};
use crate::setting::{Fields, Section as _, Setting};
use crate::tree::{SourceLocation, Table};
use crate::{Listen, Mirror, MirrorKind, Override, Rule, Settings, Site, Store, check};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// All inputs for settings.
pub struct SettingsSource<'a> {
    /// Name of the file in mistakes.
    pub file: &'a str,
    /// Text of the file; empty for the built-in defaults.
    pub text: &'a str,
    /// Settings given outside the file.
    pub overrides: Vec<Override>,
    /// Function that returns the reason why a file named in the settings cannot be read. Called
    /// once a file.
    pub readable: &'a dyn Fn(&Path) -> Result<(), String>,
    /// Names further mistakes of settings that are sound so far, as setting and message.
    pub further: &'a dyn Fn(&Settings) -> Vec<(String, String)>,
}

impl SettingsSource<'_> {
    /// Reads and checks the settings, or returns every mistake, in the order of the file.
    pub fn read(&self) -> Result<Settings, Vec<Mistake>> {
        let mut mistakes = Mistakes::default();
        let mut table = match Table::parse(self.text) {
            Ok(table) => table,
            Err(errors) => {
                for (offset, message) in errors {
                    mistakes.note(&SourceLocation::File { offset }, "", message, None);
                }
                return Err(mistakes.placed(self.file, self.text));
            }
        };
        for entry in &self.overrides {
            entry.apply(&mut table, &mut mistakes);
        }
        let settings = Settings::read_fields(&mut Fields::new(&table, None, "", &mut mistakes));
        let mut settings = settings.expect("every setting at the top has a default");
        settings.normalise(&table);
        check::check(&settings, &table, self.readable, &mut mistakes);
        for (key, message) in (self.further)(&settings) {
            if !mistakes.touches(&key) {
                mistakes.note(&table.locate(&key), &key, message, None);
            }
        }
        if mistakes.is_empty() { Ok(settings) } else { Err(mistakes.placed(self.file, self.text)) }
    }
}

impl Settings {
    /// Parses the text of a file, without overrides, and without a look at the files named there.
    ///
    /// # Errors
    ///
    /// Returns every mistake, in the order of the file. If the text is not TOML, returns only the
    /// errors of the TOML syntax.
    pub fn parse(text: &str, file: &str) -> Result<Self, Vec<Mistake>> {
        SettingsSource { file, text, overrides: Vec::new(), readable: &|_| Ok(()), further: &|_| Vec::new() }
            .read()
    }

    /// Returns the line of a setting such as `site[0].rule[1]` in the text of a file, from 1.
    pub fn line_of(text: &str, key: &str) -> Option<usize> {
        match Table::parse(text).ok()?.find(key)?.place {
            SourceLocation::File { offset } => Some(position(text, offset).0),
            _ => None,
        }
    }

    /// Returns line and column, from 1, of each setting such as `rule[1].paths[0]`. A setting that
    /// the text does not have gives the place of the nearest table or list around it.
    pub fn places_of(text: &str, keys: &[&str]) -> Vec<Option<(usize, usize)>> {
        let table = Table::parse(text).unwrap_or_default();
        let starts: Vec<usize> =
            std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        let place = |key: &&str| {
            let SourceLocation::File { offset } = table.locate(key) else { return None };
            let line = starts.partition_point(|start| *start <= offset);
            let start = starts[line - 1];
            Some((line, position(&text[start..], offset - start).1))
        };
        keys.iter().map(place).collect()
    }

    /// Restores the values of `old` for settings that take effect with the next start. Returns the
    /// names of the changed ones.
    pub fn keep_until_restart(&mut self, old: &Self) -> Vec<String> {
        let mut waiting = Vec::new();
        Setting::keep_until_restart(self, old, "", &mut waiting);
        debug_assert!(waiting.iter().all(|name| !name.is_empty()), "a setting without a name");
        waiting
    }

    /// Adjusts defaults to the given settings, and names to the form in which they are compared.
    fn normalise(&mut self, table: &Table) {
        // `none` means no store, as in `--store none` and `log.access`. A folder of that name is
        // written "./none".
        if self.store.directory.as_os_str() == "none" {
            self.store.directory = PathBuf::new();
        }
        self.store.require_what_was_given(table);
        if !table.holds("store", "object_max") {
            self.store.object_max = self.store.object_max.min(self.store.smallest_disk());
        }
        // A name for the keys of a build cache, at which no server can ever be.
        let build_caches = self.mirror.iter_mut().filter(|mirror| mirror.kind == MirrorKind::BuildCache);
        for mirror in build_caches {
            mirror.upstream = format!("http://{}.invalid", mirror.name()).to_ascii_lowercase();
        }
        let hosts = self.site.iter_mut().flat_map(|site| &mut site.hosts);
        let hosts = hosts.chain(self.mirror.iter_mut().flat_map(|mirror| &mut mirror.hosts));
        let listen = self.listen.iter_mut();
        let certified = listen.flat_map(|listen| &mut listen.acme).flat_map(|entry| &mut entry.names);
        let hosts = hosts.chain(certified);
        let forward = &mut self.forward;
        let destinations =
            forward.deny_destinations.iter_mut().chain(&mut forward.allow_private_destinations);
        for name in hosts.chain(destinations).chain(&mut self.intercept.hosts) {
            name.make_ascii_lowercase();
        }
    }
}

impl Settings {
    /// Returns every site: those of `site`, then one for each mirror.
    pub fn all_sites(&self) -> Vec<Site> {
        self.site.iter().cloned().chain(self.mirror.iter().map(Mirror::site)).collect()
    }
}

impl Store {
    /// Requires the store if an option or a variable names it, even the built-in one.
    fn require_what_was_given(&mut self, table: &Table) {
        let is_given = |name: &&str| {
            table.holds("store", name)
                && matches!(table.locate(&format!("store.{name}")), SourceLocation::Override(_))
        };
        if self.required.is_none() && !self.all_disks().is_empty() {
            self.required = ["directory", "disk", "disks"].iter().any(is_given).then_some(true);
        }
    }
}

impl Override {
    /// Makes a site for every host that fetches from `url`, as in `shoal run --to URL`.
    pub fn site(origin: &str, url: &str) -> Self {
        Self::entries(origin, "site", &vec![Site::to(url)])
    }

    /// A mirror behind those of the file, as `shoal run --mirror KIND=URL` makes it.
    pub fn mirror(origin: &str, mirror: Mirror) -> Self {
        Self::entries(origin, FURTHER_MIRRORS, &vec![mirror])
    }

    /// A general rule behind those of the file, as `shoal run --fresh TIME` makes it.
    pub fn rule(origin: &str, rule: Rule) -> Self {
        Self::entries(origin, FURTHER_RULES, &vec![rule])
    }

    /// Makes the address of the one listener, as in `shoal run --listen ADDRESS`.
    pub fn listen_address(origin: &str, address: SocketAddr) -> Self {
        Self { origin: origin.into(), key: LISTEN_ADDRESS.into(), value: address.to_string() }
    }

    /// Makes the one listener of `shoal run --to URL`. With `reverse` it is a reverse listener,
    /// else a forward one.
    pub fn listen(origin: &str, address: SocketAddr, reverse: bool) -> Self {
        let listen = if reverse { Listen::reverse(address) } else { Listen::forward(address) };
        Self::entries(origin, "listen", &vec![listen])
    }

    /// Makes these listeners the only ones.
    pub fn listeners(origin: &str, listeners: &[Listen]) -> Self {
        Self::entries(origin, "listen", &listeners.to_vec())
    }

    fn entries(origin: &str, key: &str, value: &impl crate::setting::Setting) -> Self {
        Self { origin: origin.into(), key: key.into(), value: value.write().to_string() }
    }
}

#[cfg(test)]
#[path = "source/tests.rs"]
mod tests;
