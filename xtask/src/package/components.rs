//! The crates that the binary is made of: what `shoal` needs to run, down to the last one.

use crate::workspace;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The crates of others in the binary, by name and version.
pub(super) struct Components(pub Vec<Component>);

/// One crate in one version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Component {
    /// Its name in the registry.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its licence as an SPDX expression.
    pub license: String,
    /// SHA-256 of its archive, from `Cargo.lock`.
    pub checksum: String,
    /// Folder of its sources.
    pub folder: PathBuf,
}

impl Components {
    pub(super) fn read(root: &Path) -> Result<Self, String> {
        let arguments = [
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--filter-platform",
            "x86_64-unknown-linux-gnu",
        ];
        let lock =
            std::fs::read_to_string(root.join("Cargo.lock")).map_err(|why| format!("Cargo.lock: {why}"))?;
        Self::parse(&workspace::cargo_output(root, &arguments)?, &lock)
    }

    fn parse(metadata: &[u8], lock: &str) -> Result<Self, String> {
        let metadata: Metadata =
            serde_json::from_slice(metadata).map_err(|why| format!("cargo metadata: {why}"))?;
        let lock: Lock = toml::from_str(lock).map_err(|why| format!("Cargo.lock: {why}"))?;
        let checksums: BTreeMap<(&str, &str), &str> = lock
            .package
            .iter()
            .filter_map(|package| Some(((&*package.name, &*package.version), package.checksum.as_deref()?)))
            .collect();
        let reached = metadata.reached_from("shoal")?;
        let mut components = Vec::new();
        for package in metadata.packages.iter().filter(|package| reached.contains(&*package.id)) {
            // Our own crates have no checksum.
            let Some(checksum) = checksums.get(&(&*package.name, &*package.version)) else { continue };
            let told = |what: &str| format!("package: {} {} has no {what}", package.name, package.version);
            components.push(Component {
                name: package.name.clone(),
                version: package.version.clone(),
                license: package.license.clone().ok_or_else(|| told("licence"))?,
                checksum: (*checksum).to_string(),
                folder: package.manifest_path.parent().ok_or_else(|| told("folder"))?.to_path_buf(),
            });
        }
        components.sort();
        assert!(components.windows(2).all(|pair| pair[0] != pair[1]), "each crate is there once");
        Ok(Self(components))
    }
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

impl Metadata {
    /// Ids of what is linked into `name`: ordinary dependencies, followed down.
    fn reached_from(&self, name: &str) -> Result<BTreeSet<&str>, String> {
        let first = self.packages.iter().find(|package| package.name == name);
        let first = first.ok_or_else(|| format!("package: there is no crate {name}"))?;
        let nodes: BTreeMap<&str, &Node> = self.resolve.nodes.iter().map(|node| (&*node.id, node)).collect();
        let mut reached = BTreeSet::from([&*first.id]);
        let mut open = vec![&*first.id];
        while let Some(id) = open.pop() {
            for dependency in nodes.get(id).into_iter().flat_map(|node| &node.deps) {
                let linked = dependency.dep_kinds.iter().any(|kind| kind.kind.is_none());
                if linked && reached.insert(&dependency.pkg) {
                    open.push(&dependency.pkg);
                }
            }
        }
        Ok(reached)
    }
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    manifest_path: PathBuf,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Needs>,
}

#[derive(Deserialize)]
struct Needs {
    pkg: String,
    dep_kinds: Vec<NeedKind>,
}

#[derive(Deserialize)]
struct NeedKind {
    kind: Option<String>,
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<LockEntry>,
}

#[derive(Deserialize)]
struct LockEntry {
    name: String,
    version: String,
    checksum: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_linked_is_found() {
        let components = Components::read(&workspace::root()).unwrap().0;
        let has = |name: &str| components.iter().any(|component| component.name == name);
        assert!(has("tokio") && has("rustls"));
        // Only tests use it, and ours are not of others.
        assert!(!has("proptest") && !has("shoal-core"));
        assert!(components.iter().all(|component| component.checksum.len() == 64));
    }
}
