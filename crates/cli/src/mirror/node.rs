//! The mirrors of a running node, or of a settings file, and the stores that hold their objects.

use crate::admin_client::NodeOptions;
use crate::configuration::Configuration;
use crate::failure::Failure;
use shoal_proxy::admin::{MirrorStatus, Status};
use shoal_registries::Mirrors;
use shoal_settings::{Mirror, MirrorKind, Settings};
use shoal_store::inspect::{Inspect, inspect};
use std::path::PathBuf;

/// Asks the node for its status.
pub fn status_of(node: &NodeOptions) -> Result<Status, Failure> {
    let node = node.node()?;
    let answer = node.ask("GET", "/status", "")?;
    match (answer.status, serde_json::from_str(&answer.body)) {
        (200, Ok(status)) => Ok(status),
        _ => Err(Failure::Runtime(format!("{node} answers {}: {}", answer.status, answer.body.trim()))),
    }
}

/// Mirrors, and the stores that may hold their objects.
pub struct MirrorStores {
    pub mirrors: Mirrors,
    pub stores: Vec<Box<dyn Inspect>>,
}

impl MirrorStores {
    /// Takes mirrors and stores from a settings file if one is named, or else from the running
    /// node. `folders` replaces the stores.
    pub fn find(node: &NodeOptions, folders: &[PathBuf]) -> Result<Self, Failure> {
        let (settings, own) = match &node.config {
            Some(file) => {
                let settings = Configuration::find(Some(file.clone())).load()?;
                let disks = settings.store.all_disks().into_iter().map(|disk| disk.path).collect();
                (settings, disks)
            }
            None => {
                let status = status_of(node)?;
                let disks = status.store.iter().flat_map(|store| &store.disks);
                let disks = disks.filter(|disk| disk.is_in_service()).map(|disk| PathBuf::from(&disk.path));
                (settings_of(&status.mirrors), disks.collect())
            }
        };
        if settings.mirror.is_empty() {
            return Err(Failure::Usage("there is no mirror in these settings".into()));
        }
        let folders = if folders.is_empty() { own } else { folders.to_vec() };
        if folders.is_empty() {
            let why = "nothing is on disk: the node has no disk store; name one with --store";
            return Err(Failure::Usage(why.into()));
        }
        let mirrors = Mirrors::new(&settings).map_err(|(_, why)| Failure::Usage(why))?;
        let opened = folders.iter().map(|folder| {
            inspect(folder)
                .map_err(|error| Failure::Runtime(format!("{}: {error}; --store names it", folder.display())))
        });
        Ok(Self { mirrors, stores: opened.collect::<Result<_, _>>()? })
    }

    /// Returns the stores.
    pub fn stores(&self) -> Vec<&dyn Inspect> {
        self.stores.iter().map(|store| &**store).collect()
    }
}

/// Returns settings with these mirrors.
pub fn settings_of(mirrors: &[MirrorStatus]) -> Settings {
    let mirror = |status: &MirrorStatus| {
        let kind = MirrorKind::ALL.iter().find(|kind| kind.name() == status.kind)?;
        Some(Mirror {
            name: Some(status.name.clone()),
            path: Some(format!("{}/", status.path)),
            hosts: status.hosts.clone(),
            file_hosts: status.file_hosts.clone(),
            ..Mirror::of(*kind, &status.upstream)
        })
    };
    debug_assert!(mirrors.iter().all(|status| !status.path.ends_with('/')), "the slash is added");
    Settings { mirror: mirrors.iter().filter_map(mirror).collect(), ..Settings::default() }
}

/// Returns the failure of a store that could not be read.
pub fn failed(error: shoal_store::Error) -> Failure {
    Failure::Runtime(error.to_string())
}
