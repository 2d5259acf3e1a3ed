//! Settings given outside the file: environment variables and command line options.
//!
//! `SHOAL_CACHE__RAM=512MB` sets `cache.ram`. Texts have no quotes. Lists are TOML or have commas
//! between their items: `SHOAL_FORWARD__CONNECT_PORTS=443,8443`.

use crate::mistake::{Mistakes, closest};
use crate::outline::{kind_of, paths};
use crate::setting::{Setting as _, SettingKind};
use crate::tree::{Node, SourceLocation, Table, Value};
use crate::{Mirror, Mode, Rule};
use ipnet::IpNet;
use std::rc::Rc;

/// One setting given outside the file. Later overrides win over earlier ones, and all win over the
/// file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// Variable or option, for mistakes: `SHOAL_CACHE__RAM`, `--ram`.
    pub origin: String,
    /// Key of the setting: `cache.ram`.
    pub key: String,
    /// Value, spelled as in a variable.
    pub value: String,
}

impl Override {
    /// Returns the overrides among environment variables: those with names that begin with
    /// `SHOAL_`.
    ///
    /// Excluded are `SHOAL_CONFIG`, which names the file, the variables by which commands find a
    /// node (`SHOAL_ADMIN_URL` and others), and variables of container schedulers.
    /// Schedulers set such variables for services with names that begin with shoal
    /// (`SHOAL_SERVICE_HOST`, `SHOAL_ADMIN_PORT_3129_TCP`, …).
    pub fn from_environment(variables: impl IntoIterator<Item = (String, String)>) -> Vec<Self> {
        let mut overrides: Vec<Self> = variables
            .into_iter()
            .filter_map(|(name, value)| {
                let rest = name.strip_prefix("SHOAL_").filter(|rest| !is_foreign(rest, &value))?;
                let key = rest.split("__").map(str::to_lowercase).collect::<Vec<_>>().join(".");
                Some(Self { origin: name, key, value })
            })
            .collect();
        // The environment has no order; mistakes need one.
        overrides.sort_by(|a, b| a.origin.cmp(&b.origin));
        assert!(overrides.iter().all(|one| one.origin.starts_with("SHOAL_")), "none of another program");
        overrides
    }

    /// Returns the override of `--allow-clients`: the client networks that every listener serves,
    /// in either mode. This override comes after those that name listeners.
    pub fn clients(origin: &str, networks: &[String]) -> Self {
        Self { origin: origin.into(), key: EVERY_LISTENER.into(), value: networks.join(",") }
    }

    /// Puts the value into its place in `table`.
    pub(crate) fn apply(&self, table: &mut Table, mistakes: &mut Mistakes) {
        let place = SourceLocation::Override(Rc::from(self.origin.as_str()));
        if self.key == EVERY_LISTENER {
            return self.apply_to_listeners(table, &place);
        }
        if self.key == FURTHER_RULES {
            return self.add_entries("rule", &Vec::<Rule>::kind(), table, &place);
        }
        if self.key == FURTHER_MIRRORS {
            return self.add_entries("mirror", &Vec::<Mirror>::kind(), table, &place);
        }
        if self.key == LISTEN_ADDRESS {
            return self.apply_address(&place, table, mistakes);
        }
        let path: Vec<&str> = self.key.split('.').collect();
        let Some(kind) = kind_of(&path) else {
            let hint = hint_for(&self.origin, &self.key);
            return mistakes.note(&place, &self.key, "no such setting", hint);
        };
        if matches!(kind, SettingKind::Section { .. }) {
            let hint = match self.origin.starts_with("SHOAL_") {
                true => format!("name one of its settings: {}__…", self.origin),
                false => format!("name one of its settings: {}.…", self.key),
            };
            return mistakes.note(&place, &self.key, "a section, not a setting", Some(hint));
        }
        let node = node(&self.value, &kind, &place);
        let (last, sections) = path.split_last().expect("a split text has a part");
        let table = sections.iter().fold(table, |table, section| table.table_mut(section, &place));
        table.set(last, node);
        debug_assert!(table.value(last).is_some_and(|node| node.place == place), "the override is in force");
    }

    /// Sets `allow_clients` of each listener. For listeners in forward mode without networks of
    /// their own, sets `forward.allow_clients`.
    fn apply_to_listeners(&self, table: &mut Table, place: &SourceLocation) {
        let networks = node(&self.value, &Vec::<IpNet>::kind(), place);
        let (mut listeners, mut by_default) = (0, 0);
        for listen in table.tables_mut("listen") {
            listeners += 1;
            let text = |name: &str| match listen.value(name).map(|node| &node.value) {
                Some(Value::Text(text)) => Some(text.as_str()),
                Some(_) => None,
                None => Some("none"),
            };
            let has_none = text("allow_clients").is_some_and(|list| list.is_empty() || list == "none");
            if has_none && text("mode") == Some(Mode::Forward.name()) {
                by_default += 1;
            } else {
                listen.set("allow_clients", networks.clone());
            }
        }
        debug_assert!(by_default <= listeners, "a listener by default is a listener");
        if listeners == 0 || by_default > 0 {
            table.table_mut("forward", place).set("allow_clients", networks);
        }
    }

    /// Adds entries behind those of the file.
    fn add_entries(&self, key: &str, kind: &SettingKind, table: &mut Table, place: &SourceLocation) {
        let list = |node: Option<&Node>| match node.map(|node| &node.value) {
            Some(Value::List(entries)) => entries.clone(),
            _ => Vec::new(),
        };
        let further = node(&self.value, kind, place);
        let entries = [list(table.value(key)), list(Some(&further))].concat();
        table.set(key, Node { place: place.clone(), value: Value::List(entries) });
    }

    /// Sets the address of the one listener. If the file has no listener, makes a reverse one if
    /// there is a site, else a forward one.
    fn apply_address(&self, place: &SourceLocation, table: &mut Table, mistakes: &mut Mistakes) {
        let text = |text: &str| Node { place: place.clone(), value: Value::Text(text.into()) };
        let has_sites = table.value("site").is_some() || table.value("mirror").is_some();
        let listeners = match table.value("listen").map(|node| &node.value) {
            Some(Value::List(listeners)) => listeners.clone(),
            _ => Vec::new(),
        };
        let mut listener = match &listeners[..] {
            [] => {
                let mut made = Table::default();
                let mode = if has_sites { Mode::Reverse } else { Mode::Forward };
                made.set("mode", text(mode.name()));
                made
            }
            [Node { value: Value::Table(listener), .. }] => listener.clone(),
            [_] => return mistakes.note(place, "listen", "the file's listener is no table", None),
            several => {
                let message =
                    format!("the file has {} listeners, and this does not say which", several.len());
                let hint =
                    "edit their addresses, or give all of them: --set 'listen=[{ address = …, mode = … }]'";
                return mistakes.note(place, "listen", message, Some(hint.into()));
            }
        };
        listener.set("address", text(&self.value));
        let listener = Node { place: place.clone(), value: Value::Table(listener) };
        table.set("listen", Node { place: place.clone(), value: Value::List(vec![listener]) });
    }
}

/// Ends of the variables by which commands find a node; they set nothing of the node.
const OF_COMMANDS: [&str; 4] = ["ADMIN_URL", "ADMIN_CA", "ADMIN_USER", "ADMIN_PASSWORD_FILE"];

/// Key of the override that adds rules to those of the file.
pub(crate) const FURTHER_RULES: &str = "rule[+]";

/// Key of the override that adds mirrors to those of the file.
pub(crate) const FURTHER_MIRRORS: &str = "mirror[+]";

/// Key of the override for the address of the one listener. No variable has this key.
pub(crate) const LISTEN_ADDRESS: &str = "listen[].address";

/// Key of the override for every listener.
const EVERY_LISTENER: &str = "listen[*].allow_clients";

/// Returns `true` if `SHOAL_` and `rest` name no setting of ours: see
/// [`Override::from_environment`].
fn is_foreign(rest: &str, value: &str) -> bool {
    // Variables of a service called shoal, or shoal-admin.
    let of_service =
        |what: &str| rest.strip_prefix(what).or(rest.split_once(&format!("_{what}")).map(|(_, end)| end));
    let is_port =
        |end: &str| end.starts_with('_') || end.is_empty() && (rest == "PORT" || value.contains("://"));
    rest == "CONFIG"
        || OF_COMMANDS.contains(&rest)
        || of_service("SERVICE_HOST") == Some("")
        || of_service("SERVICE_PORT").is_some()
        || of_service("PORT").is_some_and(is_port)
}

/// Returns the value that `text` spells for a setting of this kind. A text of another kind is
/// returned as text, so that the setting itself refuses it.
fn node(text: &str, kind: &SettingKind, place: &SourceLocation) -> Node {
    let as_text = |text: &str| Node { place: place.clone(), value: Value::Text(text.into()) };
    match kind {
        SettingKind::Text(_) | SettingKind::Choice(_) => as_text(text),
        SettingKind::Bare(_) | SettingKind::Section { .. } => {
            Node::parse(text.trim(), place).unwrap_or_else(|| as_text(text))
        }
        SettingKind::List(_) if text.trim_start().starts_with('[') => {
            Node::parse(text.trim(), place).unwrap_or_else(|| as_text(text))
        }
        SettingKind::List(inner) => {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            let items = items.map(|item| node(item, inner, place)).collect();
            Node { place: place.clone(), value: Value::List(items) }
        }
    }
}

fn hint_for(origin: &str, key: &str) -> Option<String> {
    let known = paths();
    let meant = closest(key, known.iter().map(String::as_str))?;
    let shown = match origin.starts_with("SHOAL_") {
        true => format!("SHOAL_{}", meant.replace('.', "__").to_uppercase()),
        false => meant.to_owned(),
    };
    Some(format!("did you mean `{shown}`?"))
}
