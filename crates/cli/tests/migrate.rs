//! `shoal migrate` as a user runs it: files, exit codes, overwriting.

use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

fn shoal(folder: &TempDir, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shoal"));
    command.current_dir(folder.path()).args(arguments);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SHOAL_") {
            command.env_remove(name);
        }
    }
    command.output().expect("the binary runs")
}

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, text).expect("written");
    }
    folder
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const SQUID: &str = "http_port 3128\nacl lan src 10.0.0.0/8\nhttp_access allow lan\nhttp_access deny all\n";

#[test]
fn whole_settings_exit_with_0_and_pass_the_check() {
    let folder = folder(&[("squid.conf", SQUID)]);
    let output = shoal(&folder, &["migrate", "squid.conf", "--output", "shoal.toml"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stderr(&output), "shoal: 4 lines carried, 0 approximated, 0 not carried\n");
    assert_eq!(shoal(&folder, &["check", "shoal.toml"]).status.code(), Some(0));
}

#[test]
fn lost_refusals_exit_with_4_and_are_named() {
    let text = "http_port 3128\nacl u proxy_auth REQUIRED\nhttp_access deny !u\nhttp_access allow all\n";
    let folder = folder(&[("old", text)]);
    let output = shoal(&folder, &["migrate", "old", "--from", "squid"]);
    assert_eq!(output.status.code(), Some(4));
    assert!(stderr(&output).contains("ATTENTION old:3: http_access deny !u"), "{}", stderr(&output));
    let made = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(made.contains("# ATTENTION old:3") && made.contains("allow_clients = []"), "{made}");
}

#[test]
fn files_are_overwritten_with_force_only() {
    let folder = folder(&[("squid.conf", SQUID), ("shoal.toml", "mine")]);
    let read = || std::fs::read_to_string(folder.path().join("shoal.toml")).expect("there");
    let output = shoal(&folder, &["migrate", "squid.conf", "-o", "shoal.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--force"), "{}", stderr(&output));
    assert_eq!(read(), "mine");
    assert_eq!(
        shoal(&folder, &["migrate", "squid.conf", "-o", "shoal.toml", "--force"]).status.code(),
        Some(0)
    );
    assert!(read().contains("allow_clients"));
}

#[test]
fn includes_are_read_beside_the_file() {
    let site = "server { listen 8080; location / { proxy_pass http://10.0.0.2; } }";
    let folder = folder(&[
        ("nginx.conf", "http { include sites/*.conf; include sites/absent; }"),
        ("sites/a.conf", site),
        ("sites/b.off", "server { listen 9090; location / { proxy_pass http://10.0.0.3; } }"),
    ]);
    let output = shoal(&folder, &["migrate", "nginx.conf"]);
    let made = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(made.contains("# a.conf:1: listen 8080;") && !made.contains("9090"), "{made}");
    assert!(stderr(&output).contains("include sites/absent"), "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(4));
}

#[test]
fn neighbours_of_remap_config_are_read() {
    let folder = folder(&[
        ("ats/remap.config", "map http://www.example.org/ http://10.0.0.2/\n"),
        ("ats/records.config", "CONFIG proxy.config.http.server_ports STRING 8081\n"),
        ("cache.config", "dest_domain=www.example.org action=never-cache\n"),
    ]);
    let output = shoal(&folder, &["migrate", "ats/remap.config", "cache.config"]);
    let made = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(made.contains("0.0.0.0:8081") && made.contains("store = false"), "{made}");
}

#[test]
fn files_of_no_cache_are_usage_mistakes() {
    let folder = folder(&[("a", "hello\n"), ("nginx.conf", "http {"), ("other", SQUID)]);
    for (arguments, told) in [
        (vec!["migrate", "a"], "--from"),
        (vec!["migrate", "absent"], "cannot read"),
        (vec!["migrate", "nginx.conf"], "nginx.conf:1:"),
        (vec!["migrate", "other", "a"], "main file alone"),
        (vec!["migrate", "a", "--from", "apache"], "trafficserver"),
        (vec!["migrate", "."], "cannot read"),
    ] {
        let output = shoal(&folder, &arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(told), "{arguments:?}: {}", stderr(&output));
    }
    assert!(Path::new(folder.path()).join("a").exists());
}

#[test]
fn included_pipes_and_devices_are_no_files() {
    let text =
        "http { include f; include zero; server { listen 8080; location / { proxy_pass http://a; } } }";
    let folder = folder(&[("nginx.conf", text)]);
    let path = folder.path().join("f");
    assert!(Command::new("mkfifo").arg(&path).status().expect("it runs").success());
    std::os::unix::fs::symlink("/dev/zero", folder.path().join("zero")).expect("a link");
    let output = shoal(&folder, &["migrate", "nginx.conf"]);
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert_eq!(stderr(&output).matches("it is no file").count(), 2, "{}", stderr(&output));
}
