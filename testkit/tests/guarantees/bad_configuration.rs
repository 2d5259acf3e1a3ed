//! Bad configuration: exit code 2, file and line of each mistake, nothing started.

use shoal_testkit::address::{free_port, fresh_ip};
use shoal_testkit::shoal::binary;
use std::net::TcpStream;
use std::process::{Command, Output};

fn shoal(arguments: &[&str], folder: &std::path::Path) -> Output {
    let mut command = Command::new(binary());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("SHOAL_")) {
        command.env_remove(name);
    }
    command.args(arguments).current_dir(folder).output().expect("the binary runs")
}

fn said(output: &Output) -> String {
    [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat()
}

/// Each text has its mistake in the line given, and the message holds the words given.
#[test]
fn each_mistake_is_reported_with_its_line_and_nothing_starts() {
    let cases: [(&str, &str, &str); 21] = [
        ("workers = 2\nworkres = 3\n", "2", "workres"),
        ("workers = 'many'\n", "1", "workers"),
        ("[cache]\nram = '64 parsecs'\n", "2", "parsecs"),
        ("[cache]\n\nheuristic_max = 5\n", "3", "heuristic_max"),
        ("[cache\n", "1", ""),
        ("[[listen]]\naddress = 'nowhere'\nmode = 'forward'\n", "2", "nowhere"),
        ("[[listen]]\naddress = '127.0.0.1:1'\nmode = 'sideways'\n", "3", "sideways"),
        ("[forward]\nallow_clients = ['127.0.0.0/99']\n", "2", "127.0.0.0/99"),
        ("[[site]]\nhosts = ['*']\nupstreams = []\n", "3", "upstream"),
        ("[[site]]\nhosts = ['*']\nupstreams = [{ url = 'ftp://a' }]\n", "3", "ftp"),
        ("[[site]]\nhosts = []\nupstreams = [{ url = 'http://a' }]\n", "2", "host"),
        ("[store]\narchitecture = 'cloud'\n", "2", "cloud"),
        ("[store]\nmax_objects = 9223372036854775807\n", "2", "out of range"),
        ("[log]\nlevel = 'loud'\n", "2", "loud"),
        ("[forward]\nusers_file = '/nonexistent/users'\n", "2", "/nonexistent/users"),
        ("[[rule]]\nusers_file = '/nonexistent/users'\n", "2", "/nonexistent/users"),
        ("[[rule]]\nclient_burst = 3\nstore = false\n", "2", "client_rate"),
        ("[[rule]]\nclient_rate = 0.0\n", "2", "client_rate"),
        ("[[rule]]\nallow_certificates = ['CM=x']\n", "2", "CM"),
        ("[[listen]]\naddress = '127.0.0.1:1'\nmode = 'forward'\nclient_ca = 'bad.toml'\n", "4", "TLS"),
        ("[[listen]]\naddress = '127.0.0.1:1'\nmode = 'forward'\nclient_connections = 0\n", "4", "range"),
    ];
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (text, line, words) in cases {
        let ip = fresh_ip();
        let admin = free_port(ip);
        let reverse = format!("[[listen]]\naddress = '{}'\nmode = 'reverse'\n", free_port(ip));
        let admin_table = format!("[admin]\nlisten = '{admin}'\n{reverse}");
        std::fs::write(folder.path().join("bad.toml"), format!("{text}\n{admin_table}")).expect("writable");
        for command in [&["check", "bad.toml"][..], &["run", "--config", "bad.toml"]] {
            let output = shoal(command, folder.path());
            let said = said(&output);
            assert_eq!(output.status.code(), Some(2), "{command:?} of {text:?}\n{said}");
            assert!(
                said.contains(&format!("bad.toml:{line}")),
                "{command:?} of {text:?}: no line {line} in\n{said}"
            );
            assert!(said.contains(words), "{command:?} of {text:?}: nothing of {words} in\n{said}");
        }
        assert!(TcpStream::connect(admin).is_err(), "something was started");
        assert!(!folder.path().join("shoal-cache").exists(), "a store was made");
    }
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(
        folder.path().join("bad.toml"),
        "workres = 1\n[cache]\nram = 'x'\n[log]\nlevel = 'loud'\n",
    )
    .expect("writable");
    let output = shoal(&["run", "--config", "bad.toml"], folder.path());
    assert_eq!(output.status.code(), Some(2));
    let said = said(&output);
    for line in ["bad.toml:1", "bad.toml:3", "bad.toml:5"] {
        assert!(said.contains(line), "{line} is missing in\n{said}");
    }
}

#[test]
fn missing_files_and_taken_addresses_are_no_crash() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = shoal(&["run", "--config", "absent.toml"], folder.path());
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("absent.toml"));

    let ip = fresh_ip();
    let taken = std::net::TcpListener::bind((ip, 0)).expect("a loopback address takes listeners");
    let taken = taken.local_addr().map(|address| (address, taken)).expect("bound");
    let text = format!(
        "[[listen]]\naddress = '{}'\nmode = 'forward'\n[admin]\nlisten = '{}'\n",
        taken.0,
        free_port(ip)
    );
    std::fs::write(folder.path().join("taken.toml"), text).expect("writable");
    let output = shoal(&["run", "--config", "taken.toml"], folder.path());
    assert!(!output.status.success());
    let said = said(&output);
    assert!(said.contains(&taken.0.to_string()), "{said}");
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn the_documented_default_is_sound() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = shoal(&["config", "default"], folder.path());
    assert!(output.status.success(), "{}", said(&output));
    std::fs::write(folder.path().join("default.toml"), &output.stdout).expect("writable");
    let checked = shoal(&["check", "default.toml"], folder.path());
    assert_eq!(checked.status.code(), Some(0), "{}", said(&checked));
}
