//! Destinations of the access log, as `log.access` names them.

use std::path::PathBuf;

/// Destination of the access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// No log.
    None,
    /// Standard output.
    Stdout,
    /// A file.
    File(PathBuf),
    /// A syslog server or the machine's own, by RFC 5424.
    Syslog(SyslogAddress),
    /// The systemd journal, by its socket.
    Journal(PathBuf),
}

/// Address of a syslog server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyslogAddress {
    /// Socket of this machine.
    Unix(PathBuf),
    /// Host and port over UDP (RFC 5426).
    Udp(String),
    /// Host and port over TCP (RFC 6587, octet counting).
    Tcp(String),
}

impl LogTarget {
    /// Reads the destination.
    ///
    /// # Errors
    /// The mistake, in a line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let socket = |rest: &str, default: &str| PathBuf::from(if rest.is_empty() { default } else { rest });
        if let Some(rest) = text.strip_prefix("syslog") {
            return match rest {
                "" => Ok(Self::Syslog(SyslogAddress::Unix(DEV_LOG.into()))),
                _ => match rest.split_once("://") {
                    Some(("+unix", path)) => Ok(Self::Syslog(SyslogAddress::Unix(socket(path, DEV_LOG)))),
                    Some(("+udp", address)) => {
                        Ok(Self::Syslog(SyslogAddress::Udp(host_and_port(address, 514)?)))
                    }
                    Some(("+tcp", address)) => {
                        Ok(Self::Syslog(SyslogAddress::Tcp(host_and_port(address, 601)?)))
                    }
                    Some((scheme, _)) => {
                        Err(format!("syslog{scheme} is none of syslog+unix, syslog+udp and syslog+tcp"))
                    }
                    None => Ok(Self::File(text.into())),
                },
            };
        }
        Ok(match text {
            "" | "none" => Self::None,
            "stdout" => Self::Stdout,
            "journald" => Self::Journal(JOURNAL.into()),
            _ => match text.strip_prefix("journald://") {
                Some(path) => Self::Journal(socket(path, JOURNAL)),
                None => Self::File(text.into()),
            },
        })
    }

    /// Returns the file, if the log is one.
    pub fn file(&self) -> Option<&std::path::Path> {
        match self {
            Self::File(path) => Some(path),
            _ => None,
        }
    }
}

/// Returns the host with its port, and the path, of an OTLP collector's URL.
///
/// # Errors
/// The mistake, in a line.
pub fn collector(endpoint: &str) -> Result<(String, String), String> {
    let Some(rest) = endpoint.strip_prefix("http://") else {
        return Err(format!(
            "{endpoint:?} is no http:// URL; traces go to a collector on this machine or in its network"
        ));
    };
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    if !path.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#".contains(&byte)) {
        return Err(format!("{endpoint:?} has a path that is none"));
    }
    let path = path.trim_end_matches('/');
    debug_assert!(!path.ends_with('/'));
    let path = if path.is_empty() { String::new() } else { format!("/{path}") };
    Ok((host_and_port(authority, 4318)?, path))
}

/// Returns `host:port`, with the port that the protocol has by default.
fn host_and_port(address: &str, default: u16) -> Result<String, String> {
    let bad = || format!("{address:?} is no host with a port");
    let (host, port) = match address.rsplit_once(':') {
        // A bare IPv6 address has no port.
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
            (host, port.parse::<u16>().map_err(|_| bad())?)
        }
        _ => (address, default),
    };
    let is_sound = !host.is_empty()
        && host.len() <= 255
        && host.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/');
    if !is_sound || port == 0 {
        return Err(bad());
    }
    assert!(port > 0 && !host.is_empty());
    Ok(match host.contains(':') && !host.starts_with('[') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    })
}

/// Socket of the machine's syslog.
const DEV_LOG: &str = "/dev/log";
/// Socket of the systemd journal.
const JOURNAL: &str = "/run/systemd/journal/socket";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collector_has_a_host_and_a_path() {
        for (endpoint, authority, path) in [
            ("http://127.0.0.1:4318", "127.0.0.1:4318", ""),
            ("http://otel.test/", "otel.test:4318", ""),
            ("http://otel.test:80/a/b/", "otel.test:80", "/a/b"),
            ("http://[::1]:4318/x", "[::1]:4318", "/x"),
        ] {
            assert_eq!(collector(endpoint), Ok((authority.into(), path.into())), "{endpoint}");
        }
        for endpoint in
            ["https://otel.test", "otel.test:4318", "http://", "http://a b", "http://a/x y", "http://a/?b"]
        {
            assert!(collector(endpoint).is_err(), "{endpoint}");
        }
    }

    #[test]
    fn destinations_are_told_by_their_beginning() {
        let udp = |address: &str| LogTarget::Syslog(SyslogAddress::Udp(address.into()));
        let unix = |path: &str| LogTarget::Syslog(SyslogAddress::Unix(path.into()));
        for (text, expected) in [
            ("", LogTarget::None),
            ("none", LogTarget::None),
            ("stdout", LogTarget::Stdout),
            ("access.log", LogTarget::File("access.log".into())),
            ("syslog.txt", LogTarget::File("syslog.txt".into())),
            ("syslog", unix("/dev/log")),
            ("syslog+unix://", unix("/dev/log")),
            ("syslog+unix:///run/x", unix("/run/x")),
            ("syslog+udp://logs.test", udp("logs.test:514")),
            ("syslog+udp://[2001:db8::1]:99", udp("[2001:db8::1]:99")),
            ("syslog+udp://2001:db8::1", udp("[2001:db8::1]:514")),
            ("syslog+tcp://10.0.0.1", LogTarget::Syslog(SyslogAddress::Tcp("10.0.0.1:601".into()))),
            ("journald", LogTarget::Journal("/run/systemd/journal/socket".into())),
            ("journald:///run/j", LogTarget::Journal("/run/j".into())),
        ] {
            assert_eq!(LogTarget::parse(text), Ok(expected), "{text}");
        }
        for text in
            ["syslog+http://a", "syslog+udp://", "syslog+tcp://a:x", "syslog+tcp://a:0", "syslog+udp://a b:1"]
        {
            assert!(LogTarget::parse(text).is_err(), "{text}");
        }
    }
}
