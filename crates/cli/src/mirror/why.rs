//! `shoal mirror why`: a package, a file or a URL at the mirrors of a running node, with reasons.

use super::node::{settings_of, status_of};
use crate::admin_client::NodeOptions;
use crate::explain::{by_node, page};
use crate::failure::Failure;
use crate::show::print;
use shoal_proxy::admin::{ExplainRequest, Explanation};
use shoal_registries::{MirrorRoute, Mirrors};
use std::collections::BTreeSet;

/// Explain a mirror's handling of a package, a file or a URL
///
/// NAME is a package (`left-pad`, `@scope/name`, `group:artifact`, a module's path), a path at the
/// node, or a URL of the node or of a registry. Of a package, the index document of each mirror is
/// explained. The running node tells the mirror, the key, the rules by name and age, the promise of
/// stored indexes, and the stored response. It compares a stored file with its promise.
/// Nothing is fetched or changed.
#[derive(clap::Args)]
pub struct MirrorWhyOptions {
    /// Package, path or URL
    name: String,
    /// Ask this mirror alone
    #[arg(long, value_name = "MIRROR")]
    mirror: Option<String>,
    #[command(flatten)]
    node: NodeOptions,
    /// Print JSON: a list of explanations; their names are stable
    #[arg(long)]
    json: bool,
}

impl MirrorWhyOptions {
    pub fn perform(self) -> Result<(), Failure> {
        let status = status_of(&self.node)?;
        let settings = settings_of(&status.mirrors);
        let mirrors = Mirrors::new(&settings).map_err(|(_, why)| Failure::Runtime(why))?;
        let node = self.node.node()?;
        let mut found: Vec<Explanation> = Vec::new();
        for url in urls(&mirrors, &self.name) {
            let request = ExplainRequest { url, mode: Some("reverse".into()), ..ExplainRequest::default() };
            let explanation = by_node(&node, &request)?;
            let is_wanted = explanation
                .mirror
                .as_ref()
                .is_some_and(|mirror| self.mirror.as_ref().is_none_or(|name| *name == mirror.name));
            if is_wanted {
                found.push(explanation);
            }
        }
        if found.is_empty() {
            let name = &self.name;
            return Err(Failure::Runtime(format!(
                "no mirror answers for {name:?}: it is no package that a mirror could have, and no path or URL of one"
            )));
        }
        match self.json {
            true => {
                let text = serde_json::to_string_pretty(&found);
                print(&format!("{}\n", text.map_err(|error| Failure::Runtime(error.to_string()))?))
            }
            false => print(&found.iter().map(page).collect::<Vec<_>>().join("\n")),
        }
    }
}

/// Returns the URLs at the node that a name may mean, each once.
fn urls(mirrors: &Mirrors, name: &str) -> BTreeSet<String> {
    if name.contains("://") {
        let own = mirrors.of_object(name).map(|(mirror, below)| url(mirror, &below));
        return [own.unwrap_or_else(|| name.to_owned())].into();
    }
    if name.starts_with('/') {
        let hosts = mirrors.all().iter().map(|mirror| host(mirror));
        return hosts.map(|host| format!("http://{host}{name}")).collect();
    }
    let below = |mirror: &MirrorRoute| mirror.registry.path_of_package(name);
    mirrors.all().iter().filter_map(|mirror| Some(url(mirror, &below(mirror)?))).collect()
}

/// Returns the URL at the node of a path below a mirror.
fn url(mirror: &MirrorRoute, below: &str) -> String {
    debug_assert!(below.starts_with('/'), "a path below the mirror");
    format!("http://{}{}{below}", host(mirror), mirror.path)
}

/// Returns a host under which a mirror is served.
fn host(mirror: &MirrorRoute) -> String {
    let named = mirror.settings.hosts.iter().find(|host| !host.contains('*'));
    let suffix = || mirror.settings.hosts.iter().find_map(|host| host.strip_prefix("*."));
    match (named, suffix()) {
        (Some(host), _) => host.clone(),
        (None, Some(suffix)) => format!("any.{suffix}"),
        (None, None) => "localhost".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_settings::{Mirror, MirrorKind, Settings};

    #[test]
    fn names_lead_to_their_mirrors() {
        let own = Mirror {
            name: Some("own".into()),
            hosts: vec!["npm.test".into()],
            path: Some("/".into()),
            ..Mirror::of(MirrorKind::Npm, "https://own.example/base")
        };
        let mirror = vec![
            Mirror::of(MirrorKind::Npm, "https://npm.example"),
            own,
            Mirror::of(MirrorKind::Pypi, "https://index.example/simple"),
            Mirror::of(MirrorKind::Maven, "https://repo.example"),
        ];
        let mirrors = Mirrors::new(&Settings { mirror, ..Settings::default() }).map_err(|(_, why)| why);
        let mirrors = mirrors.expect("sound");
        for (name, wanted) in [
            ("@s/b", &["http://localhost/npm/@s%2fb", "http://npm.test/@s%2fb"][..]),
            ("org.a:b", &["http://localhost/maven/org/a/b/maven-metadata.xml"]),
            ("https://own.example/base/a/-/a-1.tgz", &["http://npm.test/a/-/a-1.tgz"]),
            (
                "https://files.example/p/a-1.0.tar.gz",
                &["http://localhost/pypi/files/files.example/p/a-1.0.tar.gz"],
            ),
            ("http://cache.test:8080/npm/a", &["http://cache.test:8080/npm/a"]),
            ("/npm/a", &["http://localhost/npm/a", "http://npm.test/npm/a"]),
        ] {
            let found = urls(&mirrors, name);
            assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), wanted, "{name}");
        }
    }
}
