//! Interception: settings with an authority that the binary makes, and clients inside a CONNECT.

use crate::client::{Connection, Head};
use crate::shoal::{Setup, binary};
use bytes::Bytes;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

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

/// A stream through a CONNECT over HTTP/2 without TLS. A thread carries the bytes.
pub fn connect_over_http2(proxy: SocketAddr, authority: &str) -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback takes listeners");
    let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
    near.set_read_timeout(Some(crate::wait::LIMIT)).expect("a limit above zero is taken");
    let (far, _) = listener.accept().expect("just connected");
    far.set_nonblocking(true).expect("a socket takes the option");
    let connect = http::Request::connect(authority).body(()).expect("an authority");
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        // How the stream ends shows at the near end.
        let _ = runtime.expect("a thread may have a runtime").block_on(relay(proxy, connect, far));
    });
    near
}

async fn relay(proxy: SocketAddr, connect: http::Request<()>, far: TcpStream) -> Result<(), h2::Error> {
    let stream = tokio::net::TcpStream::connect(proxy).await.expect("the proxy accepts");
    let (sender, connection) = h2::client::handshake(stream).await?;
    tokio::spawn(connection);
    let (answer, mut sending) = sender.ready().await?.send_request(connect, false)?;
    let answer = answer.await?;
    assert_eq!(answer.status(), 200, "CONNECT over HTTP/2");
    let mut receiving = answer.into_body();
    let far = tokio::net::TcpStream::from_std(far).expect("the runtime takes sockets");
    let (mut read, mut write) = far.into_split();
    let up = async {
        let mut buffer = vec![0; 16 << 10];
        loop {
            let count = read.read(&mut buffer).await.unwrap_or(0);
            sending.send_data(Bytes::copy_from_slice(&buffer[..count]), count == 0)?;
            if count == 0 {
                return Ok(());
            }
        }
    };
    let down = async {
        while let Some(bytes) = receiving.data().await {
            let bytes = bytes?;
            receiving.flow_control().release_capacity(bytes.len())?;
            if write.write_all(&bytes).await.is_err() {
                break;
            }
        }
        let _ = write.shutdown().await;
        Ok(())
    };
    let (up, down): (Result<(), h2::Error>, Result<(), h2::Error>) = tokio::join!(up, down);
    up.and(down)
}
