//! The only admission: decides under one reading of the settings whether a client may make a
//! request.
//!
//! A pure function of the settings in force, the client and the request. The ordinary path and the
//! fast path of a hit both call it, so that no path to an answer has its own rules. Addresses of
//! destinations are judged later, when they are known ([`crate::access::ForwardRules::address`]).

use super::settings::ExchangeSettings;
use super::target::{Target, TargetError};
use crate::access::{AccessRefusal, ListenerRules};
use crate::message::Client;
use crate::route::{ClientReport, Heard, Route};
use http::uri::Authority;
use http::{HeaderValue, Method};
use shoal_settings::Mode;
use shoal_wire::RequestParts;
use std::sync::Arc;

/// The parts of a request that the rules examine.
#[derive(Clone, Copy, Debug)]
pub(super) enum AdmissionView<'a> {
    /// A response for a URL: its host in lower case, its port, its path and query.
    Url { host: &'a [u8], port: u16, path: &'a str },
    /// A purge of a URL.
    Purge,
    /// A tunnel to an authority.
    Tunnel(Option<&'a Authority>),
    /// A request that cannot be parsed. The client's own right to ask is checked before the form of
    /// the request.
    Unreadable,
}

/// The permission to proceed.
#[derive(Debug)]
pub(super) struct Grant<'l> {
    /// The authenticated user.
    pub user: Option<String>,
    /// Site that serves the URL, in reverse mode.
    pub site: Option<&'l Arc<Route>>,
}

impl<'a> AdmissionView<'a> {
    /// Returns the wish of the request with this head and `target`.
    pub fn of(head: &'a RequestParts, target: &'a Result<Target, TargetError>) -> Self {
        match target {
            _ if head.method == Method::CONNECT => Self::Tunnel(head.uri.authority()),
            Err(_) => Self::Unreadable,
            Ok(_) if head.method.as_str() == "PURGE" => Self::Purge,
            Ok(target) => {
                Self::Url { host: target.host().as_bytes(), port: target.port, path: target.path() }
            }
        }
    }
}

impl ExchangeSettings {
    /// Returns the mode of the listener that accepted this client's connection. A listener that is
    /// not in the settings serves no client.
    pub(super) fn mode(&self, client: &Client) -> Mode {
        self.listeners.get(client.listener).map_or(Mode::Reverse, |listener| listener.mode)
    }

    /// Returns the client as proxies report it, if its listener trusts `nearest`. `note` names the
    /// fields of the request.
    #[inline]
    pub(super) fn told<'a>(
        &self,
        nearest: &Client,
        note: impl FnOnce(&mut Heard<'a>),
    ) -> Option<ClientReport> {
        told_by(self.listeners.get(nearest.listener)?, nearest, note)
    }

    /// Decides whether `client` may make the request.
    ///
    /// # Errors
    /// The first rule that refuses: of the listener, of credentials, of the request itself.
    #[inline]
    pub(super) fn admit(
        &self,
        client: &Client,
        authorization: Option<&HeaderValue>,
        wanted: AdmissionView<'_>,
    ) -> Result<Grant<'_>, AccessRefusal> {
        let listener = self.listeners.get(client.listener);
        let listener = listener.ok_or_else(|| AccessRefusal::Client(client.address.ip()))?;
        self.admit_by(listener, client, authorization, wanted)
    }

    /// Decides like [`Self::admit`] for a client of this listener.
    ///
    /// # Errors
    /// As for [`Self::admit`].
    #[inline(always)]
    pub(super) fn admit_by(
        &self,
        listener: &ListenerRules,
        client: &Client,
        authorization: Option<&HeaderValue>,
        wanted: AdmissionView<'_>,
    ) -> Result<Grant<'_>, AccessRefusal> {
        let address = client.address.ip();
        listener.client(address)?;
        let user = self.user_of(listener, address, authorization)?;
        let mut site = None;
        match (wanted, listener.mode) {
            (AdmissionView::Url { host, port, .. }, Mode::Forward) => {
                let host = String::from_utf8_lossy(host);
                let is_listed = || self.interception.as_ref().is_some_and(|it| it.covers(&host, port));
                if client.intercepted.is_some() && !is_listed() {
                    return Err(AccessRefusal::Misdirected);
                }
                self.forward.request(&host, port)?;
            }
            (AdmissionView::Url { host, path, .. }, Mode::Reverse) => {
                if client.server_name.as_ref().is_some_and(|name| !name.serves(host)) {
                    return Err(AccessRefusal::Misdirected);
                }
                let found = self.routes.find(host, path);
                let found = found.or_else(|| self.mirrors.at_root(&self.routes, host, path));
                site = Some(found.ok_or(AccessRefusal::Site)?);
            }
            (AdmissionView::Tunnel(_), Mode::Reverse) => return Err(AccessRefusal::Tunnels),
            // A tunnel inside would pass unseen.
            (AdmissionView::Tunnel(_), _) if client.intercepted.is_some() => {
                return Err(AccessRefusal::Tunnels);
            }
            (AdmissionView::Tunnel(Some(authority)), Mode::Forward) => {
                let host = authority.host().to_ascii_lowercase();
                self.forward.tunnel(&host, authority.port_u16().unwrap_or(443))?;
            }
            (AdmissionView::Purge, _) => self.purge.client(address)?,
            (AdmissionView::Tunnel(None) | AdmissionView::Unreadable, _) => {}
        }
        Ok(Grant { user, site })
    }
}

/// Returns the client as proxies report it, if this listener trusts `nearest`.
#[inline]
pub(super) fn told_by<'a>(
    listener: &ListenerRules,
    nearest: &Client,
    note: impl FnOnce(&mut Heard<'a>),
) -> Option<ClientReport> {
    if !listener.trusts(nearest.address.ip()) {
        return None;
    }
    let mut heard = Heard::default();
    note(&mut heard);
    heard.told(nearest, |address| listener.trusts(address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_settings::{Listen, Settings, Site};

    const ADDRESSES: [&str; 3] = ["127.0.0.1", "192.0.2.7", "198.51.100.1"];

    fn client(address: &str, listener: usize) -> Client {
        let local = ([127, 0, 0, 1], 80).into();
        let address = std::net::SocketAddr::new(address.parse().expect("an address"), 4000);
        Client {
            address,
            local,
            listener,
            tls: false,
            server_name: None,
            certificate: None,
            intercepted: None,
        }
    }

    /// Listeners: forward, forward with a list, reverse, reverse with a list.
    fn live() -> ExchangeSettings {
        let mut settings = Settings::default();
        let own = Some(vec!["192.0.2.0/24".parse().expect("a network")]);
        let (forward, reverse) =
            (Listen::forward(([127, 0, 0, 1], 0).into()), Listen::reverse(([127, 0, 0, 1], 0).into()));
        settings.listen = vec![
            forward.clone(),
            Listen { allow_clients: own.clone(), ..forward },
            reverse.clone(),
            Listen { allow_clients: own, ..reverse },
        ];
        settings.site = vec![Site { hosts: vec!["a.test".into()], ..Site::to("http://127.0.0.1:1") }];
        settings.admin.purge_from = vec!["0.0.0.0/0".parse().expect("a network")];
        settings.forward.deny_destinations = vec!["denied.test".into()];
        ExchangeSettings::new(&settings, &[], 1).expect("sound settings")
    }

    #[test]
    fn lists_hold_for_all_that_is_wanted() {
        let live = live();
        let authority = "a.test:443".parse().expect("an authority");
        let wanted = [
            AdmissionView::Url { host: b"a.test", port: 80, path: "/" },
            AdmissionView::Purge,
            AdmissionView::Tunnel(Some(&authority)),
            AdmissionView::Tunnel(None),
            AdmissionView::Unreadable,
        ];
        for (listener, served) in
            [[true, false, false], [false, true, false], [true; 3], [false, true, false], [false; 3]]
                .iter()
                .enumerate()
        {
            for (address, is_served) in ADDRESSES.iter().zip(served) {
                for wanted in wanted {
                    let admitted = live.admit(&client(address, listener), None, wanted);
                    let is_refused = matches!(admitted, Err(AccessRefusal::Client(_)));
                    assert_eq!(
                        is_refused, !is_served,
                        "listener {listener}, {address}, {wanted:?}: {admitted:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn each_wish_has_its_rule() {
        let live = live();
        let url = |host| AdmissionView::Url { host, port: 80, path: "/" };
        fn admitted(
            live: &ExchangeSettings,
            listener: usize,
            wanted: AdmissionView<'_>,
        ) -> Result<bool, AccessRefusal> {
            live.admit(&client("127.0.0.1", listener), None, wanted).map(|grant| grant.site.is_some())
        }
        let tunnel = |listener, text: &str| {
            let authority: Authority = text.parse().expect("an authority");
            admitted(&live, listener, AdmissionView::Tunnel(Some(&authority)))
        };
        assert_eq!(admitted(&live, 0, url(b"denied.test")), Err(AccessRefusal::Denied("denied.test".into())));
        assert_eq!(
            admitted(&live, 0, AdmissionView::Url { host: b"a.test", port: 25, path: "/" }),
            Err(AccessRefusal::RequestPort(25))
        );
        assert_eq!(tunnel(0, "a.test:25"), Err(AccessRefusal::Port(25)));
        assert_eq!(tunnel(0, "Denied.test:443"), Err(AccessRefusal::Denied("denied.test".into())));
        assert_eq!(tunnel(2, "a.test:443"), Err(AccessRefusal::Tunnels));
        assert_eq!(admitted(&live, 2, url(b"b.test")), Err(AccessRefusal::Site));
        assert_eq!(
            [admitted(&live, 0, url(b"b.test")), admitted(&live, 2, url(b"a.test"))],
            [Ok(false), Ok(true)]
        );
    }
}
