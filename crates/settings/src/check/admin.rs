//! Rules between the settings of the admin listener.

use super::Rules;
use crate::{AdminAddress, Settings};

impl Rules<'_> {
    pub(super) fn admin(&mut self, settings: &Settings) {
        let admin = &settings.admin;
        for (number, user) in admin.users.iter().enumerate() {
            let key = |name: &str| format!("admin.users[{number}].{name}");
            if user.name.is_empty() || user.name.contains([':', '#', '\n', '\r']) {
                self.fault(&key("name"), "a name without a colon, a # and line ends");
            }
            if admin.users[..number].iter().any(|other| other.name == user.name) {
                self.fault(&key("name"), format!("{:?} is named twice", user.name));
            }
            match (&user.password, &user.password_file) {
                (Some(hash), None) if !hash.starts_with("$sha256$") => {
                    let hint = "printf %s \"$SALT$PASSWORD\" | sha256sum, written as $sha256$SALT$HEX";
                    self.fault_with(
                        &key("password"),
                        "a hash stands here, not the password",
                        Some(hint.into()),
                    );
                }
                (Some(_), None) | (None, Some(_)) => {}
                _ => self.fault(&key("name"), "set password or password_file, one of them"),
            }
        }
        if let Some(metrics) = &admin.metrics {
            self.metrics_listener(metrics, settings);
        }
        let Some(listen) = &admin.listen else { return };
        let is_elsewhere = match listen {
            AdminAddress::Tcp(address) => !address.ip().to_canonical().is_loopback(),
            AdminAddress::Unix(_) => false,
        };
        if matches!(listen, AdminAddress::Unix(_)) && !admin.tls.is_empty() {
            self.fault("admin.tls", "a Unix socket needs no TLS");
        }
        if is_elsewhere && !admin.users.is_empty() && admin.tls.is_empty() {
            let hint = Some("add [[admin.tls]] with a certificate and a key".into());
            self.fault_with("admin.users", "passwords would cross the network in clear", hint);
        }
    }

    fn metrics_listener(&mut self, metrics: &AdminAddress, settings: &Settings) {
        // Port 0 takes a free port, a different one each time.
        let address = match metrics {
            AdminAddress::Tcp(address) if address.port() == 0 => return,
            AdminAddress::Tcp(address) => Some(address),
            AdminAddress::Unix(_) => None,
        };
        if settings.listen.iter().any(|listen| Some(&listen.address) == address) {
            self.fault("admin.metrics", format!("{metrics} is a listener for clients too"));
        } else if settings.admin.listen.as_ref() == Some(metrics) {
            let hint = Some("admin.listen has /metrics already".into());
            self.fault_with("admin.metrics", "this is the address of admin.listen", hint);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistake(text: &str) -> String {
        let text = format!("[admin]\n{text}");
        let mistakes = Settings::parse(&text, "f").expect_err(&text);
        mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn users_have_one_password_and_one_name() {
        let hash = "password = '$sha256$s$00'";
        for (text, why) in [
            ("users = [{ name = 'a:b', password_file = '/a' }]".to_owned(), "without a colon"),
            ("users = [{ name = 'a' }]".to_owned(), "one of them"),
            (format!("users = [{{ name = 'a', {hash}, password_file = '/a' }}]"), "one of them"),
            ("users = [{ name = 'a', password = 'secret' }]".to_owned(), "a hash stands here"),
            (format!("users = [{{ name = 'a', {hash} }}, {{ name = 'a', {hash} }}]"), "named twice"),
        ] {
            assert!(mistake(&text).contains(why), "{text}: {}", mistake(&text));
        }
    }

    #[test]
    fn metrics_have_an_address_of_their_own() {
        for (text, why) in [
            ("metrics = '127.0.0.1:3129'", "the address of admin.listen"),
            ("listen = 'unix:/run/a'\nmetrics = 'unix:/run/a'", "the address of admin.listen"),
            ("metrics = '127.0.0.1:3128'", "a listener for clients too"),
            ("metrics = 'nowhere'", "admin.metrics"),
        ] {
            assert!(mistake(text).contains(why), "{text}: {}", mistake(text));
        }
        for sound in ["listen = '127.0.0.1:0'\nmetrics = '127.0.0.1:0'", "metrics = '0.0.0.0:9100'"] {
            assert!(Settings::parse(&format!("[admin]\n{sound}"), "f").is_ok(), "{sound}");
        }
    }

    #[test]
    fn passwords_cross_the_network_over_tls_alone() {
        let user = "users = [{ name = 'a', password_file = '/a', role = 'change' }]\n";
        assert!(mistake(&format!("listen = '10.0.0.1:1'\n{user}")).contains("in clear"));
        for listen in ["127.0.0.1:1", "unix:/run/a"] {
            let text = format!("[admin]\nlisten = '{listen}'\n{user}");
            assert!(Settings::parse(&text, "f").is_ok(), "{text}");
        }
        let tls = "tls = [{ certificate = '/c', key = '/k' }]\n";
        assert!(mistake(&format!("listen = 'unix:/run/a'\n{tls}")).contains("needs no TLS"));
    }
}
