//! Rules between a listener's settings of TLS and redirects, and of TLS to origins.

use super::Rules;
use crate::host::check_destination;
use crate::mistake::closest;
use crate::{Listen, Mode, TLS_CIPHERS, TLS_GROUPS, TlsVersion};

impl Rules<'_> {
    pub(super) fn edge(&mut self, index: usize, listen: &Listen) {
        let key = |name: &str| format!("listen[{index}].{name}");
        self.known(&key("tls_ciphers"), "cipher suite", &listen.tls_ciphers, &TLS_CIPHERS);
        self.known(&key("tls_groups"), "group", &listen.tls_groups, &TLS_GROUPS);
        let (ciphers, version) = (&listen.tls_ciphers, listen.tls_min_version);
        if version == TlsVersion::V13 && !ciphers.is_empty() && !ciphers.iter().any(|it| is_of_13(it)) {
            let hint = Some("add TLS_AES_128_GCM_SHA256, or allow version 1.2".into());
            self.fault_with(&key("tls_ciphers"), "no suite here is one of TLS 1.3", hint);
        }
        let is_of_13_alone = |group: &String| group == "x25519mlkem768";
        if version == TlsVersion::V12
            && !listen.tls_groups.is_empty()
            && listen.tls_groups.iter().all(is_of_13_alone)
        {
            let hint = Some("add x25519, or set tls_min_version = \"1.3\"".into());
            self.fault_with(&key("tls_groups"), "TLS 1.2 has no group here", hint);
        }
        if listen.http3 {
            self.http3(&key("http3"), listen);
        }
        if listen.redirect_https.is_none() {
            return;
        }
        if listen.mode == Mode::Forward {
            self.fault(&key("redirect_https"), "clients of a forward listener name the scheme themselves");
        } else if listen.is_tls() {
            self.fault(&key("redirect_https"), "this listener speaks https itself");
        }
    }

    fn http3(&mut self, key: &str, listen: &Listen) {
        let ciphers = &listen.tls_ciphers;
        if !listen.is_tls() {
            self.fault_with(key, "HTTP/3 needs certificates", Some("set tls or acme".into()));
        } else if listen.mode == Mode::Forward {
            self.fault(key, "clients of a forward listener do not speak HTTP/3 with it");
        } else if !listen.proxy_protocol_from.is_empty() {
            self.fault(key, "packets of HTTP/3 have no PROXY protocol header");
        } else if !ciphers.is_empty() && !ciphers.iter().any(|it| is_of_13(it)) {
            let hint = Some("add TLS_AES_128_GCM_SHA256 to tls_ciphers".into());
            self.fault_with(key, "HTTP/3 needs a suite of TLS 1.3", hint);
        }
    }

    pub(super) fn classical_hosts(&mut self, hosts: &[String]) {
        for (number, host) in hosts.iter().enumerate().filter(|(_, host)| *host != "*") {
            self.result(&format!("upstream.classical_hosts[{number}]"), check_destination(host));
        }
    }

    /// Faults names of a list that are unknown or named twice.
    fn known(&mut self, key: &str, what: &str, names: &[String], all: &[&str]) {
        for (number, name) in names.iter().enumerate() {
            let key = format!("{key}[{number}]");
            if names[..number].contains(name) {
                self.fault(&key, format!("{name} is listed before"));
            } else if !all.contains(&name.as_str()) {
                let hint = match closest(name, all.iter().copied()) {
                    Some(close) => format!("did you mean {close}?"),
                    None => format!("one of {}", all.join(", ")),
                };
                self.fault_with(&key, format!("{name:?} is no {what} that this node has"), Some(hint));
            }
        }
    }
}

/// Returns `true` for a suite of TLS 1.3: its name says nothing of a key exchange.
fn is_of_13(cipher: &str) -> bool {
    !cipher.contains("_WITH_")
}

#[cfg(test)]
mod tests {
    use crate::Settings;

    const SITE: &str = "[[site]]\nhosts = ['a']\nupstreams = [{ url = 'http://b.example' }]\n";

    fn parse(listen: &str) -> Result<Settings, Vec<String>> {
        let text = format!("{SITE}[[listen]]\naddress = '127.0.0.1:1'\n{listen}\n");
        Settings::parse(&text, "f").map_err(|mistakes| mistakes.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn bad_names_are_told() {
        let reverse = "mode = 'reverse'\n";
        for (listen, why) in [
            ("tls_ciphers = ['TLS_AES_128_GCM_SHA265']", "TLS_AES_128_GCM_SHA256"),
            ("tls_ciphers = ['RC4-SHA']", "is no cipher suite"),
            ("tls_ciphers = ['TLS_AES_128_GCM_SHA256', 'TLS_AES_128_GCM_SHA256']", "listed before"),
            ("tls_groups = ['X25519MLKEM768']", "did you mean x25519mlkem768"),
            ("tls_groups = ['x448']", "is no group"),
            ("tls_groups = ['x25519mlkem768']", "TLS 1.2 has no group here"),
            ("tls_min_version = '1.1'", "1.1"),
            (
                "tls_min_version = '1.3'\ntls_ciphers = ['TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256']",
                "no suite here is one of TLS 1.3",
            ),
            ("http3 = true", "needs certificates"),
            (
                "http3 = true\nproxy_protocol_from = ['10.0.0.0/8']\ntls = [{ certificate = 'a', key = 'b' }]",
                "PROXY",
            ),
            (
                "http3 = true\ntls = [{ certificate = 'a', key = 'b' }]\n\
                 tls_ciphers = ['TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256']",
                "suite of TLS 1.3",
            ),
            ("http3_max_age = '2 years'", "http3_max_age"),
            ("http3_port = 0", "http3_port"),
            ("redirect_https = 0", "redirect_https"),
            ("redirect_https = 443\ntls = [{ certificate = 'a', key = 'b' }]", "https itself"),
        ] {
            let mistakes = parse(&format!("{reverse}{listen}")).expect_err(listen);
            assert!(mistakes.iter().any(|mistake| mistake.contains(why)), "{listen}\n{mistakes:?}");
        }
        let listen =
            "mode = 'forward'\nredirect_https = 443\n[[listen]]\naddress = '127.0.0.1:2'\nmode = 'reverse'";
        let mistakes = parse(listen).expect_err("a forward listener");
        assert!(mistakes.iter().any(|mistake| mistake.contains("forward listener")), "{mistakes:?}");
    }

    #[test]
    fn classical_hosts_are_hosts() {
        let parse =
            |hosts: &str| parse(&format!("mode = 'reverse'\n[upstream]\nclassical_hosts = [{hosts}]"));
        let sound = "'old.example', '*.old.example', '*', '10.0.0.0/8', '::1'";
        assert_eq!(parse(sound).expect("sound").upstream.classical_hosts.len(), 5);
        for wrong in ["'https://old.example'", "'old.example:443'", "'*old'", "''"] {
            let mistakes = parse(wrong).expect_err(wrong);
            assert!(mistakes[0].contains("upstream.classical_hosts[0]"), "{mistakes:?}");
        }
    }

    #[test]
    fn sound_names_are_taken() {
        let listen = "mode = 'reverse'\ntls_min_version = '1.3'\nredirect_https = 8443\n\
                      tls_ciphers = ['TLS_AES_256_GCM_SHA384']\ntls_groups = ['secp384r1', 'x25519']";
        let settings = parse(listen).expect("sound");
        assert_eq!(settings.listen[0].redirect_https, Some(8443));
    }
}
