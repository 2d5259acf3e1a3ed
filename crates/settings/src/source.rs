//! Where settings come from, and the steps from there to [`Settings`].

use crate::mistake::{Mistake, Mistakes};
use crate::overrides::LISTEN_ADDRESS;
use crate::setting::{Fields, Section as _, Setting};
use crate::tree::{SourceLocation, Table};
use crate::{Listen, Override, Rule, Settings, Site, Store, check};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Everything that settings are made from.
pub struct SettingsSource<'a> {
    /// What the file is called in mistakes.
    pub file: &'a str,
    /// What it says; empty for the built-in defaults.
    pub text: &'a str,
    /// What is set beside it.
    pub overrides: Vec<Override>,
    /// Says why a file that the settings name cannot be read. Called once a file.
    pub readable: &'a dyn Fn(&Path) -> Result<(), String>,
    /// Names further mistakes of settings that are sound so far, as setting and message.
    pub further: &'a dyn Fn(&Settings) -> Vec<(String, String)>,
}

impl SettingsSource<'_> {
    /// Reads and checks the settings, or gives every mistake, in the order of the file.
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
    /// Reads the text of a file, without overrides, and without looking at the files that it names.
    ///
    /// # Errors
    ///
    /// Every mistake, in the order of the file; when it is not TOML, only what keeps it from being
    /// so.
    pub fn parse(text: &str, file: &str) -> Result<Self, Vec<Mistake>> {
        SettingsSource { file, text, overrides: Vec::new(), readable: &|_| Ok(()), further: &|_| Vec::new() }
            .read()
    }

    /// Puts back the values of `old` whose change takes effect with the next start. Returns the
    /// names of those that differed.
    pub fn keep_until_restart(&mut self, old: &Self) -> Vec<String> {
        let mut waiting = Vec::new();
        Setting::keep_until_restart(self, old, "", &mut waiting);
        debug_assert!(waiting.iter().all(|name| !name.is_empty()), "a setting without a name");
        waiting
    }

    /// Brings defaults into line with what was set, and names into the form in which they are
    /// compared.
    fn normalise(&mut self, table: &Table) {
        // As `--store none` and `log.access` have it: a folder of that name is written "./none".
        if self.store.directory.as_os_str() == "none" {
            self.store.directory = PathBuf::new();
        }
        self.store.require_what_was_given(table);
        if !table.holds("store", "object_max") {
            self.store.object_max = self.store.object_max.min(self.store.smallest_disk());
        }
        let hosts = self.site.iter_mut().flat_map(|site| &mut site.hosts);
        let forward = &mut self.forward;
        let destinations =
            forward.deny_destinations.iter_mut().chain(&mut forward.allow_private_destinations);
        for name in hosts.chain(destinations) {
            name.make_ascii_lowercase();
        }
    }
}

impl Store {
    /// Requires the store that an option or a variable names, although it may be the built-in one.
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
    /// A site that takes every host and fetches from `url`, as `shoal run --to URL` serves it.
    pub fn site(origin: &str, url: &str) -> Self {
        Self::entries(origin, "site", &vec![Site::to(url)])
    }

    /// A general rule, as `shoal run --fresh TIME` makes it.
    pub fn rule(origin: &str, rule: Rule) -> Self {
        Self::entries(origin, "rule", &vec![rule])
    }

    /// The address of the one listener, as `shoal run --listen ADDRESS` has it.
    pub fn listen_address(origin: &str, address: SocketAddr) -> Self {
        Self { origin: origin.into(), key: LISTEN_ADDRESS.into(), value: address.to_string() }
    }

    /// The one listener of `shoal run --to URL`: reverse when there is a site, else forward.
    pub fn listen(origin: &str, address: SocketAddr, reverse: bool) -> Self {
        let listen = if reverse { Listen::reverse(address) } else { Listen::forward(address) };
        Self::entries(origin, "listen", &vec![listen])
    }

    fn entries(origin: &str, key: &str, value: &impl crate::setting::Setting) -> Self {
        Self { origin: origin.into(), key: key.into(), value: value.write().to_string() }
    }
}

#[cfg(test)]
#[path = "source/tests.rs"]
mod tests;
