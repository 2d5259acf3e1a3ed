//! A registry over TLS with an authority of its own, whose files are kept at another host; and the
//! places that clients take it from.

use crate::rounds::Says;
use crate::workshop::Workshop;
use shoal_testkit::certificates::Authority;
use shoal_testkit::{Answer, Origin, Setup, Shoal, missing};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A registry at `registry.test`, and the host of its files, `files.test`.
pub struct Registry {
    /// Documents.
    pub origin: Origin,
    /// Files.
    pub files: Origin,
    /// Fields of its answers.
    pub says: Says,
    authority: Authority,
}

/// Place from which a client takes packages: the registry itself or a mirror.
pub struct Place<'a> {
    /// Folder of the client.
    pub shop: &'a Workshop,
    /// URL of the registry.
    pub url: String,
    /// Proxy to a registry whose name is in no name server, and the authority to trust.
    pub direct: Option<(&'a Shoal, PathBuf)>,
}

impl Registry {
    /// Starts an empty one.
    pub fn start(says: Says) -> Self {
        let authority = Authority::new();
        let origin = Origin::start_tls(&authority.issue(&["registry.test"]));
        let files = Origin::start_tls(&authority.issue(&["files.test"]));
        Self { origin, files, says, authority }
    }

    /// URL of the registry's host.
    pub fn url(&self) -> String {
        format!("https://registry.test:{}", self.origin.address().port())
    }

    /// URL of the host of files.
    pub fn files_url(&self) -> String {
        format!("https://files.test:{}", self.files.address().port())
    }

    /// Targets of the requests after the first ones of each host.
    pub fn since(&self, (documents, files): (usize, usize)) -> Vec<String> {
        let targets = |origin: &Origin, skipped| {
            origin.received().into_iter().skip(skipped).map(|request| request.target).collect::<Vec<_>>()
        };
        let mut all = targets(&self.origin, documents);
        all.extend(targets(&self.files, files));
        all
    }

    /// Serves a folder of documents below a path of the registry.
    pub fn documents(&self, prefix: &str, folder: PathBuf) {
        self.says.serve(&self.origin, prefix, folder, "public, max-age=60");
    }

    /// Serves a folder of files below a path of their host.
    pub fn archive(&self, prefix: &str, folder: PathBuf) {
        self.says.serve(&self.files, prefix, folder, "public, max-age=31536000, immutable");
    }

    /// Serves a folder below a path of the registry. Its files with this ending are kept at the
    /// other host, and the registry redirects to them.
    pub fn redirecting(&self, prefix: &str, folder: &Path, ending: &str) {
        self.documents(prefix, folder.into());
        self.archive("/signed/", folder.into());
        for file in files_below(folder) {
            let below = file.strip_prefix(folder).expect("it is below").to_string_lossy();
            if below.ends_with(ending) {
                let url = format!("{}/signed/{below}?signature=1", self.files_url());
                self.origin.on(&format!("{prefix}{below}"), self.redirect(&url));
            }
        }
    }

    /// A redirect as the registry writes it.
    pub fn redirect(&self, url: &str) -> Answer {
        let redirect = Answer::new(302).field("Location", url);
        match self.says {
            Says::Lifetimes => {
                redirect.field("Cache-Control", "private, max-age=0").field("Set-Cookie", "session=1")
            }
            Says::Nothing => redirect,
        }
    }

    /// Starts a node with a mirror of this registry, which is also a proxy to it. `None` if names
    /// cannot be had here.
    pub fn mirrored(&self, kind: &str, path: &str) -> Option<Shoal> {
        let setup = match Setup::bare().with_test_names() {
            Ok(setup) => setup,
            Err(why) => {
                missing::skip(&format!("a resolver of .test ({why})"));
                return None;
            }
        };
        let ports = [&self.origin, &self.files].map(|origin| i64::from(origin.address().port()).into());
        let authority = setup.file("authority.pem", &self.authority.pem());
        let mirror = format!(
            "kind = '{kind}'\nupstream = '{}{path}'\nca_file = '{}'\nfile_hosts = ['files.test']\n\
             index_lifetime = '1h'",
            self.url(),
            authority.display()
        );
        let setup = setup.set("forward.connect_ports", toml::Value::Array(ports.into()));
        Some(setup.listen("reverse", "mode = 'reverse'").mirror(&mirror).start())
    }
}

impl Place<'_> {
    /// A program with its own home. To the registry itself it goes through the proxy, and trusts
    /// the authority by the variables of each client.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let proxy = self.direct.as_ref().map(|(shoal, _)| *shoal);
        let mut command = self.shop.command(program, proxy);
        if let Some((shoal, authority)) = &self.direct {
            let trusting = [
                "SSL_CERT_FILE",
                "NODE_EXTRA_CA_CERTS",
                "PIP_CERT",
                "REQUESTS_CA_BUNDLE",
                "CARGO_HTTP_CAINFO",
                "YARN_HTTPS_CA_FILE_PATH",
                "npm_config_cafile",
            ];
            command.envs(trusting.map(|name| (name, authority)));
            command.env("YARN_HTTPS_PROXY", format!("http://{}", shoal.address("forward")));
        }
        command
    }
}

/// All files below a folder.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}
