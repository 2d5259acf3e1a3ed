//! `shoal ca`: the authority of interception, and the lines by which clients trust it.

use crate::configuration::Configuration;
use crate::failure::Failure;
use crate::show::print;
use shoal_intercept::authority::{self, AuthorityError, BUNDLE, ROOT};
use shoal_settings::Settings;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Make the authority of interception, and show how clients trust it
///
/// Interception lets a forward proxy cache the https of listed hosts. docs/INTERCEPTION.md tells
/// its meaning, and the cases in which not to use it.
#[derive(clap::Args)]
pub struct CaOptions {
    #[command(subcommand)]
    command: CaCommand,
}

#[derive(clap::Subcommand)]
enum CaCommand {
    /// Make a root and an intermediate that may sign for these hosts alone, and throw the root's
    /// key away
    ///
    /// A folder with an authority is not overwritten: new hosts need a new folder, and clients need
    /// its root.
    Init(InitOptions),
    /// Write the file of the system's roots and ours anew, and print the lines for each client
    Lines(FolderOptions),
}

#[derive(clap::Args)]
struct InitOptions {
    /// Hosts to sign for, such as registry.example or *.example; a name covers the names below it.
    /// Without this option, the hosts of the settings' `[intercept]`
    #[arg(long, value_name = "HOST", value_delimiter = ',', num_args = 1..)]
    hosts: Vec<String>,
    #[command(flatten)]
    place: FolderOptions,
}

#[derive(clap::Args)]
struct FolderOptions {
    /// Folder of the authority; default: `intercept.authority` of the settings
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Take the folder, and the hosts, from this configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl CaOptions {
    pub fn perform(self) -> Result<(), Failure> {
        match self.command {
            CaCommand::Init(options) => options.init(),
            CaCommand::Lines(place) => lines(&place.folder(&place.settings()?)),
        }
    }
}

impl FolderOptions {
    fn settings(&self) -> Result<Settings, Failure> {
        Configuration::find(self.config.clone()).load()
    }

    fn folder(&self, settings: &Settings) -> PathBuf {
        self.folder.clone().unwrap_or_else(|| settings.intercept.authority.clone())
    }
}

impl InitOptions {
    fn init(self) -> Result<(), Failure> {
        let settings = self.place.settings()?;
        let folder = self.place.folder(&settings);
        let hosts = match self.hosts.is_empty() {
            false => self.hosts,
            true => hosts_of(&settings),
        };
        if hosts.is_empty() {
            return Err(Failure::Usage(
                "name the hosts with --hosts, or a file with an [intercept] with --config".into(),
            ));
        }
        check_hosts(&hosts)?;
        authority::create(&folder, &hosts).map_err(failure)?;
        let folder = absolute(&folder);
        print(&format!(
            "made {folder} for {hosts}\n  root.pem          clients trust this; its key is gone\n  bundle.pem        the system's \
             roots and root.pem\n  intermediate.key  stays on this machine, readable by the user of Shoal alone\n\n\
             [intercept]\nhosts = [{listed}]\nauthority = \"{folder}\"\n",
            folder = folder.display(),
            hosts = hosts.join(", "),
            listed = hosts.iter().map(|host| format!("\"{host}\"")).collect::<Vec<_>>().join(", "),
        ))?;
        print(&trust_lines(&folder))
    }
}

/// Writes the bundle anew, since the system's roots may have changed, and prints the lines.
fn lines(folder: &Path) -> Result<(), Failure> {
    authority::Authority::load(folder).map_err(failure)?;
    authority::write_bundle(folder).map_err(failure)?;
    print(&trust_lines(&absolute(folder)))
}

/// Returns the hosts that the settings list, those of mirrors included.
fn hosts_of(settings: &Settings) -> Vec<String> {
    let listed = settings.intercept.patterns().map(str::to_owned);
    let registries = settings.intercepted_registries().into_iter().map(|(host, _)| host);
    let mut hosts: Vec<String> = listed.chain(registries).collect();
    hosts.dedup();
    hosts
}

/// Checks hosts as the settings do.
fn check_hosts(hosts: &[String]) -> Result<(), Failure> {
    // The settings take a comma at the end of a list for no entry.
    if hosts.iter().any(|host| host.trim().is_empty()) {
        return Err(Failure::Usage(
            "--hosts: an empty name; an authority binds each name that it has".into(),
        ));
    }
    let mut configuration = Configuration::default();
    configuration.options.push(shoal_settings::Override {
        origin: "--hosts".into(),
        key: "intercept.hosts".into(),
        value: hosts.join(","),
    });
    configuration.load().map(drop)
}

/// Returns the line for each client. Clients that add a root get ours; others get the bundle.
fn trust_lines(folder: &Path) -> String {
    let (root, bundle) = (folder.join(ROOT), folder.join(BUNDLE));
    let (root, bundle) = (root.display(), bundle.display());
    let mut text = "\nLines for each client; shoal ca lines prints them again:\n".to_owned();
    for (client, line) in [
        ("node, npm, pnpm, yarn", format!("export NODE_EXTRA_CA_CERTS={root}")),
        ("pip", format!("export PIP_CERT={bundle}")),
        ("Python requests, poetry", format!("export REQUESTS_CA_BUNDLE={bundle}")),
        ("OpenSSL, Go, Ruby, uv", format!("export SSL_CERT_FILE={bundle}")),
        ("curl", format!("export CURL_CA_BUNDLE={bundle}")),
        ("cargo", format!("export CARGO_HTTP_CAINFO={bundle}")),
        ("git", format!("export GIT_SSL_CAINFO={bundle}")),
        (
            "Java",
            format!("keytool -importcert -noprompt -cacerts -storepass changeit -alias shoal -file {root}"),
        ),
        (
            "apt",
            format!("echo 'Acquire::https::CaInfo \"{bundle}\";' | sudo tee /etc/apt/apt.conf.d/80shoal-ca"),
        ),
    ] {
        let _ = writeln!(text, "  {client:<24} {line}");
    }
    text.push_str(
        "Tools with roots of their own, compiled in, cannot be helped: leave their hosts out of [intercept].\n",
    );
    text
}

fn absolute(folder: &Path) -> PathBuf {
    std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned())
}

fn failure(error: AuthorityError) -> Failure {
    Failure::Runtime(error.to_string().trim_start_matches("intercept.authority: ").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_that_replace_roots_get_the_bundle() {
        let text = trust_lines(Path::new("/ca"));
        for line in [
            "NODE_EXTRA_CA_CERTS=/ca/root.pem",
            "PIP_CERT=/ca/bundle.pem",
            "REQUESTS_CA_BUNDLE=/ca/bundle.pem",
            "SSL_CERT_FILE=/ca/bundle.pem",
            "CARGO_HTTP_CAINFO=/ca/bundle.pem",
            "GIT_SSL_CAINFO=/ca/bundle.pem",
            "-file /ca/root.pem",
            "Acquire::https::CaInfo \"/ca/bundle.pem\"",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn hosts_are_checked_as_in_settings() {
        assert!(check_hosts(&["a.test".into(), "*.b.test".into()]).is_ok());
        for hosts in [vec![String::new()], vec!["a.test".to_owned(), String::new()]] {
            assert!(check_hosts(&hosts).is_err(), "{hosts:?}");
        }
        for host in ["*", "10.0.0.1", "a b"] {
            assert!(check_hosts(&[host.into()]).is_err(), "{host}");
        }
    }
}
