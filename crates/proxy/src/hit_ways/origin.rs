//! Stored responses of all kinds and lengths. An origin on its own thread sends each of them once.

use crate::server::fuzzing::body_byte;
use shoal_core::Timestamp;
use shoal_memory::LENT_MIN;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::SystemTime;

/// Response of the origin.
pub(super) struct OriginAnswer {
    pub path: &'static str,
    status: &'static str,
    fields: &'static str,
    body_bytes: usize,
}

impl OriginAnswer {
    const fn ok(path: &'static str, body_bytes: usize) -> Self {
        Self { path, status: "200 OK", fields: "", body_bytes }
    }

    /// Returns the whole response. Ages and lifetimes keep their number of digits, and each path
    /// has its own age.
    fn to_bytes(&self, number: usize) -> Vec<u8> {
        let Self { path, status, fields, body_bytes } = self;
        let date = shoal_semantics::date::format(Timestamp::from_system(SystemTime::now()));
        let date = date.to_str().expect("ASCII");
        let age = 100_000 + 10_000 * number;
        let length = match status.starts_with("204") {
            true => String::new(),
            false => format!("Content-Length: {body_bytes}\r\n"),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nDate: {date}\r\nAge: {age}\r\nCache-Control: max-age=9000000\r\nETag: {TAG}\r\n\
             Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\nX-Path: {path}\r\n{fields}{length}Connection: close\r\n\r\n"
        );
        [head.as_bytes(), &body(number, *body_bytes)].concat()
    }
}

/// Starts the origin, which ends with the process.
pub(super) fn start() -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback is there");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("accepted");
            let mut lines =
                BufReader::new(stream.try_clone().expect("a handle")).lines().map_while(Result::ok);
            let line = lines.next().unwrap_or_default();
            let path = line.split(' ').nth(1).unwrap_or_default();
            lines.take_while(|line| !line.is_empty()).for_each(drop);
            let given = PATHS.iter().enumerate().find(|(_, given)| given.path == path);
            let (number, given) = given.unwrap_or_else(|| panic!("{line:?} is not stored"));
            stream.write_all(&given.to_bytes(number)).expect("the proxy reads");
        }
    });
    address
}

fn body(number: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| body_byte((number << 32 | at) as u64)).collect()
}

/// Entity tag of every response.
pub(super) const TAG: &str = "\"t\"";

/// All stored responses, with lengths at the limits of the code paths.
pub(super) const PATHS: [OriginAnswer; 16] = [
    OriginAnswer::ok("/0", 0),
    OriginAnswer::ok("/1", 1),
    OriginAnswer::ok("/7", 7),
    OriginAnswer::ok("/500", 500),
    OriginAnswer {
        fields: "X-A: 1\r\nContent-Type: text/plain\r\nX-A: 2\r\n",
        ..OriginAnswer::ok("/fields", 600)
    },
    OriginAnswer::ok("/5000", 5000),
    OriginAnswer::ok("/12287", (12 << 10) - 1),
    OriginAnswer::ok("/12288", 12 << 10),
    OriginAnswer::ok("/12289", (12 << 10) + 1),
    OriginAnswer::ok("/70000", 70_000),
    OriginAnswer::ok("/copied", LENT_MIN - 1),
    OriginAnswer::ok("/lent", LENT_MIN),
    OriginAnswer { status: "404 Not Found", ..OriginAnswer::ok("/gone?a=b", 40) },
    OriginAnswer { status: "301 Elsewhere", fields: "Location: /1\r\n", ..OriginAnswer::ok("/moved", 50) },
    OriginAnswer { status: "204 No Content", ..OriginAnswer::ok("/nothing", 0) },
    OriginAnswer { fields: "Vary: Accept-Language\r\n", ..OriginAnswer::ok("/varied", 60) },
];
