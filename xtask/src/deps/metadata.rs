//! The part of `cargo metadata` that the checks read.

use serde::Deserialize;
use std::path::Path;

/// Every package of the resolved tree.
#[derive(Debug)]
pub struct Metadata {
    /// The packages, the workspace's own included.
    pub packages: Vec<Package>,
}

/// One package in one version.
#[derive(Debug)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its folder from the root, when it belongs to the workspace.
    pub folder: Option<String>,
    /// What its manifest names.
    pub dependencies: Vec<Dependency>,
}

/// One line of a manifest's dependencies.
#[derive(Clone, Debug, Deserialize)]
pub struct Dependency {
    /// The package named.
    pub name: String,
    /// `dev`, `build`, or nothing for an ordinary one.
    pub kind: Option<String>,
}

impl Metadata {
    /// Asks cargo, without changing the lock file.
    pub fn read(root: &Path, platform: &str) -> Result<Self, String> {
        let arguments = [
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--all-features",
            "--filter-platform",
            platform,
        ];
        Self::parse(&crate::workspace::cargo_output(root, &arguments)?)
    }

    fn parse(json: &[u8]) -> Result<Self, String> {
        let raw: Raw = serde_json::from_slice(json).map_err(|why| format!("cargo metadata: {why}"))?;
        let folder = |package: &RawPackage| {
            let inside = package.manifest_path.strip_prefix(&raw.workspace_root)?;
            let inside = inside.trim_start_matches('/').strip_suffix("Cargo.toml")?;
            raw.workspace_members.contains(&package.id).then(|| inside.trim_end_matches('/').to_string())
        };
        let packages = raw.packages.iter().map(|package| Package {
            name: package.name.clone(),
            folder: folder(package),
            dependencies: package.dependencies.clone(),
        });
        Ok(Self { packages: packages.collect() })
    }

    /// The workspace's own packages with their folders.
    pub fn members(&self) -> impl Iterator<Item = (&str, &Package)> {
        self.packages.iter().filter_map(|package| Some((package.folder.as_deref()?, package)))
    }
}

#[derive(Deserialize)]
struct Raw {
    packages: Vec<RawPackage>,
    workspace_members: Vec<String>,
    workspace_root: String,
}

#[derive(Deserialize)]
struct RawPackage {
    id: String,
    name: String,
    manifest_path: String,
    dependencies: Vec<Dependency>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_told_from_what_they_depend_on() {
        let json = br#"{"workspace_root": "/p", "workspace_members": ["own"], "packages": [
            {"id": "own", "name": "shoal-core", "version": "0.1.0", "license": "MIT",
             "manifest_path": "/p/crates/core/Cargo.toml", "dependencies": [{"name": "serde", "kind": "dev"}]},
            {"id": "far", "name": "serde", "version": "1.0.0", "license": null,
             "manifest_path": "/elsewhere/serde/Cargo.toml", "dependencies": []}]}"#;
        let metadata = Metadata::parse(json).expect("valid metadata");
        let members: Vec<_> =
            metadata.members().map(|(folder, package)| (folder, package.name.as_str())).collect();
        assert_eq!(members, [("crates/core", "shoal-core")]);
        assert_eq!(metadata.packages.len(), 2);
        assert!(Metadata::parse(b"{}").is_err());
    }
}
