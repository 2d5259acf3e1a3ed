//! A CGI program (RFC 3875) as a route, for `git http-backend`.

use super::answer::Answer;
use super::journal::Received;
use crate::fields::Fields;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A program and the environment it gets besides the protocol's.
pub struct Cgi {
    /// The program.
    pub program: PathBuf,
    /// Further variables.
    pub environment: Vec<(String, String)>,
}

impl Cgi {
    /// Runs the program for one request. `base` is the route's prefix, taken off PATH_INFO.
    pub fn answer(&self, base: &str, request: &Received) -> Answer {
        match self.run(base, request) {
            Ok(output) => parse(&output),
            Err(error) => Answer::new(500).piece(format!("{}: {error}\n", self.program.display())),
        }
    }

    fn run(&self, base: &str, request: &Received) -> std::io::Result<Vec<u8>> {
        let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        let field = |name| request.fields.first(name).unwrap_or_default();
        let mut child = Command::new(&self.program)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("REQUEST_METHOD", &request.method)
            .env("PATH_INFO", path.strip_prefix(base).unwrap_or(path))
            .env("QUERY_STRING", query)
            .env("CONTENT_TYPE", field("content-type"))
            .env("CONTENT_LENGTH", request.body.len().to_string())
            .env("HTTP_CONTENT_ENCODING", field("content-encoding"))
            .env("HTTP_GIT_PROTOCOL", field("git-protocol"))
            .env("GIT_PROTOCOL", field("git-protocol"))
            .env("REMOTE_ADDR", "127.0.0.1")
            .env("GATEWAY_INTERFACE", "CGI/1.1")
            .env("SERVER_PROTOCOL", "HTTP/1.1")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        if let Some(mut input) = child.stdin.take() {
            // a program that answers without reading its input closes it
            let _ = input.write_all(&request.body);
        }
        Ok(child.wait_with_output()?.stdout)
    }
}

fn parse(output: &[u8]) -> Answer {
    let Some(end) = output.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Answer::new(502).piece("the program gave no head\n");
    };
    let fields = Fields::parse(&String::from_utf8_lossy(&output[..end]));
    let status =
        fields.first("status").and_then(|value| value.split(' ').next()).and_then(|code| code.parse().ok());
    let mut answer = Answer::new(status.unwrap_or(200)).piece(&output[end + 4..]);
    answer.fields.0.extend(fields.0.into_iter().filter(|(name, _)| !name.eq_ignore_ascii_case("status")));
    answer
}
