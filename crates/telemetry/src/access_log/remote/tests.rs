//! Receivers of access log lines on this machine: they parse each message.

use super::*;
use std::io::Read;
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;

fn time() -> Timestamp {
    Timestamp::from_millis(971_186_136_004)
}

/// Splits a message of RFC 5424 into its eight parts.
fn parts(message: &str) -> Vec<&str> {
    message.splitn(8, ' ').collect()
}

fn assert_is_syslog(message: &str, line: &str) {
    let parts = parts(message);
    assert_eq!(parts[..2], ["<30>1", "2000-10-10T13:55:36.004Z"], "{message}");
    assert!(!parts[2].is_empty() && parts[3] == "shoal" && parts[5..7] == ["access", "-"], "{message}");
    assert_eq!(parts[4], std::process::id().to_string());
    assert_eq!(parts[7], line);
}

fn received(socket: &UnixDatagram) -> String {
    let mut buffer = vec![0; 1 << 16];
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
    let read = socket.recv(&mut buffer).expect("a message");
    String::from_utf8(buffer[..read].to_vec()).expect("UTF-8")
}

#[test]
fn unix_syslog_gets_a_message_a_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    let mut remote = Remote::new(RemoteAddress::Syslog(SyslogAddress::Unix(path.clone())));
    remote.send(b"one line\nanother\n", time()).expect("sent");
    assert_is_syslog(&received(&socket), "one line");
    assert_is_syslog(&received(&socket), "another");
    // The receiver is started again under its name.
    drop(socket);
    std::fs::remove_file(&path).expect("there");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    remote.send(b"third\n", time()).expect("sent to the new one");
    assert_is_syslog(&received(&socket), "third");
}

#[test]
fn journal_gets_fields() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    let mut remote = Remote::new(RemoteAddress::Journal(path));
    remote.send(b"a=b MESSAGE=x\n", time()).expect("sent");
    let message = received(&socket);
    let fields: Vec<(&str, &str)> =
        message.lines().map(|line| line.split_once('=').expect("a field")).collect();
    assert!(fields.contains(&("PRIORITY", "6")) && fields.contains(&("SYSLOG_IDENTIFIER", "shoal")));
    assert_eq!(
        fields.iter().filter(|(name, _)| *name == "MESSAGE").collect::<Vec<_>>(),
        [&("MESSAGE", "a=b MESSAGE=x")]
    );
}

#[test]
fn udp_syslog_gets_a_datagram_a_line() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
    let address = socket.local_addr().expect("bound").to_string();
    let mut remote = Remote::new(RemoteAddress::Syslog(SyslogAddress::Udp(address)));
    remote.send(b"one\ntwo\n", time()).expect("sent");
    for line in ["one", "two"] {
        let mut buffer = [0; 2048];
        let read = socket.recv(&mut buffer).expect("a datagram");
        assert_is_syslog(std::str::from_utf8(&buffer[..read]).expect("UTF-8"), line);
    }
}

#[test]
fn tcp_syslog_counts_octets() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("bound").to_string();
    let mut remote = Remote::new(RemoteAddress::Syslog(SyslogAddress::Tcp(address)));
    remote.send(b"one\ntwo and more\n", time()).expect("sent");
    drop(remote);
    let (mut stream, _) = listener.accept().expect("a connection");
    let mut all = String::new();
    stream.read_to_string(&mut all).expect("UTF-8");
    let mut rest = &*all;
    for line in ["one", "two and more"] {
        let (length, after) = rest.split_once(' ').expect("a count");
        let (message, after) = after.split_at(length.parse().expect("a count"));
        assert_is_syslog(message, line);
        rest = after;
    }
    assert_eq!(rest, "");
}

#[test]
fn lines_without_a_receiver_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("nobody");
    let mut remote = Remote::new(RemoteAddress::Journal(path.clone()));
    let (lost, failure) = remote.send(b"a\nb\nc\n", time()).expect_err("nobody is there");
    assert!(lost == 3 && failure.is_some_and(|error| error.kind() == ErrorKind::NotFound));
    let (lost, failure) = remote.send(b"d\n", time()).expect_err("it is not tried again at once");
    assert!(lost == 1 && failure.is_none());
    let socket = UnixDatagram::bind(&path).expect("a socket");
    remote.reopen();
    remote.send(b"e\n", time()).expect("sent");
    assert!(received(&socket).ends_with("MESSAGE=e\n"));
}

#[test]
fn long_lines_are_clipped_at_a_character() {
    let line = format!("{}é", "x".repeat(LINE_MAX - 1));
    assert_eq!(clipped(line.as_bytes()).len(), LINE_MAX - 1);
    assert_eq!(clipped(b"short"), b"short");
}
