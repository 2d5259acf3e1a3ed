//! Options that name a node: its address, its certificate, the user and the password.
//!
//! | option | variable |
//! |---|---|
//! | `--admin` | `SHOAL_ADMIN_URL` |
//! | `--admin-ca` | `SHOAL_ADMIN_CA` |
//! | `--user` | `SHOAL_ADMIN_USER` |
//! | `--password-file` | `SHOAL_ADMIN_PASSWORD_FILE` |
//!
//! A password never stands on the command line, where other users of the machine could read it.

use super::address::AdminUrl;
use super::trust::Trust;
use super::{AdminNode, Credentials};
use crate::configuration::Configuration;
use crate::failure::Failure;
use shoal_settings::{Admin, Settings};
use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Options of the way to a node.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct AdminOptions {
    /// The node's admin address: `127.0.0.1:3129`, `https://cache1.example.org:3129` or
    /// `unix:/run/shoal/admin.sock`. Without it SHOAL_ADMIN_URL, else the settings
    #[arg(long, value_name = "ADDRESS", help_heading = HEADING)]
    pub admin: Option<AdminUrl>,
    /// Certificates for https: an authority, or the node's own certificate; SHOAL_ADMIN_CA. Without
    /// it the system's authorities are trusted
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    admin_ca: Option<PathBuf>,
    /// User of `[[admin.users]]`; SHOAL_ADMIN_USER
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    user: Option<String>,
    /// File with the user's password in one line, - for standard input; SHOAL_ADMIN_PASSWORD_FILE
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    password_file: Option<PathBuf>,
}

/// The same, and a settings file that has the address.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct NodeOptions {
    #[command(flatten)]
    pub admin: AdminOptions,
    /// Take the admin address, and the certificate of https, from this configuration file
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub config: Option<PathBuf>,
}

impl NodeOptions {
    /// Returns the way to the node.
    pub fn node(&self) -> Result<AdminNode, Failure> {
        self.admin.node(self.config.clone())
    }

    /// Returns the way to the node for requests without a secret: without a password, and with any
    /// certificate.
    pub fn node_unchecked(&self) -> Result<AdminNode, Failure> {
        let url = match self.admin.given(self.config.is_some())? {
            Some(url) => url,
            None => of_text(&Configuration::find(self.config.clone()).text().unwrap_or_default())?,
        };
        Ok(AdminNode::new(url, Trust::Unchecked, None))
    }
}

impl AdminOptions {
    /// Returns the way to the node. An address in `config` goes before the environment's.
    pub fn node(&self, config: Option<PathBuf>) -> Result<AdminNode, Failure> {
        let (url, own) = self.address(config)?;
        let trust = match self.admin_ca.clone().or_else(|| variable("SHOAL_ADMIN_CA").map(PathBuf::from)) {
            Some(file) => Trust::File(file),
            None if !own.is_empty() => Trust::Own(own),
            None => Trust::System,
        };
        let credentials = self.credentials()?;
        if credentials.is_some() && !url.is_private() {
            let why = format!(
                "the password would cross the network in clear to {url}; use https:// (the node needs [[admin.tls]]), or a \
                 tunnel to its loopback"
            );
            return Err(Failure::Usage(why));
        }
        Ok(AdminNode::new(url, trust, credentials))
    }

    /// Returns the address, and the certificates that the settings of the node name.
    fn address(&self, config: Option<PathBuf>) -> Result<(AdminUrl, Vec<PathBuf>), Failure> {
        if let Some(url) = self.given(config.is_some())? {
            return Ok((url, Vec::new()));
        }
        match Configuration::find(config).load() {
            Ok(settings) => of_settings(&settings),
            // A node may still be running, with the settings of its start.
            Err(failure) => {
                let mut lines =
                    vec!["the settings do not tell where the node is asked; --admin does".to_owned()];
                lines.extend(failure.lines());
                Err(Failure::Usage(lines.join("\n")))
            }
        }
    }

    /// Returns the address of the option, or of the variable if no file is named.
    fn given(&self, has_file: bool) -> Result<Option<AdminUrl>, Failure> {
        if self.admin.is_some() {
            return Ok(self.admin.clone());
        }
        let Some(text) = variable("SHOAL_ADMIN_URL").filter(|_| !has_file) else { return Ok(None) };
        let url = text.to_string_lossy().parse();
        url.map(Some).map_err(|why: String| Failure::Usage(format!("SHOAL_ADMIN_URL: {why}")))
    }

    fn credentials(&self) -> Result<Option<Credentials>, Failure> {
        let user = self.user.clone().map(OsString::from).or_else(|| variable("SHOAL_ADMIN_USER"));
        let file = self.password_file.clone();
        let file = file.or_else(|| variable("SHOAL_ADMIN_PASSWORD_FILE").map(PathBuf::from));
        match (user, file) {
            (None, None) => Ok(None),
            (Some(user), Some(file)) => {
                let user = user.into_string().map_err(|_| Failure::Usage("the user is no UTF-8".into()))?;
                if user.is_empty() || user.contains([':', '\r', '\n']) {
                    return Err(Failure::Usage(format!("{user:?} is no name of a user")));
                }
                let password = password(&file)?;
                debug_assert!(!password.is_empty() && !password.contains('\n'), "a password is a line");
                Ok(Some(Credentials { user, password, file }))
            }
            (Some(_), None) => {
                Err(Failure::Usage("--user needs --password-file FILE, or SHOAL_ADMIN_PASSWORD_FILE".into()))
            }
            (None, Some(_)) => {
                Err(Failure::Usage("--password-file needs --user NAME, or SHOAL_ADMIN_USER".into()))
            }
        }
    }
}

/// Returns the address of these settings' listener, and its certificates.
fn of_settings(settings: &Settings) -> Result<(AdminUrl, Vec<PathBuf>), Failure> {
    let admin = &settings.admin;
    let Some(listen) = &admin.listen else {
        return Err(Failure::Usage("the settings have no admin listener; name one with --admin".into()));
    };
    let own = admin.tls.iter().map(|pair| pair.certificate.clone()).collect();
    let url = AdminUrl::of_listener(listen, !admin.tls.is_empty());
    debug_assert!(admin.tls.is_empty() || url.is_private(), "TLS is spoken where there is a certificate");
    Ok((url, own))
}

/// Returns the address in the text of a settings file, in spite of mistakes elsewhere in it. A
/// health check must not fail by a file that the running node has not read.
fn of_text(text: &str) -> Result<AdminUrl, Failure> {
    let table: toml::Table = text.parse().unwrap_or_default();
    let admin = table.get("admin").and_then(toml::Value::as_table);
    let value = |name: &str| admin.and_then(|admin| admin.get(name));
    let listen = variable("SHOAL_ADMIN__LISTEN").map(|listen| listen.to_string_lossy().into_owned());
    let listen = listen.or_else(|| value("listen").and_then(toml::Value::as_str).map(str::to_owned));
    let is_tls = value("tls").and_then(toml::Value::as_array).is_some_and(|pairs| !pairs.is_empty());
    let address = match listen {
        None => Admin::default().listen,
        Some(listen) => listen.parse().ok(),
    };
    let address = address.ok_or_else(|| Failure::Usage("the settings have no admin listener".into()))?;
    Ok(AdminUrl::of_listener(&address, is_tls))
}

/// Reads a password: the first line of the file.
fn password(file: &Path) -> Result<String, Failure> {
    let failed = |why: &dyn std::fmt::Display| {
        Failure::Usage(format!("cannot read the password in {}: {why}", file.display()))
    };
    let mut bytes = Vec::new();
    let read = match file.as_os_str() == "-" {
        true => std::io::stdin().take(PASSWORD_MAX).read_to_end(&mut bytes),
        false => std::fs::File::open(file).and_then(|file| file.take(PASSWORD_MAX).read_to_end(&mut bytes)),
    };
    read.map_err(|error| failed(&error))?;
    let text = String::from_utf8(bytes).map_err(|_| failed(&"it is no UTF-8"))?;
    let line = text.lines().next().unwrap_or_default();
    match line {
        "" => Err(failed(&"its first line is empty")),
        hash if hash.starts_with("$sha256$") => {
            Err(failed(&"a hash stands there; the node can use a hash, a command needs the password itself"))
        }
        password => Ok(password.to_owned()),
    }
}

/// Returns a variable of the environment that is not empty.
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Most bytes read of a password file.
const PASSWORD_MAX: u64 = 4096;

const HEADING: &str = "The node";

#[cfg(test)]
mod tests {
    use super::*;

    fn options(user: &str, file: &Path) -> AdminOptions {
        AdminOptions {
            admin: "127.0.0.1:1".parse().ok(),
            user: Some(user.into()),
            password_file: Some(file.into()),
            ..AdminOptions::default()
        }
    }

    #[test]
    fn password_is_the_first_line_of_a_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("password");
        for (text, told) in [
            ("secret\n", Ok("secret")),
            ("sécret:x\r\nmore\n", Ok("sécret:x")),
            ("", Err("empty")),
            ("\nsecret", Err("empty")),
            ("$sha256$salt$00", Err("a hash stands there")),
        ] {
            std::fs::write(&file, text).expect("written");
            let read = options("ann", &file).credentials();
            match (read, told) {
                (Ok(Some(read)), Ok(password)) => assert_eq!(read.password, password),
                (Err(failure), Err(why)) => assert!(failure.lines().concat().contains(why), "{text:?}"),
                (read, _) => panic!("{text:?}: {}", read.is_ok()),
            }
        }
    }

    #[test]
    fn credentials_are_whole_and_cross_no_network() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("password");
        std::fs::write(&file, "secret").expect("written");
        let told = |options: AdminOptions| options.node(None).err().map(|failure| failure.lines().concat());
        assert_eq!(told(options("ann", &file)), None);
        let none = AdminOptions { user: None, ..options("ann", &file) };
        assert!(told(none).is_some_and(|why| why.contains("--user NAME")));
        let none = AdminOptions { password_file: None, ..options("ann", &file) };
        assert!(told(none).is_some_and(|why| why.contains("--password-file FILE")));
        assert!(told(options("a:b", &file)).is_some_and(|why| why.contains("no name of a user")));
        assert!(
            told(options("ann", &folder.path().join("absent"))).is_some_and(|why| why.contains("absent"))
        );
        let far = AdminOptions { admin: "http://cache1.test".parse().ok(), ..options("ann", &file) };
        assert!(told(far).is_some_and(|why| why.contains("in clear to cache1.test:3129")));
    }

    #[test]
    fn health_checks_find_the_address_beside_mistakes() {
        for (text, url) in [
            ("", "127.0.0.1:3129"),
            (
                "[admin]\nlisten = '0.0.0.0:7'\ntls = [{ certificate = '/c', key = '/k' }]\n[x]\ny = 1",
                "https://127.0.0.1:7",
            ),
            ("[[admin.tls]]\ncertificate = 1\n", "https://127.0.0.1:3129"),
            ("admin.listen = 'unix:/a'\nrum = 5\n", "unix:/a"),
            ("admin = 7\n", "127.0.0.1:3129"),
            ("no toml", "127.0.0.1:3129"),
        ] {
            let found = of_text(text).map_err(|failure| failure.lines()).expect(text);
            assert_eq!(found.to_string(), url, "{text}");
        }
        assert!(of_text("[admin]\nlisten = 'none'\n").is_err());
    }

    #[test]
    fn settings_tell_scheme_and_certificate() {
        let text = "[admin]\nlisten = '0.0.0.0:7'\ntls = [{ certificate = '/c', key = '/k' }]\n";
        let settings = Settings::parse(text, "f").expect("sound");
        let (url, own) = of_settings(&settings).map_err(|failure| failure.lines()).expect("a listener");
        assert_eq!((url.to_string(), own), ("https://127.0.0.1:7".into(), vec![PathBuf::from("/c")]));
    }
}
