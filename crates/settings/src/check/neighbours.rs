//! Rules between the settings of neighbours.

use super::Rules;
use crate::host::check_host;
use crate::{CARP_KEY_PARTS, Neighbour, NeighbourKind, Settings};

impl Rules<'_> {
    pub(super) fn neighbours(&mut self, settings: &Settings) {
        let own = &settings.neighbours;
        for (name, listen) in [("icp_listen", own.icp_listen), ("htcp_listen", own.htcp_listen)] {
            let key = format!("neighbours.{name}");
            if listen.is_some_and(|listen| listen.port() == 0) {
                self.fault(&key, "neighbours need to know the port; 0 would be another one each time");
            }
            if listen.is_some() && own.allow.is_empty() && settings.neighbour.is_empty() {
                let hint = Some("name their networks in `neighbours.allow`".into());
                self.fault_with(&key, "nobody would be answered and nobody asked", hint);
            }
        }
        if own.icp_listen.is_some() && own.icp_listen == own.htcp_listen {
            self.fault("neighbours.htcp_listen", "ICP has that address; HTCP needs a port of its own");
        }
        if !own.allow_clear.is_empty() && own.htcp_listen.is_none() {
            let hint = Some("set `neighbours.htcp_listen`".into());
            self.fault_with("neighbours.allow_clear", "URLs are removed by HTCP, which is off", hint);
        }
        for (index, neighbour) in settings.neighbour.iter().enumerate() {
            self.neighbour(settings, index, neighbour);
        }
    }

    fn neighbour(&mut self, settings: &Settings, index: usize, neighbour: &Neighbour) {
        let at = |name: &str| format!("neighbour[{index}].{name}");
        self.result(&at("host"), check_host(&neighbour.host));
        if settings.neighbour[..index].iter().any(|other| other.name() == neighbour.name()) {
            let hint = Some("give each a `name`".into());
            self.fault_with(&at("host"), format!("{:?} is a neighbour already", neighbour.name()), hint);
        }
        if neighbour.icp_port.is_some() && neighbour.htcp_port.is_some() {
            self.fault(&at("htcp_port"), "a neighbour is asked by ICP or by HTCP, not by both");
        }
        if neighbour.kind == NeighbourKind::Sibling {
            let parents = [
                ("carp", neighbour.carp),
                ("round_robin", neighbour.round_robin),
                ("default", neighbour.default),
            ];
            for (name, _) in parents.iter().filter(|(_, is_set)| *is_set) {
                self.fault(&at(name), "parents alone are chosen so; a sibling is asked for what it holds");
            }
            let is_asked = neighbour.icp_port.is_some() || neighbour.htcp_port.is_some() || neighbour.digest;
            if !is_asked && !neighbour.htcp_clear {
                let hint = Some("set `icp_port`, `htcp_port` or `digest`".into());
                self.fault_with(&at("kind"), "nothing would tell which URLs this sibling holds", hint);
            }
        } else if neighbour.allow_miss {
            self.fault(&at("allow_miss"), "a parent may fetch in any case");
        }
        if neighbour.htcp_port.is_none() {
            for (name, is_set) in
                [("htcp_signed", neighbour.htcp_signed), ("htcp_clear", neighbour.htcp_clear)]
            {
                if is_set {
                    self.fault(&at(name), "needs `htcp_port`");
                }
            }
        }
        if neighbour.htcp_signed && settings.neighbours.htcp_key_file.is_none() {
            self.fault(&at("htcp_signed"), "needs the key in `neighbours.htcp_key_file`");
        }
        if neighbour.digest_url.is_some() && !neighbour.digest {
            self.fault(&at("digest_url"), "needs `digest = true`");
        }
        if neighbour.digest_url.as_deref().is_some_and(|url| !is_plain_url(url)) {
            self.fault(&at("digest_url"), "it is no http URL");
        }
        if !neighbour.carp_key.is_empty() && !neighbour.carp {
            self.fault(&at("carp_key"), "needs `carp = true`");
        }
        for (number, part) in neighbour.carp_key.iter().enumerate() {
            self.one_of(&format!("{}[{number}]", at("carp_key")), "part of a URL", part, CARP_KEY_PARTS);
        }
        if neighbour.carp && neighbour.round_robin {
            self.fault(&at("round_robin"), "a parent is chosen by CARP or in turn, not by both");
        }
    }
}

fn is_plain_url(url: &str) -> bool {
    let rest = url.strip_prefix("http://").unwrap_or_default();
    !rest.is_empty() && !rest.starts_with('/') && url.bytes().all(|byte| byte.is_ascii_graphic())
}
