//! The clients that a listener serves: one list of networks for each listener, in every mode.

use super::{AccessError, AccessRefusal, Users, challenge};
use http::HeaderValue;
use ipnet::IpNet;
use shoal_settings::{Forward, Listen, Mode};
use std::net::IpAddr;
use std::sync::Arc;

/// The rules of one listener, prepared from its `[[listen]]`.
#[derive(Clone, Debug)]
pub struct ListenerRules {
    /// Purpose of the listener.
    pub mode: Mode,
    /// Networks served; `None` means all.
    clients: Option<Vec<IpNet>>,
    /// Networks of trusted proxies.
    trusted: Vec<IpNet>,
    /// Port of https to which clients of http are sent.
    pub redirect_https: Option<u16>,
    /// Users of this listener.
    pub users: Option<Arc<ListenerUsers>>,
}

/// Users of a listener.
#[derive(Debug)]
pub struct ListenerUsers {
    /// The users.
    pub users: Users,
    /// Value of WWW-Authenticate or Proxy-Authenticate.
    pub challenge: HeaderValue,
}

impl ListenerRules {
    /// Returns the rules of `listen`. A forward listener without a list of clients uses the list of
    /// `forward`.
    pub fn new(listen: &Listen, forward: &Forward) -> Self {
        Self {
            mode: listen.mode,
            clients: listen.clients(forward).map(<[IpNet]>::to_vec),
            trusted: listen.trusted_proxies.clone(),
            redirect_https: listen.redirect_https,
            users: None,
        }
    }

    /// Returns the rules with the users of `listen`, which are read from their file.
    ///
    /// # Errors
    /// If the file or the realm cannot be used.
    pub fn with_users(self, listen: &Listen) -> Result<Self, AccessError> {
        let Some(path) = &listen.users_file else { return Ok(self) };
        let users = Users::read(path).map_err(|error| AccessError::Users("listen.users_file", error))?;
        let users = ListenerUsers { users, challenge: challenge(&listen.realm)? };
        Ok(Self { users: Some(Arc::new(users)), ..self })
    }

    /// Checks that this client is served.
    ///
    /// # Errors
    /// [`AccessRefusal::Client`].
    #[inline]
    pub fn client(&self, address: IpAddr) -> Result<(), AccessRefusal> {
        match &self.clients {
            Some(networks) if !contains(networks, address) => {
                Err(AccessRefusal::Client(address.to_canonical()))
            }
            _ => Ok(()),
        }
    }

    /// Returns `true` if a proxy at this address is trusted to report client addresses.
    #[inline]
    pub fn trusts(&self, address: IpAddr) -> bool {
        !self.trusted.is_empty() && contains(&self.trusted, address)
    }
}

/// Returns `true` if one of `networks` holds this address, written as IPv4 or as IPv6.
pub fn contains(networks: &[IpNet], address: IpAddr) -> bool {
    let address = address.to_canonical();
    networks.iter().any(|network| network.contains(&address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(list: &[&str]) -> Vec<IpNet> {
        list.iter().map(|network| network.parse().expect("a network")).collect()
    }

    fn served(listen: &Listen, address: &str) -> bool {
        let forward =
            Forward { allow_clients: networks(&["127.0.0.0/8", "10.1.0.0/16"]), ..Forward::default() };
        ListenerRules::new(listen, &forward).client(address.parse().expect("an address")).is_ok()
    }

    #[test]
    fn lists_hold_in_both_modes() {
        let address = ([127, 0, 0, 1], 80).into();
        let with_own =
            |listen| Listen { allow_clients: Some(networks(&["192.0.2.0/24", "::1/128"])), ..listen };
        let (forward, reverse) = (Listen::forward(address), Listen::reverse(address));
        for (listen, others, own) in [
            (&forward, [true, true, false], [false, false]),
            (&reverse, [true, true, true], [true, true]),
            (&with_own(forward.clone()), [false, false, false], [true, true]),
            (&with_own(reverse.clone()), [false, false, false], [true, true]),
        ] {
            assert_eq!(
                ["127.0.0.1", "::ffff:10.1.0.1", "10.2.0.1"].map(|client| served(listen, client)),
                others
            );
            assert_eq!(["::ffff:192.0.2.7", "::1"].map(|client| served(listen, client)), own);
        }
    }

    #[test]
    fn an_empty_list_serves_nobody() {
        let listen =
            Listen { allow_clients: Some(Vec::new()), ..Listen::reverse(([127, 0, 0, 1], 80).into()) };
        assert!(!served(&listen, "127.0.0.1"));
    }
}
