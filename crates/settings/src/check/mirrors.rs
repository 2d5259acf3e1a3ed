//! Rules between the settings of mirrors.

use super::{Rules, check_path};
use crate::host::{check_host_pattern, check_upstream_url};
use crate::{Mirror, Settings};

impl Rules<'_> {
    pub(super) fn mirrors(&mut self, settings: &Settings) {
        for (index, mirror) in settings.mirror.iter().enumerate() {
            let at = |name: &str| format!("mirror[{index}].{name}");
            self.result(&at("upstream"), check_upstream_url(&mirror.upstream).map(drop));
            self.result(&at("path"), check_path(mirror.path.as_deref().unwrap_or("/")));
            self.result(&at("name"), mirror.name.as_deref().map_or(Ok(()), check_name));
            if mirror.hosts.is_empty() {
                self.fault(&at("hosts"), "a mirror needs at least one host; \"*\" is any");
            }
            for (number, host) in mirror.hosts.iter().enumerate() {
                self.result(&at(&format!("hosts[{number}]")), check_host_pattern(host));
            }
            for (name, patterns) in [
                ("minimum_age_except", &mirror.minimum_age_except),
                ("owned", &mirror.owned),
                ("refuse", &mirror.refuse),
            ] {
                for (number, pattern) in patterns.iter().enumerate() {
                    self.result(&at(&format!("{name}[{number}]")), check_pattern(pattern));
                }
            }
            for (number, host) in mirror.file_hosts.iter().enumerate() {
                self.result(&at(&format!("file_hosts[{number}]")), check_host_pattern(host));
            }
            self.place(index, mirror, settings);
        }
    }

    /// Refuses a mirror at the place of an earlier one or of a site.
    fn place(&mut self, index: usize, mirror: &Mirror, settings: &Settings) {
        let (earlier, own) = (&settings.mirror[..index], mirror.site());
        if earlier.iter().any(|other| other.name() == mirror.name()) {
            let hint = Some("give one of them a `name`".into());
            let message = format!("there is a mirror called {:?} already", mirror.name());
            return self.fault_with(&format!("mirror[{index}].name"), message, hint);
        }
        let sites = settings.site.iter().cloned().chain(earlier.iter().map(Mirror::site));
        for site in sites.filter(|site| site.path_prefix.trim_end_matches('/') == mirror.path()) {
            if let Some(host) = own.hosts.iter().find(|host| site.hosts.contains(host)) {
                let message = format!("{host:?} with path {:?} is served already", own.path_prefix);
                return self.fault(&format!("mirror[{index}].path"), message);
            }
        }
    }
}

/// Checks a mirror's name, which is also a part of paths.
fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_sound = !name.is_empty() && name.bytes().all(is_plain) && !name.starts_with('.');
    if is_sound { Ok(()) } else { Err(format!("{name:?} is not made of letters, digits, - and _")) }
}

/// Checks a pattern of package names: a star stands at the end alone.
fn check_pattern(pattern: &str) -> Result<(), String> {
    let name = pattern.strip_suffix('*').unwrap_or(pattern);
    if !pattern.is_empty() && !name.contains('*') {
        return Ok(());
    }
    Err(format!("{pattern:?} is neither a name nor a beginning of names with * at its end"))
}
