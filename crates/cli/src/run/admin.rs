//! The admin listener of a node, and the listener for scrapers beside it.

use super::node::RunningNode;
use crate::failure::Failure;
use shoal_handover::{InheritedSockets, SocketName};
use shoal_proxy::admin::{AdminAccess, AdminListener, BoundAdmin};
use shoal_settings::{Admin, AdminAddress, Settings};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// Listeners that answer.
#[derive(Default)]
pub(super) struct AdminListeners {
    admin: Option<AdminListener>,
    metrics: Option<AdminListener>,
}

/// Listeners that do not answer yet.
pub(super) struct BoundListeners {
    admin: Option<BoundAdmin>,
    metrics: Option<BoundAdmin>,
}

impl BoundListeners {
    /// Binds the listeners of the settings, or takes them from another process.
    pub fn bind(settings: &Settings, sockets: &mut InheritedSockets) -> Result<Self, Failure> {
        let admin = bind_admin(settings, sockets)?;
        let bind = |address| {
            BoundAdmin::take_or_bind(address, sockets).map_err(|error| {
                Failure::Runtime(format!("cannot listen for scrapers of metrics at {address}: {error}"))
            })
        };
        Ok(Self { admin, metrics: settings.admin.metrics.as_ref().map(bind).transpose()? })
    }

    /// Returns the bound address of the admin listener.
    pub fn address(&self) -> Option<&AdminAddress> {
        self.admin.as_ref().map(BoundAdmin::address)
    }

    /// Answers from now on.
    pub fn start(self, running: &Arc<RunningNode>, settings: &Admin) -> Result<AdminListeners, Failure> {
        let access = AdminAccess::new(settings).map_err(Failure::Usage)?;
        let failed = |error| Failure::Runtime(format!("cannot start the admin listener: {error}"));
        let of_metrics = AdminAccess::of_metrics(settings);
        let admin = self.admin.map(|bound| bound.start(running.clone(), access));
        let metrics = self.metrics.map(|bound| bound.start(running.clone(), of_metrics));
        Ok(AdminListeners {
            admin: admin.transpose().map_err(failed)?,
            metrics: metrics.transpose().map_err(failed)?,
        })
    }
}

impl AdminListeners {
    /// Returns the bound address of the admin listener.
    pub fn address(&self) -> Option<&AdminAddress> {
        self.admin.as_ref().map(AdminListener::address)
    }

    /// Returns handles of the sockets with their names, for another process.
    pub fn offers(&self) -> io::Result<Vec<(SocketName, OwnedFd)>> {
        self.all().map(AdminListener::offer).collect()
    }

    /// Accepts no connection and begins no change until [`Self::resume`]. Returns `false` if
    /// changes last longer than `limit`; nothing is paused then.
    pub fn pause(&self, limit: Duration) -> bool {
        if !self.admin.as_ref().is_none_or(|admin| admin.pause(limit)) {
            return false;
        }
        // It has no changes to wait for.
        self.metrics.as_ref().is_none_or(|metrics| metrics.pause(limit))
    }

    /// Goes on after [`Self::pause`].
    pub fn resume(&self) {
        self.all().for_each(AdminListener::resume);
    }

    /// Leaves the sockets to another process.
    pub fn leave(&self) {
        self.all().for_each(AdminListener::leave);
    }

    /// Takes over the files of Unix sockets.
    pub fn own(&self) {
        self.all().for_each(AdminListener::own);
    }

    fn all(&self) -> impl Iterator<Item = &AdminListener> {
        self.admin.iter().chain(&self.metrics)
    }
}

/// Binds the admin listener. If the address is the default and another node uses it, the listener
/// takes a free port. Two nodes can then be tried on one machine.
fn bind_admin(settings: &Settings, sockets: &mut InheritedSockets) -> Result<Option<BoundAdmin>, Failure> {
    let Some(address) = &settings.admin.listen else { return Ok(None) };
    let mut result = BoundAdmin::take_or_bind(address, sockets);
    let in_use = matches!(&result, Err(error) if error.kind() == std::io::ErrorKind::AddrInUse);
    if in_use && settings.admin.listen == shoal_settings::Admin::default().listen {
        tracing::warn!(%address, "the default admin address is taken; using a free port");
        result = BoundAdmin::take_or_bind(&AdminAddress::Tcp(([127, 0, 0, 1], 0).into()), sockets);
    }
    let bound = result.map_err(|error| {
        Failure::Runtime(format!("cannot listen for administration at {address}: {error}"))
    })?;
    if let AdminAddress::Tcp(address) = bound.address()
        && !address.ip().is_loopback()
        && settings.admin.users.is_empty()
    {
        tracing::warn!(%address, "whoever reaches the admin listener may purge and reload");
    }
    Ok(Some(bound))
}
