//! Programs that tests run on hosts, and how they are skipped where there are no namespaces.

use serde_json::Value;
use shoal_testkit::{Host, Hosts, missing};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Output, Stdio};

/// Hosts in namespaces; `None`, told aloud, where there are none to be had.
pub fn hosts(count: usize) -> Option<Hosts> {
    let hosts = Hosts::start(count);
    match hosts.cuts() {
        Ok(()) => Some(hosts),
        Err(why) if rustix::process::geteuid().is_root() => {
            missing::skip(&format!("iproute2, or the kernel's part of it ({why}),"));
            None
        }
        Err(why) => {
            eprintln!("skipped: not root ({why})");
            None
        }
    }
}

/// A server on a host; ended on drop.
pub struct Server {
    pub address: SocketAddr,
    child: Child,
}

impl Server {
    pub fn start(host: &Host) -> Self {
        let address = host.free_port();
        let mut command = host.command(PROGRAM);
        command.args(["answer", &address.to_string()]).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program was built");
        let mut said = String::new();
        let output = child.stdout.take().expect("it was piped");
        BufReader::new(output).read_line(&mut said).expect("a program says that it listens");
        assert_eq!(said, "listening\n");
        Self { address, child }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Fetches a body from a host: microseconds, or why that failed.
pub fn fetch(from: &Host, address: SocketAddr, bytes: usize) -> Result<u64, String> {
    let output = run(from, &["fetch", &address.to_string(), &bytes.to_string()]);
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(text(&output).trim().parse().expect("a number of microseconds"))
}

/// Sends datagrams from a host and tells what became of them.
pub fn ping(from: &Host, address: SocketAddr, count: u32) -> Value {
    let output = run(from, &["ping", &address.to_string(), &count.to_string()]);
    assert!(output.status.success(), "{output:?}");
    serde_json::from_str(&text(&output)).expect("JSON")
}

fn run(from: &Host, words: &[&str]) -> Output {
    from.command(PROGRAM).args(words).output().expect("the program was built")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_shoal-hosts");
