//! `http_access` of Squid: the first line that matches decides.
//!
//! Shoal has lists instead of an order: networks of clients, ports, refused destinations, rules.
//! The converter walks the lines and keeps to one side. A refusal may become wider, a permission
//! may become narrower or go.
//!
//! Rules see no tunnels (CONNECT). A refusal that only a rule can make closes tunnels too.

use crate::document::{Document, Section};
use crate::expressions::{self, UrlShape};
use crate::ledger::{Ledger, LineId};
use crate::networks;
use crate::squid_acl::Elements;
use crate::squid_lines::{Line, UNREADABLE};
use crate::squid_terms::{Term, TermSet};
use crate::squid_users::{self, UserClients, Users};
use crate::value::Value;
use ipnet::IpNet;

/// Outcome of all lines.
#[derive(Default)]
pub struct AccessRules {
    /// Clients that are served, each with its lines.
    pub clients: Vec<IpNet>,
    /// Lines of the clients.
    pub client_lines: Vec<LineId>,
    /// Hosts that the lines allow by name.
    pub sites: Vec<String>,
    /// Ports of requests.
    request_ports: Option<Vec<(u16, u16)>>,
    /// Ports of tunnels.
    connect_ports: Option<Vec<(u16, u16)>>,
    port_lines: Vec<LineId>,
    refused: Vec<String>,
    refused_lines: Vec<LineId>,
    rules: Vec<Section>,
    removed: Vec<IpNet>,
    /// Hosts that only these clients reach.
    grants: Vec<(Vec<String>, Vec<IpNet>, LineId)>,
    /// Clients that need a user.
    by_user: UserClients,
    /// Hosts besides which nothing is served.
    only: Option<(Vec<String>, LineId)>,
    is_closed: bool,
}

/// Reads every `http_access` line.
pub fn read(lines: &[Line], elements: &Elements, ledger: &mut Ledger) -> AccessRules {
    let mut rules = AccessRules::default();
    let list: Vec<&Line> =
        lines.iter().filter(|line| line.name == "http_access" || line.name == UNREADABLE).collect();
    let mut is_over = false;
    for line in &list {
        if line.name == UNREADABLE {
            rules.is_closed = true;
            continue;
        }
        if is_over {
            ledger.needless(line.id, "no request comes to this line");
            continue;
        }
        let terms: Vec<Term> = line.words.iter().skip(1).map(|word| term(word, elements)).collect();
        is_over = match line.word(0) {
            "allow" => rules.allow(line, &terms, ledger),
            _ => rules.deny(line, &terms, ledger),
        };
    }
    if let Some(last) = list.last().filter(|line| line.word(0) == "deny" && !is_over) {
        ledger.approximated(
            last.id,
            "Squid allows requests that come past its last line; they are refused here",
        );
    }
    rules
}

fn term(word: &str, elements: &Elements) -> Term {
    match word.strip_prefix('!') {
        Some(name) => (true, elements.find(name)),
        None => (false, elements.find(word)),
    }
}

impl AccessRules {
    /// Reads an `allow`; returns `true` if no request comes past it.
    fn allow(&mut self, line: &Line, terms: &[Term], ledger: &mut Ledger) -> bool {
        let sorted = TermSet::of(terms);
        if sorted.is_manager {
            ledger.needless(line.id, "the admin listener has status and metrics, on loopback");
            return false;
        }
        if self.is_closed {
            ledger
                .left_out(line.id, "it stands below a refusal that has no equal, so that it allows nothing");
            return false;
        }
        let nets = sorted.clients.clone().unwrap_or_else(networks::everyone);
        let asks_user = sorted.has_user || sorted.unknown.iter().any(|why| why.contains("proxy_auth"));
        let Some(nets) = networks::subtract(&nets, &self.removed) else {
            ledger.left_out(line.id, "its networks are too many");
            return false;
        };
        if asks_user {
            self.by_user.ask(&nets);
        }
        if sorted.asks_more(terms) {
            let why = sorted.unknown.first().map_or("clients are allowed by network alone", String::as_str);
            ledger.left_out(
                line.id,
                format!("{why}, so that nothing is allowed here. {}", hint(&sorted.unknown)),
            );
            return false;
        }
        let Some(unasked) = self.by_user.unasked(&nets) else {
            ledger.left_out(line.id, "its networks are too many");
            return false;
        };
        let needs_user = sorted.has_user || unasked != nets;
        if needs_user && !(sorted.hosts.is_empty() && sorted.not_hosts.is_empty()) {
            let why = "a line above asks its clients for a user, and hosts are not allowed by user";
            ledger.left_out(line.id, why);
            return false;
        }
        ledger.carried(line.id);
        if !sorted.not_hosts.is_empty() {
            ledger.approximated(line.id, "the hosts are refused to all clients");
            self.refuse(&sorted.not_hosts, line.id);
        }
        if sorted.hosts.is_empty() {
            self.client_lines.extend(terms.iter().flat_map(|(_, element)| element.from.iter().copied()));
            self.client_lines.push(line.id);
            if needs_user {
                self.by_user.add(&nets, line.id);
            }
            self.clients = IpNet::aggregate(&[self.clients.clone(), unasked].concat());
            return sorted.asks_clients_alone() && networks::is_everyone(&self.clients);
        }
        if self.only.is_none() {
            self.sites.extend(sorted.hosts.iter().cloned());
        }
        self.grants.push((sorted.hosts, nets, line.id));
        false
    }

    /// Reads a `deny`; returns `true` if no request comes past it.
    fn deny(&mut self, line: &Line, terms: &[Term], ledger: &mut Ledger) -> bool {
        let sorted = TermSet::of(terms);
        let id = line.id;
        ledger.carried(id);
        let is_plain = sorted.unknown.is_empty() && !sorted.has_user && !sorted.has_no_user;
        let has_connect = sorted.methods == ["CONNECT"];
        if sorted.is_manager || sorted.methods == ["PURGE"] {
            ledger.needless(id, "purges and status belong to the admin listener and `admin.purge_from`");
        } else if sorted.is_own_host && is_plain {
            ledger.needless(id, "loopback and private destinations are refused by default");
        } else if !sorted.not_ports.is_empty()
            && is_plain
            && sorted.hosts.is_empty()
            && sorted.urls.is_empty()
        {
            self.ports(&sorted.not_ports, has_connect, id, terms);
            if sorted.clients.is_some() || !has_connect && !sorted.methods.is_empty() {
                ledger.approximated(id, "the ports are refused to all clients and methods");
            }
        } else if sorted.has_no_user && terms.len() == 1 {
            self.by_user.ask(&networks::everyone());
        } else if sorted.asks_clients_alone() {
            let nets = sorted.clients.unwrap_or_else(networks::everyone);
            let is_over = networks::is_everyone(&nets);
            self.removed.extend(nets);
            self.client_lines.push(id);
            return is_over;
        } else if !sorted.hosts.is_empty() {
            if !is_plain || terms.len() > 1 || !self.clients.is_empty() {
                ledger.approximated(id, "the hosts are refused to all clients, whatever else the line asks");
            }
            self.refuse(&sorted.hosts, id);
        } else if !sorted.not_hosts.is_empty() && is_plain && self.only.is_none() && terms.len() == 1 {
            self.sites = sorted.not_hosts.clone();
            self.only = Some((sorted.not_hosts, id));
        } else if !sorted.urls.is_empty() {
            self.refuse_urls(&sorted, id, ledger);
        } else if has_connect && is_plain {
            self.connect_ports = Some(Vec::new());
            self.port_lines.push(id);
            if sorted.clients.is_some() {
                ledger.approximated(id, "tunnels are refused to all clients");
            }
        } else if !sorted.methods.is_empty() && is_plain {
            if sorted.methods.iter().any(|method| method == "CONNECT") {
                self.connect_ports = Some(Vec::new());
            }
            if terms.len() > 1 {
                ledger
                    .approximated(id, "the methods are refused to all clients, whatever else the line asks");
            }
            let rule = Section::of(&[id]).with("methods", Value::texts(sorted.methods)).with("deny", 403);
            self.rules.push(rule.guard());
        } else if !sorted.ports.is_empty() && is_plain {
            self.without_ports(&sorted.ports, id);
        } else {
            let why = match sorted.unknown.is_empty() {
                true => "a refusal by user and more has no equal".to_owned(),
                false => sorted.unknown.join("; "),
            };
            self.close(
                id,
                format!("{why}. The lines below it allow nothing. {}", hint(&sorted.unknown)),
                ledger,
            );
        }
        false
    }

    /// Refuses all requests that later lines would allow.
    pub fn close(&mut self, id: LineId, why: impl Into<String>, ledger: &mut Ledger) {
        self.is_closed = true;
        ledger.unsafe_line(id, why);
    }

    /// Refuses all clients, also those that the lines allow.
    pub fn close_all(&mut self, id: LineId, why: impl Into<String>, ledger: &mut Ledger) {
        self.rules.push(Section::of(&[id]).with("deny", 403).guard());
        self.connect_ports = Some(Vec::new());
        ledger.unsafe_line(id, why);
    }

    fn refuse(&mut self, hosts: &[String], id: LineId) {
        self.refused.extend(hosts.iter().cloned());
        self.refused_lines.push(id);
    }

    fn ports(&mut self, ports: &[(u16, u16)], has_connect: bool, id: LineId, terms: &[Term]) {
        let list = if has_connect { &mut self.connect_ports } else { &mut self.request_ports };
        *list = Some(match list.take() {
            Some(old) => both(&old, ports),
            None => ports.to_vec(),
        });
        self.port_lines.extend(terms.iter().flat_map(|(_, element)| element.from.iter().copied()));
        self.port_lines.push(id);
    }

    fn without_ports(&mut self, ports: &[(u16, u16)], id: LineId) {
        let mut rest = vec![(1, u16::MAX)];
        for (from, to) in ports {
            rest = rest
                .into_iter()
                .flat_map(|(first, last)| {
                    let before = (*from > first).then(|| (first, last.min(from - 1)));
                    let after = (*to < last).then(|| (first.max(to + 1), last));
                    [before, after]
                        .into_iter()
                        .flatten()
                        .filter(|(first, last)| first <= last)
                        .collect::<Vec<_>>()
                })
                .collect();
        }
        for list in [&mut self.request_ports, &mut self.connect_ports] {
            let old = list.take().unwrap_or_else(|| vec![(1, u16::MAX)]);
            *list = Some(both(&old, &rest));
        }
        self.port_lines.push(id);
    }

    fn refuse_urls(&mut self, sorted: &TermSet, id: LineId, ledger: &mut Ledger) {
        if sorted.clients.is_some() || !sorted.methods.is_empty() || !sorted.unknown.is_empty() {
            ledger.approximated(id, "the URLs are refused to all clients, whatever else the line asks");
        }
        for (text, ignores_case, is_url) in &sorted.urls {
            let shape = match is_url {
                true => expressions::url(text, *ignores_case),
                false => expressions::path(text, *ignores_case, true),
            };
            let could_be_host = *is_url
                && shape.as_ref().is_ok_and(|shape| shape.hosts.is_empty() && shape.is_near)
                && !text.contains('/')
                && !text.ends_with('$');
            match shape {
                Ok(shape) if !could_be_host && shape != UrlShape::default() => {
                    if *is_url && !shape.hosts.is_empty() && shape.path.is_none() && shape.query.is_empty() {
                        self.refuse(&shape.hosts, id);
                    }
                    self.rules.push(shaped(&shape, id).with("deny", 403).guard());
                    self.refuse_in_query((text, *ignores_case), &shape, id, ledger);
                }
                Ok(_) if text == "." || !is_url => {
                    self.close(id, "it refuses every URL; the lines below it allow nothing", ledger);
                }
                Ok(_) => {
                    let why = format!(
                        "{text:?} may be part of a host, and rules compare hosts as a whole. All requests are \
                         refused: write the names into forward.deny_destinations and remove the rule"
                    );
                    self.close_all(id, why, ledger);
                }
                Err(why) => self.close_all(id, format!("{text:?}: {why}. All requests are refused"), ledger),
            }
        }
    }

    /// Refuses queries that the expression matches too.
    fn refuse_in_query(
        &mut self,
        (text, ignores_case): (&str, bool),
        shape: &UrlShape,
        id: LineId,
        ledger: &mut Ledger,
    ) {
        match expressions::in_query(text) {
            Some(patterns) if !patterns.is_empty() && !ignores_case && shape.hosts.is_empty() => {
                let rule = Section::of(&[id]).with("query", Value::texts(patterns)).with("deny", 403);
                self.rules.push(rule.guard());
            }
            Some(_) => ledger
                .unsafe_line(id, format!("{text:?} is compared with the path alone, not with the query")),
            None => {}
        }
    }

    /// Writes the rules, and with `has_forward` the lists of forward mode.
    pub fn write(
        mut self,
        document: &mut Document,
        ledger: &mut Ledger,
        (has_forward, has_reverse): (bool, bool),
        users: Option<&Users>,
    ) -> Self {
        self.without_users(users, ledger);
        let reached: Vec<IpNet> = self.grants.iter().flat_map(|(_, nets, _)| nets.iter().copied()).collect();
        let by_user = self.by_user.nets.clone();
        let free = self.clients.clone();
        let all = IpNet::aggregate(&[self.clients.clone(), reached.clone(), by_user].concat());
        let same = self.grants.windows(2).all(|pair| pair[0].1 == pair[1].1);
        let is_by_site = !has_forward && self.clients.is_empty() && same;
        if let Some((hosts, id)) = self.only.take() {
            self.rules.insert(0, allowed(Section::of(&[id]), &[]));
            self.rules.insert(1, allowed(Section::default().with("hosts", Value::texts(hosts)), &all));
            self.connect_ports = Some(Vec::new());
            if has_forward {
                ledger.unsafe_line(id, "rules see no tunnels, so that CONNECT is refused everywhere");
            }
        } else if !is_by_site && !self.grants.is_empty() {
            self.rules.push(allowed(Section::default(), &self.clients));
            for (hosts, nets, id) in std::mem::take(&mut self.grants) {
                let nets = IpNet::aggregate(&[self.clients.clone(), nets].concat());
                let rule = Section::of(&[id]).with("hosts", Value::texts(hosts));
                self.rules.push(allowed(rule, &nets));
                if networks::subtract(&nets, &self.clients).is_none_or(|more| !more.is_empty()) {
                    self.connect_ports = Some(Vec::new());
                    ledger.approximated(id, "rules see no tunnels, so that CONNECT is refused everywhere");
                }
            }
        }
        if !has_forward && !self.refused.is_empty() {
            let rule = Section::of(&self.refused_lines).with("hosts", Value::texts(self.refused.clone()));
            self.rules.push(rule.with("deny", 403).guard());
        }
        document.rules.append(&mut self.rules);
        self.clients = all;
        if has_forward {
            self.forward(document);
        }
        if let Some(users) = users.filter(|_| !self.by_user.nets.is_empty()) {
            squid_users::write(users, (&free, &self.by_user.from), has_reverse, document);
        }
        self
    }

    /// Drops the clients that need a user, where no user can be asked for or rules name hosts too.
    fn without_users(&mut self, users: Option<&Users>, ledger: &mut Ledger) {
        let is_by_host = !self.grants.is_empty() || self.only.is_some();
        if self.by_user.nets.is_empty() || users.is_some() && !is_by_host {
            return;
        }
        let why = match users {
            Some(_) => "other lines allow by host, so that nobody is asked for a user here",
            None => "clients that a line above asks for a user cannot name one here; they are refused",
        };
        self.by_user.from.iter().for_each(|line| ledger.unsafe_line(*line, why));
        self.by_user = UserClients::default();
    }

    fn forward(&self, document: &mut Document) {
        let forward = document.table("forward");
        forward.note(
            "Squid reaches private and loopback destinations unless told; Shoal refuses them. Name those",
        );
        forward.note("that clients need in allow_private_destinations.");
        let nets = self.clients.iter().map(|net| net.to_string());
        forward.set("allow_clients", Value::texts(nets), &self.client_lines);
        if let Some(ports) = &self.request_ports {
            let text = |(from, to): &(u16, u16)| match from == to {
                true => Value::Whole((*from).into()),
                false => Value::Text(format!("{from}-{to}")),
            };
            forward.set("request_ports", Value::List(ports.iter().map(text).collect()), &self.port_lines);
        } else {
            forward.set("request_ports", Value::texts(["1-65535"]), &[]);
        }
        if let Some(ports) = &self.connect_ports {
            let single = ports.iter().flat_map(|(from, to)| *from..=*to).take(PORTS_MAX);
            let ports = single.map(|port| Value::Whole(port.into())).collect();
            forward.set("connect_ports", Value::List(ports), &self.port_lines);
        } else {
            forward.note("Squid without a line about CONNECT tunnels to every port; here it is 443.");
        }
        if !self.refused.is_empty() {
            let mut hosts = self.refused.clone();
            hosts.dedup();
            forward.set("deny_destinations", Value::texts(hosts), &self.refused_lines);
        }
    }
}

/// Makes a rule with the conditions of a URL's shape.
pub fn shaped(shape: &UrlShape, id: LineId) -> Section {
    let mut rule = Section::of(&[id]);
    if !shape.hosts.is_empty() {
        rule.set("hosts", Value::texts(shape.hosts.iter().cloned()), &[]);
    }
    if let Some(path) = &shape.path {
        rule.set("path_regex", path.as_str(), &[]);
    }
    if !shape.query.is_empty() {
        rule.set("query", Value::texts(shape.query.iter().cloned()), &[]);
    }
    rule
}

fn allowed(mut rule: Section, nets: &[IpNet]) -> Section {
    rule.set("allow_clients", Value::texts(nets.iter().map(|net| net.to_string())), &[]);
    rule.guard()
}

/// Returns the ports in both lists.
fn both(a: &[(u16, u16)], b: &[(u16, u16)]) -> Vec<(u16, u16)> {
    let pairs = a.iter().flat_map(|a| b.iter().map(move |b| (a.0.max(b.0), a.1.min(b.1))));
    pairs.filter(|(from, to)| from <= to).take(PORTS_MAX).collect()
}

fn hint(unknown: &[String]) -> &'static str {
    let is_user = |why: &String| why.contains("proxy_auth");
    match unknown.iter().any(is_user) {
        true => {
            "For passwords write user:password lines, name the file in forward.users_file, and allow the networks"
        }
        false => "",
    }
}

/// Most single ports of a list.
const PORTS_MAX: usize = 256;
