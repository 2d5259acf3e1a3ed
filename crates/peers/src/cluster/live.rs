//! Membership of this node at work: started from the settings, and tied to the handle.

use super::{ClusterHandle, peer_address};
use shoal_cluster::keys::KeyFile;
use shoal_cluster::{Cluster, ClusterError, ClusterOptions};
use shoal_cooperation::{LEVEL_MAX, MemberState};
use shoal_settings::Settings;
use std::net::UdpSocket;
use std::sync::Arc;

/// Parts of the membership that a process gets from the one before.
#[derive(Default)]
pub struct ClusterInheritance {
    /// Socket for datagrams.
    pub socket: Option<UdpSocket>,
    /// Addresses of members, to ask for the others.
    pub members: Vec<String>,
}

/// Starts the membership of a node in a cluster. The handle gets its views, its service and the
/// certificates.
///
/// # Errors
/// If the key file or the settings cannot be used, or the address for peers cannot be had.
pub fn start_cluster(
    settings: &Settings,
    handle: &Arc<ClusterHandle>,
    inherited: ClusterInheritance,
) -> Result<Cluster, ClusterError> {
    let section = &settings.cluster;
    let options = ClusterOptions {
        cluster: section.name.clone(),
        node: section.node.clone(),
        peer: peer_address(settings).unwrap_or(handle.address()),
        join: section.join.iter().cloned().chain(inherited.members).collect(),
        key_file: section.key_file.clone(),
        weight: weight(settings),
        level: level(settings),
        state: MemberState::In,
    };
    let cluster = Cluster::start_on(options, handle.calls(), inherited.socket)?;
    handle.services().add("members/", cluster.service());
    secure(handle, &cluster);
    handle.on_other_view(cluster.exchanger());
    let told = Arc::downgrade(handle);
    cluster.on_change(move |view| {
        if let Some(handle) = told.upgrade() {
            handle.set_view(view);
        }
    });
    Ok(cluster)
}

/// Puts the seeds and the keys of new settings in force.
pub fn reload_cluster(settings: &Settings, handle: &ClusterHandle, cluster: &Cluster) {
    cluster.set_join(settings.cluster.join.clone());
    cluster.set_level(level(settings));
    match cluster.reload_keys(settings.cluster.key_file.as_deref()) {
        Ok(()) => secure(handle, cluster),
        Err(error) => tracing::error!("{error}; the keys of before stay at work"),
    }
}

/// Reads the keys that settings name, and puts nothing in force.
///
/// # Errors
/// If the key file cannot be used.
pub fn check_keys(settings: &Settings) -> Result<(), ClusterError> {
    match &settings.cluster.key_file {
        Some(path) if !settings.cluster.name.is_empty() => KeyFile::read(path).map(drop),
        _ => Ok(()),
    }
}

/// Reads the keys of new settings for a node that runs with `before`, and puts nothing in force.
///
/// # Errors
/// If the key file cannot be used, or if there is none any more: the messages of a running node
/// never lose their seal.
pub fn check_reloaded_keys(before: &Settings, new: &Settings) -> Result<(), ClusterError> {
    if before.cluster.key_file.is_some() && new.cluster.key_file.is_none() {
        let why = "cluster.key_file is gone; a running node keeps its seal, so restart it to run without one";
        return Err(ClusterError::Options(why.into()));
    }
    check_keys(new)
}

fn secure(handle: &ClusterHandle, cluster: &Cluster) {
    if let Some(tls) = cluster.tls() {
        handle.door().secure(tls.server, tls.client);
    }
}

/// Returns the level of this node in a hierarchy.
pub fn level(settings: &Settings) -> u8 {
    u8::try_from(settings.cluster.level).map_or(LEVEL_MAX, |level| level.min(LEVEL_MAX))
}

/// Returns the share of the keys: the setting, or the GiB of RAM and disk.
fn weight(settings: &Settings) -> f64 {
    let disk = if settings.store.directory.as_os_str().is_empty() { 0 } else { settings.store.disk.0 };
    let disks: u64 = settings.store.disks.iter().map(|disk| disk.bytes.0).sum();
    let bytes = settings.cache.ram.0 + if settings.store.disks.is_empty() { disk } else { disks };
    settings.cluster.weight.unwrap_or(bytes as f64 / f64::from(1 << 30))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reload_never_takes_the_key_away() {
        let mut sealed = Settings::default();
        sealed.cluster.key_file = Some("/etc/shoal/cluster.keys".into());
        let open = Settings::default();
        let refusal = check_reloaded_keys(&sealed, &open).expect_err("the seal would be lost").to_string();
        assert!(refusal.contains("cluster.key_file") && refusal.contains("restart"), "{refusal}");
        assert!(check_reloaded_keys(&open, &open).is_ok() && check_reloaded_keys(&open, &sealed).is_ok());
    }
}
