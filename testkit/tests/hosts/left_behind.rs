//! A test that is killed leaves nothing that the next start does not remove.

use crate::programs::{PROGRAM, hosts};
use serde_json::Value;
use shoal_testkit::hosts::sweep;
use shoal_testkit::wait;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn killed_creator_leaves_nothing_after_a_sweep() {
    if hosts(2).is_none() {
        return;
    }
    let mut creator = Command::new(PROGRAM);
    let mut creator = creator
        .args(["serve", "2"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program was built");
    let mut told = String::new();
    let output = creator.stdout.take().expect("it was piped");
    BufReader::new(output).read_line(&mut told).expect("hosts are told");
    let told: Value = serde_json::from_str(&told).expect("JSON");
    let prefix = told["hosts"][1]["prefix"].as_array().expect("words");
    let words: Vec<&str> = prefix.iter().filter_map(Value::as_str).collect();
    let mut orphan =
        Command::new(words[0]).args(&words[1..]).args(["sleep", "600"]).spawn().expect("there is a shell");
    let namespace = words.last().expect("a prefix ends with its namespace");
    let exists = || {
        let listed = Command::new("ip").args(["netns", "list"]).output().expect("there is ip");
        String::from_utf8_lossy(&listed.stdout).contains(namespace)
    };
    let groups: Vec<&str> = words.iter().filter(|word| word.starts_with("/sys/fs/cgroup")).copied().collect();
    assert!(exists(), "{told}");
    creator.kill().expect("the process is ours");
    creator.wait().expect("the process is ours");
    // Another test of this file's may sweep first.
    sweep().expect("a sweep");
    wait::until("the orphan has ended", || orphan.try_wait().is_ok_and(|status| status.is_some()));
    wait::until("the namespace is gone", || !exists());
    wait::until("the groups are gone", || groups.iter().all(|group| !Path::new(group).exists()));
    let outside = told["outside"].as_str().expect("an address");
    wait::until("the bridge is gone", || std::net::TcpListener::bind((outside, 0)).is_err());
}

#[test]
fn dropped_hosts_leave_nothing() {
    let Some(hosts) = hosts(2) else { return };
    let outside = hosts.outside();
    let mut sleeper = hosts[0].command("sleep").arg("600").spawn().expect("there is sleep");
    wait::until("the sleeper has joined", || hosts[0].processes() == [sleeper.id()]);
    drop(hosts);
    wait::until("the sleeper has ended", || sleeper.try_wait().is_ok_and(|status| status.is_some()));
    assert!(std::net::TcpListener::bind((outside, 0)).is_err(), "the bridge is gone");
}
