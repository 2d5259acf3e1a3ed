//! Client of a running node's admin listener: one request, one response, over TCP, TLS or a Unix
//! socket, with the user's password if there is one.

mod address;
mod options;
mod trust;

pub use address::AdminUrl;
pub use options::{AdminOptions, NodeOptions};
pub use trust::{Trust, certificates};

use crate::failure::Failure;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::fmt::{self, Write as _};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Response of an admin listener.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status of the response.
    pub status: u16,
    /// Body of the response.
    pub body: String,
}

/// A node, and the way to its admin listener. Shown as its address.
pub struct AdminNode {
    url: AdminUrl,
    trust: Trust,
    credentials: Option<Credentials>,
    config: OnceLock<Arc<ClientConfig>>,
    patience: Patience,
}

/// User and password.
pub struct Credentials {
    pub user: String,
    pub password: String,
    /// File of the password.
    pub file: PathBuf,
}

/// Longest waits for an answer.
#[derive(Clone, Copy, Debug)]
struct Patience {
    look: Duration,
    change: Duration,
}

impl AdminNode {
    /// Creates the way to a node.
    pub fn new(url: AdminUrl, trust: Trust, credentials: Option<Credentials>) -> Self {
        let patience = Patience { look: LOOK_TIMEOUT, change: CHANGE_TIMEOUT };
        Self { url, trust, credentials, config: OnceLock::new(), patience }
    }

    /// Waits at most `patience` for the answer to a look.
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience.look = patience;
        self
    }

    /// Returns the address.
    pub fn url(&self) -> &AdminUrl {
        &self.url
    }

    /// Sends one request with JSON and reads the response.
    pub fn ask(&self, method: &str, path: &str, body: &str) -> Result<Answer, Failure> {
        self.send(method, path, body.as_bytes())
    }

    /// Sends one request and reads the response. A refusal to this user is a failure.
    pub fn send(&self, method: &str, path: &str, body: &[u8]) -> Result<Answer, Failure> {
        let request = self.request(method, path, body);
        let patience = if method == "GET" { self.patience.look } else { self.patience.change };
        let until = Instant::now() + patience;
        let unreachable = |error: io::Error| self.unreachable(&error);
        let bytes = match &self.url {
            AdminUrl::Unix(path) => {
                let stream = UnixStream::connect(path).map_err(unreachable)?;
                stream.set_read_timeout(Some(READ_TIMEOUT)).map_err(unreachable)?;
                exchange(stream, &request, until)
            }
            AdminUrl::Tcp { is_tls, host, port } => {
                let stream = connect(host, *port).map_err(unreachable)?;
                stream.set_read_timeout(Some(READ_TIMEOUT)).map_err(unreachable)?;
                match is_tls {
                    true => exchange(self.encrypted(stream, host, until)?, &request, until),
                    false => exchange(stream, &request, until),
                }
            }
        };
        let bytes = bytes.map_err(|error| match is_timeout(&error) {
            true => Failure::Unreachable(format!("{self} gives no answer within {} s", patience.as_secs())),
            false => self.unreachable(&error),
        })?;
        let answer = parse(&bytes).ok_or_else(|| self.no_listener(&bytes))?;
        self.refusal(&answer).map_or(Ok(answer), Err)
    }

    fn request(&self, method: &str, path: &str, body: &[u8]) -> Vec<u8> {
        // Nothing in a path may end the request's line: paths are made here, names in them encoded.
        assert!(path.starts_with('/') && !path.contains([' ', '\r', '\n']), "{path:?} is a path");
        debug_assert!(method.bytes().all(|byte| byte.is_ascii_uppercase()), "{method:?} is a method");
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n",
            self.url.authority(),
            body.len()
        );
        if let Some(Credentials { user, password, .. }) = &self.credentials {
            let encoded = STANDARD.encode(format!("{user}:{password}"));
            let _ = write!(head, "Authorization: Basic {encoded}\r\n");
        }
        head.push_str("\r\n");
        debug_assert_eq!(head.matches("\r\n\r\n").count(), 1, "a head ends once");
        [head.as_bytes(), body].concat()
    }

    /// Makes the handshake.
    fn encrypted(
        &self,
        mut stream: TcpStream,
        host: &str,
        until: Instant,
    ) -> Result<StreamOwned<ClientConnection, TcpStream>, Failure> {
        let config = match self.config.get() {
            Some(config) => Arc::clone(config),
            None => {
                let made = self.trust.config()?;
                Arc::clone(self.config.get_or_init(|| made))
            }
        };
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| Failure::Usage(format!("{host:?} cannot stand in a certificate")))?;
        let failed = |why: String| Failure::Runtime(format!("{self}: {why}"));
        let mut connection =
            ClientConnection::new(config, name).map_err(|error| failed(error.to_string()))?;
        let until = until.min(Instant::now() + CONNECT_TIMEOUT);
        while connection.is_handshaking() {
            if let Err(error) = connection.complete_io(&mut stream) {
                if is_timeout(&error) && Instant::now() < until {
                    continue;
                }
                let tls = error.get_ref().and_then(|source| source.downcast_ref::<rustls::Error>());
                let why = match tls {
                    Some(tls) => trust::reason(tls, &self.url.authority()),
                    None if is_timeout(&error) => {
                        "no handshake within the time; is it a TLS listener?".into()
                    }
                    None => format!(
                        "the handshake was cut ({error}); is it a TLS listener? http://{} asks without TLS",
                        self.url.authority()
                    ),
                };
                return Err(failed(why));
            }
        }
        Ok(StreamOwned::new(connection, stream))
    }

    fn unreachable(&self, error: &io::Error) -> Failure {
        Failure::Unreachable(format!(
            "no node answers at {self}: {error}; is it running? (--admin names another address, --config the settings that \
             do)"
        ))
    }

    /// Returns the failure of bytes that are no answer.
    fn no_listener(&self, bytes: &[u8]) -> Failure {
        match bytes {
            // RFC 8446, 5.1: an alert (21) of version 3.x, or nothing at all
            [21, 3, ..] => Failure::Runtime(format!(
                "{self} speaks TLS; write https://{}, and --admin-ca FILE for its certificate",
                self.url.authority()
            )),
            [] => Failure::Unreachable(format!("{self} closes the connection without an answer")),
            _ => Failure::Unreachable(format!("what answers at {self} is no admin listener, or was cut")),
        }
    }

    /// Returns the failure that a refusal of this user is.
    fn refusal(&self, answer: &Answer) -> Option<Failure> {
        let told = answer.body.trim();
        let why = match (answer.status, &self.credentials) {
            (401, None) => format!(
                "{self} asks for a user: --user NAME --password-file FILE, or SHOAL_ADMIN_USER and SHOAL_ADMIN_PASSWORD_FILE"
            ),
            (401, Some(given)) => format!(
                "{self} refuses user {:?} with the password in {}: one of them is wrong",
                given.user,
                given.file.display()
            ),
            (403, Some(given)) if told.contains("role") => format!("{self} refuses {:?}: {told}", given.user),
            (403, _) if told.contains("Host field") => {
                format!(
                    "{self} is not known by this name: add it to admin.hosts of the node, or ask by its address"
                )
            }
            (403 | 429, _) => format!("{self} refuses: {told}"),
            _ => return None,
        };
        Some(Failure::Runtime(why))
    }
}

impl fmt::Display for AdminNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

/// Appends a value with every byte encoded that is not a letter or a digit.
pub fn push_encoded(text: &mut String, value: &str) {
    for byte in value.bytes() {
        match byte.is_ascii_alphanumeric() {
            true => text.push(char::from(byte)),
            false => drop(write!(text, "%{byte:02X}")),
        }
    }
    debug_assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{text:?} is encoded");
}

/// Connects to the first address of the host that answers.
fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs()?.take(ADDRESSES_MAX) {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Sends the request, and reads until the connection ends.
fn exchange(mut stream: impl Read + Write, request: &[u8], until: Instant) -> io::Result<Vec<u8>> {
    debug_assert!(!request.is_empty(), "there is something to send");
    // A listener that has refused closes its side; its answer is worth more than the error.
    let sent = stream.write_all(request).and_then(|()| stream.flush());
    let (mut bytes, mut part) = (Vec::new(), vec![0; 64 << 10]);
    while bytes.len() < ANSWER_MAX {
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(read) => bytes.extend_from_slice(&part[..read]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if is_timeout(&error) && Instant::now() < until => continue,
            // TLS without its closing alert, or a reset behind the answer: the length tells.
            Err(error) if bytes.is_empty() || is_timeout(&error) => return Err(sent.err().unwrap_or(error)),
            Err(_) => break,
        }
        if Instant::now() > until {
            return Err(ErrorKind::TimedOut.into());
        }
    }
    Ok(bytes)
}

/// Parses a response that ends with its connection. A body that is shorter than its length is none.
fn parse(bytes: &[u8]) -> Option<Answer> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let held = bytes.windows(4).position(|part| part == b"\r\n\r\n").map(|at| bytes.len() - at - 4)?;
    let is_whole = length.is_none_or(|length| held >= length);
    debug_assert!(held <= bytes.len() && status < 1000, "a body is a part of its response");
    is_whole.then(|| Answer { status, body: body.to_owned() })
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Addresses of a name that are tried.
const ADDRESSES_MAX: usize = 4;

/// Longest wait for the answer to a look.
const LOOK_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest wait for the answer to a change. A purge may walk over the whole index.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(300);

/// Longest wait of one read, after which the time is compared.
const READ_TIMEOUT: Duration = Duration::from_secs(1);

/// Largest number of bytes read of a response.
const ANSWER_MAX: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn node(text: &str, user: Option<&str>) -> AdminNode {
        let credentials =
            |user: &str| Credentials { user: user.into(), password: "secret".into(), file: "/p".into() };
        AdminNode::new(text.parse().expect("an address"), Trust::System, user.map(credentials))
    }

    #[test]
    fn answers_are_read_and_others_refused() {
        let answer = parse(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
        assert_eq!(answer, Some(Answer { status: 200, body: "hi".into() }));
        let cut = &b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nhi"[..];
        for bytes in [&b""[..], b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 2", b"HTTP/1.1 abc\r\n\r\n", cut] {
            assert_eq!(parse(bytes), None);
        }
    }

    #[test]
    fn requests_carry_host_and_user() {
        let text = |node: AdminNode| String::from_utf8(node.request("GET", "/status", b"")).expect("ASCII");
        let plain = text(node("127.0.0.1:3129", None));
        assert!(
            plain.contains("\r\nHost: 127.0.0.1:3129\r\n") && !plain.contains("Authorization"),
            "{plain}"
        );
        let named = text(node("https://a.test", Some("ann")));
        assert!(named.contains("\r\nHost: a.test:3129\r\n"), "{named}");
        assert!(named.contains("\r\nAuthorization: Basic YW5uOnNlY3JldA==\r\n"), "{named}");
    }

    #[test]
    fn refusals_tell_the_way_in() {
        let told = |status: u16, body: &str, user: Option<&str>| {
            let answer = Answer { status, body: body.into() };
            node("https://a.test", user).refusal(&answer).map(|failure| failure.lines().concat())
        };
        assert_eq!(told(200, "", None), None);
        assert_eq!(told(422, "", None), None);
        for (status, body, user, why) in [
            (401, "", None, "--user NAME"),
            (401, "", Some("ann"), "user \"ann\" with the password in /p"),
            (403, "this user's role is look; it needs change", Some("ann"), "role is look"),
            (403, "the Host field is neither", None, "admin.hosts"),
            (429, "too many wrong passwords", Some("ann"), "too many"),
        ] {
            let told = told(status, body, user).expect("a failure");
            assert!(told.contains(why) && told.contains("https://a.test:3129"), "{told}");
        }
        let alert = node("127.0.0.1:1", None).no_listener(&[21, 3, 3, 0, 2]);
        assert!(alert.lines().concat().contains("https://127.0.0.1:1"));
    }

    #[test]
    fn values_in_paths_are_encoded() {
        let mut text = String::new();
        push_encoded(&mut text, "a.b/&é");
        assert_eq!(text, "a%2Eb%2F%26%C3%A9");
    }
}
