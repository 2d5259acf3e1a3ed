//! Rules between the settings of mirrors.

use super::{Rules, check_path};
use crate::host::{check_host_pattern, check_upstream_url};
use crate::{Mirror, MirrorKind, MirrorRights, Settings};

impl Rules<'_> {
    pub(super) fn mirrors(&mut self, settings: &Settings) {
        for (index, mirror) in settings.mirror.iter().enumerate() {
            let at = |name: &str| format!("mirror[{index}].{name}");
            match mirror.upstream.is_empty() {
                true => self.fault(&at("upstream"), "a mirror needs the URL of its registry"),
                false => self.result(&at("upstream"), check_upstream_url(&mirror.upstream).map(drop)),
            }
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
                ("pin", &mirror.pin),
            ] {
                for (number, pattern) in patterns.iter().enumerate() {
                    self.result(&at(&format!("{name}[{number}]")), check_pattern(pattern));
                }
            }
            if !mirror.pin.is_empty() && settings.store.architecture != "volume" {
                let message =
                    format!("takes store.architecture = \"volume\", not {:?}", settings.store.architecture);
                self.fault(&at("pin"), message);
            }
            for (number, host) in mirror.file_hosts.iter().enumerate() {
                self.result(&at(&format!("file_hosts[{number}]")), check_host_pattern(host));
            }
            for (number, path) in mirror.credentials_below.iter().enumerate() {
                self.result(&at(&format!("credentials_below[{number}]")), check_path(path));
            }
            if let Some(name) = &mirror.checksum_database {
                self.result(&at("checksum_database"), check_name(name));
                if mirror.kind != MirrorKind::Go {
                    self.fault(&at("checksum_database"), "only modules of Go have such a database");
                }
            }
            if !mirror.namespaces.is_empty() && mirror.kind != MirrorKind::Oci {
                self.fault(&at("namespaces"), "only clients of images name registries");
            }
            if mirror.rights == MirrorRights::Client && mirror.credentials.is_some() {
                let message = "with rights = \"client\" the registry gets the credentials of clients";
                self.fault_with(&at("credentials"), message, Some("leave one of the two out".into()));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrors_are_checked() {
        let text =
            |mirrors: &str| format!("[[listen]]\naddress = \"127.0.0.1:80\"\nmode = \"reverse\"\n{mirrors}");
        let npm = |more: &str| {
            format!("[[mirror]]\nkind = \"npm\"\nupstream = \"https://npm.example/base/\"\n{more}")
        };
        let settings =
            Settings::parse(&text(&npm("name = \"own\"\nhosts = [\"NPM.example\"]")), "f").expect("sound");
        let mirror = &settings.mirror[0];
        assert_eq!(
            (mirror.name(), mirror.path(), mirror.upstream()),
            ("own", "/own".into(), "https://npm.example/base")
        );
        let site = &settings.all_sites()[0];
        assert_eq!(
            (&*site.path_prefix, &*site.hosts, site.via),
            ("/own", &["npm.example".to_owned()][..], false)
        );
        for (mirrors, why) in [
            (npm("kind = \"nmp\""), "duplicate key"),
            (npm("").replace("npm.example", "user@npm.example"), "it has no user name"),
            (npm("name = \"a/b\""), "is not made of letters"),
            (npm("path = \"npm\""), "does not begin with"),
            (npm("refuse = [\"a*b\"]"), "neither a name nor a beginning"),
            (npm("hosts = []"), "needs at least one host"),
            (npm("") + &npm(""), "there is a mirror called \"npm\" already"),
            (npm("") + &npm("name = \"b\"\npath = \"/npm\""), "is served already"),
            (
                npm("path = \"/\"\n") + "[[site]]\nhosts = [\"*\"]\nupstreams = [{ url = \"http://a\" }]\n",
                "is served already",
            ),
        ] {
            let mistakes = Settings::parse(&text(&mirrors), "f").expect_err(&mirrors);
            let mistakes: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
            assert!(mistakes.iter().any(|mistake| mistake.contains(why)), "{mirrors}\n{mistakes:?}");
        }
    }
}
