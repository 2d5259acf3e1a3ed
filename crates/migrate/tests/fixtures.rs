//! Realistic files of each peer, with the settings that come out.
//!
//! `SHOAL_BLESS=1 cargo test -p shoal-migrate --test fixtures` writes the expected files anew.

use shoal_migrate::{Files, Peer, SourceText, migrate};
use shoal_settings::SettingsSource;
use std::path::{Path, PathBuf};

/// Files of a folder; certificates without `missing` in their names can be read.
struct Folder(PathBuf);

impl Files for Folder {
    fn read(&self, pattern: &str) -> Result<Vec<SourceText>, String> {
        if pattern.contains('*') {
            return Ok(Vec::new());
        }
        // A whole path stands for the file of that name in the folder.
        let name = Path::new(pattern).file_name().filter(|_| pattern.starts_with('/'));
        let name = name.map_or(PathBuf::from(pattern), PathBuf::from);
        let text =
            std::fs::read_to_string(self.0.join(name)).map_err(|_| "there is no such file".to_owned())?;
        Ok(vec![SourceText { name: pattern.into(), text }])
    }

    fn is_readable(&self, path: &str) -> bool {
        !path.contains("missing")
    }
}

/// Returns the mistakes that `shoal check` would find.
fn mistakes(text: &str) -> Vec<String> {
    let source = SettingsSource {
        file: "shoal.toml",
        text,
        overrides: Vec::new(),
        readable: &|_| Ok(()),
        further: &shoal_rules::mistakes,
    };
    source.read().err().unwrap_or_default().iter().map(ToString::to_string).collect()
}

fn check(peer: Peer, input: &Path, expected: &Path) {
    let name = input.file_name().expect("a file").to_string_lossy().into_owned();
    let text = std::fs::read_to_string(input).expect("a fixture");
    let folder = Folder(input.parent().expect("a folder").into());
    let made = migrate(peer, SourceText { name, text }, &folder).expect("settings");
    assert_eq!(mistakes(&made.toml), Vec::<String>::new(), "{}", input.display());
    if std::env::var_os("SHOAL_BLESS").is_some() {
        std::fs::write(expected, &made.toml).expect("written");
    }
    let wanted = std::fs::read_to_string(expected).expect("the expected settings");
    assert!(made.toml == wanted, "{} gives other settings:\n{}", input.display(), made.toml);
    let head = made.toml.lines().nth(1).unwrap_or_default();
    assert!(head.contains(&format!("{} not carried", made.summary.left_out)), "{head}");
    assert_eq!(made.toml.contains("ATTENTION: these refusals"), !made.summary.notices.is_empty());
}

/// Checks each file with this ending in a folder of the peer.
fn each(peer: Peer, folder: &str, ending: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            check(peer, &path.join("remap.config"), &path.join("shoal.toml"));
        } else if path.extension().is_some_and(|extension| extension == ending) {
            check(peer, &path, &path.with_extension("toml"));
        } else {
            continue;
        }
        count += 1;
    }
    assert!(count >= 12, "{count} fixtures");
}

#[test]
fn squid_files_give_the_expected_settings() {
    each(Peer::Squid, "squid", "conf");
}

#[test]
fn nginx_files_give_the_expected_settings() {
    each(Peer::Nginx, "nginx", "conf");
}

#[test]
fn varnish_files_give_the_expected_settings() {
    each(Peer::Varnish, "varnish", "vcl");
}

#[test]
fn traffic_server_files_give_expected_settings() {
    each(Peer::TrafficServer, "trafficserver", "conf");
}
