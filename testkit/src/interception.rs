//! Interception: settings with an authority that the binary makes, and clients inside a CONNECT.

use crate::client::{Connection, Head};
use crate::shoal::{Setup, binary};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

/// Runs the binary with these arguments in a folder.
pub fn shoal(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(binary());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("SHOAL_")) {
        command.env_remove(name);
    }
    command.args(arguments).current_dir(folder).output().expect("the binary runs")
}

impl Setup {
    /// Intercepts `hosts` at these ports, with an authority for `signed`.
    pub fn intercepting(self, hosts: &[&str], ports: &[u16], signed: &[&str]) -> Self {
        let made = shoal(self.folder(), &["ca", "init", "--folder", "ca", "--hosts", &signed.join(",")]);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let numbers: Vec<toml::Value> = ports.iter().map(|port| i64::from(*port).into()).collect();
        let folder = self.folder().join("ca").to_string_lossy().into_owned();
        self.set_list("intercept.hosts", hosts)
            .set("intercept.ports", numbers.clone())
            .set("intercept.authority", folder)
            .set("forward.connect_ports", numbers)
    }
}

/// What a TLS client uses that trusts the authorities in a PEM file.
pub fn trusting(path: &Path, protocols: &[&str]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).expect("a PEM file") {
        roots.add(certificate.expect("a certificate")).expect("a root");
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().expect("ring speaks TLS 1.2 and 1.3");
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Arc::new(config)
}

/// The root that `intercepting` has made.
pub fn root(folder: &Path) -> PathBuf {
    folder.join("ca").join("root.pem")
}

/// Sends CONNECT with these field lines. Gives the stream and the head of the answer.
pub fn connect(proxy: SocketAddr, authority: &str, fields: &str) -> (TcpStream, Head) {
    let mut stream = TcpStream::connect(proxy).expect("the proxy accepts");
    stream.set_read_timeout(Some(crate::wait::LIMIT)).expect("a limit above zero is taken");
    let request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{fields}\r\n");
    stream.write_all(request.as_bytes()).expect("the proxy reads");
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    let text = String::from_utf8_lossy(&head[..head.len() - 4]).into_owned();
    (stream, Head::parse(&text))
}

/// A connection inside a CONNECT, whose handshake asks for `name`. A failed handshake shows in the
/// answer.
pub fn inside(proxy: SocketAddr, authority: &str, name: &str, config: Arc<ClientConfig>) -> Connection {
    let (stream, head) = connect(proxy, authority, "");
    assert_eq!(head.status, 200, "CONNECT {authority}");
    over(stream, name, config)
}

/// A connection with TLS over an open stream.
pub fn over(stream: TcpStream, name: &str, config: Arc<ClientConfig>) -> Connection {
    let name = ServerName::try_from(name.to_owned()).expect("a host name");
    let session = ClientConnection::new(config, name).expect("a client configuration that fits");
    Connection::over(Box::new(StreamOwned::new(session, stream)))
}
