//! Rules between the settings of certificates that the node orders itself.

use super::Rules;
use crate::host::{check_host, check_upstream_url};
use crate::schema::{ACME_NAMES_MAX, is_name};
use crate::{AcmeCertificate, AcmeChallenge, Mode, Settings};

impl Rules<'_> {
    pub(super) fn acme(&mut self, settings: &Settings) {
        let acme = &settings.acme;
        if !acme.directory.is_empty() {
            match check_upstream_url(&acme.directory) {
                Ok(true) => {}
                Ok(false) => self.fault("acme.directory", "an authority is asked by https alone"),
                Err(why) => self.fault("acme.directory", why.replace("an upstream", "a directory")),
            }
        }
        for (number, contact) in acme.contact.iter().enumerate() {
            let address = contact.strip_prefix("mailto:").unwrap_or_default();
            let is_sound = address.contains('@') && address.bytes().all(|byte| byte.is_ascii_graphic());
            if !is_sound {
                let hint = Some("such as \"mailto:web@example.org\"".into());
                self.fault_with(&format!("acme.contact[{number}]"), "is no address", hint);
            }
        }
        if acme.binding_id.is_some() != acme.binding_key_file.is_some() {
            self.fault("acme.binding_id", "binding_id and binding_key_file belong together");
        }
        for (index, listen) in settings.listen.iter().enumerate() {
            for (number, certificate) in listen.acme.iter().enumerate() {
                self.acme_names(&format!("listen[{index}].acme[{number}].names"), certificate);
            }
        }
        if settings.listen.iter().any(|listen| !listen.acme.is_empty()) {
            self.acme_in_use(settings);
        }
    }

    /// Checks the settings without which no certificate can be ordered.
    fn acme_in_use(&mut self, settings: &Settings) {
        let acme = &settings.acme;
        if acme.directory.is_empty() {
            let hint = Some("the authority's documentation names its URL".into());
            self.fault_with("acme.directory", "no authority is named", hint);
        } else if !acme.terms_agreed {
            let hint = Some("read the terms of the authority, then set it to true".into());
            self.fault_with("acme.terms_agreed", "nothing is ordered without it", hint);
        }
        if acme.folder.as_os_str().is_empty() {
            self.fault("acme.folder", "name a folder on a disk that lasts");
        }
        let has_plain = settings.listen.iter().any(|listen| !listen.is_tls() && listen.mode == Mode::Reverse);
        if acme.challenge == AcmeChallenge::Http01 && !has_plain {
            let hint = Some("add a [[listen]] for port 80 without TLS, or take \"tls-alpn-01\"".into());
            self.fault_with("acme.challenge", "no listener could answer over http", hint);
        }
    }

    fn acme_names(&mut self, key: &str, certificate: &AcmeCertificate) {
        let names = &certificate.names;
        if names.is_empty() || names.len() > ACME_NAMES_MAX {
            self.fault(key, format!("a certificate has 1 to {ACME_NAMES_MAX} names"));
        }
        for (number, name) in names.iter().enumerate() {
            let key = format!("{key}[{number}]");
            if name.contains('*') {
                let hint = Some("list the names, or give a certificate in `tls`".into());
                self.fault_with(&key, "wildcards need a change of DNS, which the node cannot make", hint);
            } else if !is_name(name) || !name.contains('.') || name.ends_with('.') {
                self.fault(&key, format!("{name:?} is not a name that an authority signs for"));
            } else if names[..number].contains(name) {
                self.fault(&key, format!("{name} is listed before"));
            } else {
                self.result(&key, check_host(name));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Settings;

    const PLAIN: &str = "[[site]]\nhosts = ['a.test']\nupstreams = [{ url = 'http://b.test' }]\n\
                         [[listen]]\naddress = '127.0.0.1:80'\nmode = 'reverse'\n";
    const SECURED: &str = "[[listen]]\naddress = '127.0.0.1:443'\nmode = 'reverse'\n";
    const AUTHORITY: &str = "[acme]\ndirectory = 'https://ca.test/directory'\nterms_agreed = true\n";

    fn parse(listen: &str, acme: &str) -> Result<Settings, Vec<String>> {
        let text = format!("{PLAIN}{SECURED}{listen}\n{acme}\n");
        Settings::parse(&text, "f").map_err(|mistakes| mistakes.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn sound_orders_are_taken() {
        let more = format!("{AUTHORITY}contact = ['mailto:web@a.test']\n");
        let listen = "acme = [{ names = ['A.test', 'www.a.test'] }, { names = ['b.test'] }]";
        let settings = parse(listen, &more).expect("sound");
        assert_eq!(settings.listen[1].acme[0].names, ["a.test", "www.a.test"]);
        assert!(settings.listen[1].is_tls() && !settings.listen[0].is_tls());
        parse("", "").expect("nothing is ordered");
    }

    #[test]
    fn unsound_orders_are_told() {
        let names = |names: &str| format!("acme = [{{ names = [{names}] }}]");
        let sound = names("'a.test'");
        let with = |line: &str| format!("{AUTHORITY}{line}\n");
        for (listen, acme, why) in [
            (&sound, "", "no authority is named"),
            (&sound, "[acme]\ndirectory = 'https://ca.test/d'", "read the terms"),
            (&sound, "[acme]\ndirectory = 'http://ca.test/d'\nterms_agreed = true", "https alone"),
            (&sound, "[acme]\ndirectory = 'ca.test'", "is not a directory"),
            (&sound, &with("contact = ['web@a.test']"), "is no address"),
            (&sound, &with("binding_id = 'x'"), "belong together"),
            (&sound, &with("folder = ''"), "disk that lasts"),
            (&sound, &with("challenge = 'dns-01'"), "http-01"),
            (&sound, &with("retry = '0s'"), "acme.retry"),
            (&names(""), AUTHORITY, "1 to 100 names"),
            (&names("'*.a.test'"), AUTHORITY, "wildcards need a change of DNS"),
            (&names("'192.0.2.1'"), AUTHORITY, "is not a name"),
            (&names("'localhost'"), AUTHORITY, "is not a name"),
            (&names("'a.test', 'a.test'"), AUTHORITY, "listed before"),
            (&names("'a_b c.test'"), AUTHORITY, "names[0]"),
        ] {
            let mistakes = parse(listen, acme).expect_err(why);
            assert!(mistakes.iter().any(|mistake| mistake.contains(why)), "{why}\n{mistakes:?}");
        }
    }

    #[test]
    fn http_challenge_needs_a_plain_listener() {
        let text = "[[site]]\nhosts = ['a.test']\nupstreams = [{ url = 'http://b.test' }]\n".to_owned()
            + SECURED
            + "acme = [{ names = ['a.test'] }]\n"
            + AUTHORITY;
        let mistakes = Settings::parse(&text, "f").expect_err("no listener for the challenge");
        assert!(mistakes.iter().any(|mistake| mistake.to_string().contains("over http")), "{mistakes:?}");
        Settings::parse(&format!("{text}challenge = 'tls-alpn-01'\n"), "f").expect("sound");
    }
}
