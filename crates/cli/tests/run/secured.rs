//! Commands against an admin listener with TLS and users, as an operator meets it.

use super::*;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::os::unix::fs::PermissionsExt;

/// A node with TLS and users at its admin listener, and the files of its operators.
struct SecuredNode {
    node: Node,
    /// `https://localhost:PORT`.
    url: String,
}

type Output3 = (Option<i32>, String);

impl SecuredNode {
    /// Starts a node with a certificate for `localhost` that ends in `last_year`.
    fn start(last_year: i32) -> Self {
        let folder = TempDir::new().expect("a folder");
        write_certificates(folder.path(), last_year);
        for (name, text) in
            [("ann.password", "for ann\n"), ("bob.password", "for bob\n"), ("wrong.password", "x\n")]
        {
            write_secret(&folder.path().join(name), text);
        }
        let log = std::fs::File::create(folder.path().join("error.log")).expect("created");
        let node = Node::start_in(folder, &configuration(0), log.into());
        let port = node.greeting.split("https://127.0.0.1:").nth(1).expect("in the greeting");
        let port: u16 = port.split('/').next().and_then(|port| port.parse().ok()).expect("a port");
        // The node has read its file; commands read it again, and need the port in it.
        std::fs::write(node.folder.path().join("shoal.toml"), configuration(port)).expect("written");
        Self { node, url: format!("https://localhost:{port}") }
    }

    /// Runs a command with further words. Returns the exit code, and all that it printed.
    fn run(&self, command: &str, more: &[&str]) -> Output3 {
        let words: Vec<&str> = command.split(' ').chain(more.iter().copied()).collect();
        told(&self.node.command(&words))
    }

    /// Runs a command as a user of the listener.
    fn run_as(&self, user: &str, command: &str) -> Output3 {
        let file = format!("{user}.password");
        self.run(
            command,
            &["--admin", &self.url, "--admin-ca", "ca.pem", "--user", user, "--password-file", &file],
        )
    }
}

fn configuration(port: u16) -> String {
    let admin = format!(
        "[admin]\nlisten = \"127.0.0.1:{port}\"\ntls = [{{ certificate = \"admin.pem\", key = \"admin.key\" }}]\n\
         users = [{{ name = \"ann\", password_file = \"ann.password\" }},\n  \
         {{ name = \"bob\", role = \"change\", password_file = \"bob.password\" }}]\n"
    );
    CONFIGURATION.replace("[admin]\nlisten = \"unix:admin.sock\"\n", &admin)
}

/// Writes an authority `ca.pem`, another one `other.pem`, and the certificate of the listener.
fn write_certificates(folder: &Path, last_year: i32) {
    let authority = |name: &str| {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority")
    };
    let (issuer, other) = (authority("tests"), authority("others"));
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(vec!["localhost".into()]).expect("a name");
    params.not_after = rcgen::date_time_ymd(last_year, 1, 1);
    let certificate = params.signed_by(&key, &issuer).expect("signed");
    let write = |name: &str, text: String| std::fs::write(folder.join(name), text).expect("written");
    write("ca.pem", issuer.pem());
    write("other.pem", other.pem());
    write("admin.pem", certificate.pem());
    write_secret(&folder.join("admin.key"), &key.serialize_pem());
}

fn write_secret(path: &Path, text: &str) {
    std::fs::write(path, text).expect("written");
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).expect("set");
}

fn told(output: &Output) -> Output3 {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

fn check((code, text): Output3, expected: i32, part: &str) {
    assert!(code == Some(expected) && text.contains(part), "{code:?} {expected} {part:?}: {text}");
}

#[test]
fn commands_speak_tls_with_users() {
    let node = SecuredNode::start(2100);
    let hint = "--admin-ca admin.pem --user ann --password-file FILE";
    assert!(node.node.greeting.contains(hint), "{}", node.node.greeting);
    check(node.run_as("ann", "status"), 0, "well     shoal (shoal ");
    check(node.run_as("ann", "status --json"), 0, "\"verdict\":\"well\"");
    check(node.run_as("ann", "top --once"), 0, " 1 Now  2 Why not");
    check(node.run_as("ann", "top --once --view objects"), 0, "No object has had a request yet.");
    check(node.run_as("ann", "top misses"), 0, "no request has gone to an origin");
    check(node.run_as("ann", "explain http://a.test/"), 0, "cache key");
    check(node.run_as("ann", "cluster status"), 1, "this node is in no cluster");
    check(node.run_as("ann", "mirror ls"), 0, "no mirrors");
    check(node.run_as("bob", "purge --tag x"), 0, "purged");
    check(node.run_as("bob", "store offline nowhere"), 1, "no disk of the store is called");
    check(node.run_as("bob", "reload"), 0, "reloaded");
    // The settings name the certificate, and the user need not name it again.
    let own = ["--config", "shoal.toml", "--user", "ann", "--password-file", "ann.password"];
    check(node.run("status", &own), 0, "well");
    let doctor = node.run("doctor --quiet", &own);
    assert!(!doctor.1.contains("admin"), "{doctor:?}");
}

#[test]
fn refused_commands_name_the_remedy() {
    let node = SecuredNode::start(2100);
    let (url, ca) = (node.url.as_str(), ["--admin-ca", "ca.pem"]);
    check(node.run_as("ann", "purge --all"), 1, "this user's role is look");
    check(node.run("status", &["--admin", url, ca[0], ca[1]]), 3, "asks for a user: --user NAME");
    check(node.run("purge --all", &["--admin", url, ca[0], ca[1]]), 1, "asks for a user");
    let wrong = ["--admin", url, ca[0], ca[1], "--user", "ann", "--password-file", "wrong.password"];
    check(node.run("status", &wrong), 3, "refuses user \"ann\" with the password in wrong.password");
    check(node.run("status", &["--admin", url]), 3, "--admin-ca FILE names the authority");
    check(
        node.run("reload", &["--admin", url, ca[0], "other.pem"]),
        1,
        "--admin-ca FILE names the authority",
    );
    check(node.run("reload", &["--admin", url, ca[0], "shoal.toml"]), 2, "holds no certificate");
    let by_address = url.replace("localhost", "127.0.0.1");
    let told = "its certificate is not for 127.0.0.1; it is for localhost";
    check(node.run("status", &["--admin", &by_address, ca[0], ca[1]]), 3, told);
    let plain = by_address.replace("https://", "");
    check(node.run("status", &["--admin", &plain]), 3, &format!("speaks TLS; write https://{plain}"));
}

#[test]
fn health_check_needs_no_user() {
    let node = SecuredNode::start(2100);
    check(node.run("status --health", &["--admin", &node.url]), 0, "ready");
    check(node.run("status --health=live", &["--config", "shoal.toml"]), 0, "ready");
    std::fs::write(
        node.node.folder.path().join("shoal.toml"),
        configuration(1).replace("workers", "wrokers"),
    )
    .expect("written");
    check(
        node.run("status --health", &["--config", "shoal.toml"]),
        1,
        "no node answers at https://127.0.0.1:1",
    );
}

#[test]
fn certificate_that_has_expired_is_told() {
    let node = SecuredNode::start(2021);
    check(node.run_as("ann", "status"), 3, "its certificate has expired");
    check(node.run("status --health", &["--admin", &node.url]), 0, "ready");
    let own = ["--config", "shoal.toml", "--user", "ann", "--password-file", "ann.password"];
    check(node.run("status", &own), 2, "has ended");
    check(node.run("doctor", &own), 2, "admin.tls[0].certificate: the certificate in admin.pem has ended");
}

#[test]
fn plain_listener_behind_https_is_told() {
    let node = Node::start_with(&CONFIGURATION.replace("unix:admin.sock", "127.0.0.1:0"));
    let address = node.greeting.split("dashboard at http://").nth(1).expect("in the greeting");
    let address = address.split('/').next().expect("an address");
    let status = told(&node.command(&["status", "--admin", &format!("https://{address}")]));
    check(status, 3, &format!("no TLS is spoken there; write http://{address}"));
    check(told(&node.command(&["status", "--admin", address])), 0, "well");
}
