//! Rules between the settings of interception.

use super::Rules;
use crate::host::check_host_pattern;
use crate::schema::{MIRRORS, is_name};
use crate::{Mode, Settings};

impl Rules<'_> {
    pub(super) fn intercept(&mut self, settings: &Settings) {
        let intercept = &settings.intercept;
        for (number, host) in intercept.hosts.iter().enumerate() {
            let key = format!("intercept.hosts[{number}]");
            if host == MIRRORS {
                if settings.intercepted_registries().is_empty() && !self.mistakes.touches("mirror") {
                    let hint = Some("add a [[mirror]] with an https upstream, or name hosts".into());
                    self.fault_with(&key, "no mirror has a registry by https and by name", hint);
                }
            } else if host == "*" || !is_name(host.strip_prefix("*.").unwrap_or(host)) {
                let message =
                    format!("{host:?} is neither a name nor \"*.name\": certificates bind names alone");
                self.fault(&key, message);
            } else {
                self.result(&key, check_host_pattern(host));
            }
        }
        for (number, port) in intercept.ports.iter().enumerate() {
            if *port == 0 {
                self.fault(&format!("intercept.ports[{number}]"), "ports are 1 to 65535");
            }
        }
        if !intercept.is_on() {
            return;
        }
        if intercept.authority.as_os_str().is_empty() {
            self.fault("intercept.authority", "name the folder that `shoal ca init` has made");
        }
        let has_forward = settings.listen.iter().any(|listen| listen.mode == Mode::Forward);
        if !has_forward && !self.mistakes.touches("listen") {
            let hint = Some("add a [[listen]] in forward mode".into());
            self.fault_with("intercept.hosts", "clients send CONNECT to forward listeners alone", hint);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names() {
        let sound = "[intercept]\nhosts = [\"A.example\", \"*.b.example\"]\nports = [443, 8443]\n";
        let settings = Settings::parse(sound, "f").expect("sound");
        assert_eq!(settings.intercept.hosts, ["a.example", "*.b.example"]);
        for (text, why) in [
            ("hosts = [\"*\"]", "certificates bind names alone"),
            ("hosts = [\"10.0.0.1\"]", "certificates bind names alone"),
            ("hosts = [\"[::1]\"]", "certificates bind names alone"),
            ("hosts = [\"a b\"]", "is not a host name"),
            ("hosts = [\"mirrors\"]", "no mirror has a registry"),
            ("ports = [0]", "ports are 1 to 65535"),
            ("hosts = [\"a\"]\nauthority = \"\"", "shoal ca init"),
        ] {
            let mistakes = Settings::parse(&format!("[intercept]\n{text}\n"), "f").expect_err(text);
            let mistakes: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
            assert!(mistakes.iter().any(|mistake| mistake.contains(why)), "{text}\n{mistakes:?}");
        }
    }

    #[test]
    fn registries_of_mirrors_are_listed_once() {
        let listen =
            |mode: &str, port| format!("[[listen]]\naddress = \"127.0.0.1:{port}\"\nmode = \"{mode}\"\n");
        let mirror = |kind: &str, url: &str| format!("[[mirror]]\nkind = \"{kind}\"\nupstream = \"{url}\"\n");
        let text = listen("forward", 1)
            + &listen("reverse", 2)
            + &mirror("npm", "https://A.example/base")
            + &mirror("pypi", "https://a.example")
            + &mirror("cargo", "https://b.example:8443/")
            + &mirror("go", "http://c.example")
            + "[intercept]\nhosts = [\"mirrors\"]\n";
        let settings = Settings::parse(&text, "f").expect("sound");
        let expected = [("a.example".to_owned(), 443), ("b.example".to_owned(), 8443)];
        assert_eq!(settings.intercepted_registries(), expected);
    }
}
