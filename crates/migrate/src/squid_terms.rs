//! Words of an `http_access` line, sorted by the kind of their tests.

use crate::networks;
use crate::squid_acl::{Element, Test};
use ipnet::IpNet;

/// One word of a line: the element, and `true` behind an exclamation mark.
pub type Term = (bool, Element);

/// Words of a line, by the kind of their tests.
#[derive(Default)]
pub struct TermSet {
    pub clients: Option<Vec<IpNet>>,
    pub hosts: Vec<String>,
    pub not_hosts: Vec<String>,
    pub urls: Vec<(String, bool, bool)>,
    pub methods: Vec<String>,
    pub ports: Vec<(u16, u16)>,
    pub not_ports: Vec<(u16, u16)>,
    pub has_user: bool,
    pub has_no_user: bool,
    pub unknown: Vec<String>,
    pub is_manager: bool,
    pub is_own_host: bool,
}

impl TermSet {
    pub fn of(terms: &[Term]) -> Self {
        let mut sorted = Self::default();
        for (is_negated, element) in terms {
            match (&element.test, is_negated) {
                (Test::Source(nets), negated) => {
                    let nets = match negated {
                        true => networks::subtract(&networks::everyone(), nets),
                        false => Some(nets.clone()),
                    };
                    match (nets, sorted.clients.take()) {
                        (Some(nets), None) => sorted.clients = Some(nets),
                        (Some(nets), Some(others)) => {
                            let outside = networks::subtract(&networks::everyone(), &others);
                            sorted.clients = outside.and_then(|outside| networks::subtract(&nets, &outside));
                            if sorted.clients.is_none() {
                                sorted.unknown.push("too many networks".into());
                            }
                        }
                        (None, others) => {
                            sorted.clients = others;
                            sorted.unknown.push("too many networks".into());
                        }
                    }
                }
                (Test::Hosts(hosts), false) => sorted.hosts.extend(hosts.iter().cloned()),
                (Test::Hosts(hosts), true) => sorted.not_hosts.extend(hosts.iter().cloned()),
                (Test::Url(list), false) => {
                    sorted.urls.extend(list.iter().map(|(text, i)| (text.clone(), *i, true)))
                }
                (Test::Path(list), false) => {
                    sorted.urls.extend(list.iter().map(|(text, i)| (text.clone(), *i, false)));
                }
                (Test::Methods(list), false) => sorted.methods.extend(list.iter().cloned()),
                (Test::Ports(list), false) => sorted.ports.extend(list),
                (Test::Ports(list), true) => sorted.not_ports.extend(list),
                (Test::Users, false) => sorted.has_user = true,
                (Test::Users, true) => sorted.has_no_user = true,
                (Test::Manager, false) => sorted.is_manager = true,
                (Test::OwnHosts, false) => sorted.is_own_host = true,
                (Test::Other(why), _) => sorted.unknown.push(why.clone()),
                _ => sorted.unknown.push("the opposite of such an acl has no equal".into()),
            }
        }
        sorted
    }

    /// Returns `true` if the line asks for clients alone.
    pub fn asks_clients_alone(&self) -> bool {
        self.hosts.is_empty()
            && self.not_hosts.is_empty()
            && self.urls.is_empty()
            && self.methods.is_empty()
            && self.ports.is_empty()
            && self.not_ports.is_empty()
            && self.unknown.is_empty()
            && !self.has_user
            && !self.has_no_user
            && !self.is_manager
            && !self.is_own_host
    }

    /// Returns `true` if the line asks for more than clients, a user, or one list of hosts.
    pub fn asks_more(&self, terms: &[Term]) -> bool {
        !self.unknown.is_empty()
            || self.has_no_user
            || self.has_user && !(self.hosts.is_empty() && self.not_hosts.is_empty())
            || !self.urls.is_empty()
            || !self.methods.is_empty()
            || !self.ports.is_empty()
            || !self.not_ports.is_empty()
            || self.is_own_host
            || terms
                .iter()
                .filter(|term| matches!(term, (false, Element { test: Test::Hosts(_), .. })))
                .count()
                > 1
    }
}
