//! gRPC's own interoperability cases, from grpc-go's client to its server through Shoal in reverse
//! mode, with and without TLS on either side.
//!
//! Both programs are built from `testkit/grpc`. What is built is kept beside what cargo builds, so
//! that it is built once.

use crate::workshop::{Workshop, installed, run};
use shoal_testkit::certificates::Authority;
use shoal_testkit::{Setup, Shoal};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Every combination is a test of its own, so that they run side by side.
#[test]
fn grpc_passes_from_h2c_to_h2c() {
    check(Transport::Plain, Transport::Plain);
}

#[test]
fn grpc_passes_from_h2c_to_tls() {
    check(Transport::Plain, Transport::Tls);
}

#[test]
fn grpc_passes_from_tls_to_h2c() {
    check(Transport::Tls, Transport::Plain);
}

#[test]
fn grpc_passes_from_tls_to_tls() {
    check(Transport::Tls, Transport::Tls);
}

/// Below HTTP/2.
#[derive(Clone, Copy, PartialEq)]
enum Transport {
    Plain,
    Tls,
}

/// Runs every case between a client and an origin that speak HTTP/2 over these.
fn check(near: Transport, far: Transport) {
    let shop = Workshop::new();
    let Some(programs) = build(&shop) else { return };
    let authority = Authority::new();
    let ca = shop.write("ca.pem", &authority.pem());
    authority.issue(&[SITE, "127.0.0.1"]).write(&shop.folder("certificates"), "site");
    let server = Server::start(&shop, &programs, far);
    let shoal = proxy(&shop, &server.address, far);
    let mut failed = Vec::new();
    for case in CASES {
        let mut client = shop.command(programs.join("client"), None);
        client.args(["-authority", SITE, "-case", case, "-address"]);
        match near {
            Transport::Plain => client.arg(shoal.address("reverse").to_string()),
            Transport::Tls => client.arg(shoal.address("tls").to_string()).arg("-ca").arg(&ca),
        };
        let output = client.output().expect("the client was built");
        if !output.status.success() {
            failed.push(format!("{case}: {}", String::from_utf8_lossy(&output.stderr).trim()));
        }
    }
    assert!(failed.is_empty(), "{} of {} cases fail:\n{}", failed.len(), CASES.len(), failed.join("\n"));
}

/// Builds both programs and gives their folder; `None` when there is no Go.
fn build(shop: &Workshop) -> Option<PathBuf> {
    if !installed("go") {
        return None;
    }
    let programs = shop.folder("programs");
    // Like a build by cargo it goes by the user's own environment: modules are had, and kept, as
    // everywhere else.
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(&programs).arg("./...");
    go.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("grpc"));
    go.env("GOCACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-build"));
    run(go.env("GOTOOLCHAIN", "local").env("CGO_ENABLED", "0"));
    Some(programs)
}

/// The origin, ended on drop.
struct Server {
    process: Child,
    address: String,
}

impl Server {
    fn start(shop: &Workshop, programs: &Path, transport: Transport) -> Self {
        let mut command = shop.command(programs.join("server"), None);
        if transport == Transport::Tls {
            command.arg("-certificate").arg(shop.path("certificates/site.pem"));
            command.arg("-key").arg(shop.path("certificates/site.key"));
        }
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the server was built");
        let said = process.stdout.take().expect("its output is piped");
        let mut address = String::new();
        BufReader::new(said).read_line(&mut address).expect("the server says where it listens");
        Self { process, address: address.trim().into() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended, which is all that is wanted.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A reverse proxy with a listener for either transport.
fn proxy(shop: &Workshop, origin: &str, far: Transport) -> Shoal {
    let path = |name: &str| shop.path(name).to_string_lossy().into_owned();
    let pair = format!(
        "{{ certificate = '{}', key = '{}' }}",
        path("certificates/site.pem"),
        path("certificates/site.key")
    );
    let upstream = match far {
        Transport::Plain => format!("{{ url = 'http://{origin}', h2c = true }}"),
        Transport::Tls => format!("{{ url = 'https://{origin}' }}"),
    };
    Setup::bare()
        .listen("reverse", "mode = 'reverse'")
        .listen("tls", &format!("mode = 'reverse'\ntls = [{pair}]"))
        .site(&format!("hosts = ['{SITE}']\nupstreams = [{upstream}]\n"))
        .set("upstream.ca_file", path("ca.pem"))
        .start()
}

const SITE: &str = "grpc.test";

/// Those of gRPC's interoperability cases that need no service of Google's.
const CASES: [&str; 14] = [
    "empty_unary",
    "large_unary",
    "client_streaming",
    "server_streaming",
    "ping_pong",
    "empty_stream",
    "timeout_on_sleeping_server",
    "cancel_after_begin",
    "cancel_after_first_response",
    "status_code_and_message",
    "special_status_message",
    "unimplemented_method",
    "unimplemented_service",
    "custom_metadata",
];
