//! The clients of a training: a fixed number of threads, each with a connection, that ask in turn
//! and look at every answer.

use super::kinds::{Kind, Over};
use super::requests::OBJECTS;
use super::site::{Site, bytes_of};
use crate::certificates::Authority;
use crate::h2::H2Connection;
use crate::{Connection, Request, Response, Shoal, wait};
use std::time::Instant;

/// What all clients know.
pub struct World<'w> {
    /// The node.
    pub shoal: &'w Shoal,
    /// What it fetches.
    pub site: &'w Site,
    /// Who signed its certificate.
    pub authority: &'w Authority,
    /// When time is up.
    pub until: Instant,
}

/// Clients at once.
pub const CLIENTS: usize = 16;

impl World<'_> {
    /// Asks `count` requests of a kind.
    pub fn drive(&self, kind: &Kind, count: usize) {
        if kind.hits {
            self.warm(kind);
        }
        std::thread::scope(|scope| {
            for first in 0..CLIENTS.min(count) {
                let numbers: Vec<usize> = (first..count).step_by(CLIENTS).collect();
                scope.spawn(move || self.ask(kind, &numbers));
            }
        });
    }

    /// Has the node fetch what a kind of hits will find.
    fn warm(&self, kind: &Kind) {
        let mut client = self.connect(kind);
        for number in 0..OBJECTS * 2 {
            let request = [self.request(kind, number)];
            wait::until("what hits find is stored", || client.ask(&request, &self.host(kind))[0].hit());
        }
    }

    /// One client's requests.
    fn ask(&self, kind: &Kind, numbers: &[usize]) {
        for on_one in numbers.chunks(kind.on_one) {
            let mut client = self.connect(kind);
            for at_once in on_one.chunks(kind.at_once) {
                assert!(Instant::now() < self.until, "the time of the training is up at {}", kind.what);
                let requests: Vec<Request> =
                    at_once.iter().map(|number| self.request(kind, *number)).collect();
                let answers = client.ask(&requests, &self.host(kind));
                requests.iter().zip(&answers).for_each(|(request, answer)| check(kind, request, answer));
            }
        }
    }

    fn request(&self, kind: &Kind, number: usize) -> Request {
        let mut request = (kind.request)(number);
        if kind.over == Over::Forward {
            request.target = format!("http://{}{}", self.site.authority(), request.target);
        }
        request
    }

    /// The host that stands in requests.
    fn host(&self, kind: &Kind) -> String {
        match kind.over {
            Over::Forward | Over::Tunnel => self.site.authority(),
            _ => kind.host.into(),
        }
    }

    fn connect(&self, kind: &Kind) -> Client {
        let tls = |protocol| (self.shoal.address("tls"), kind.host, self.authority.client(&[protocol]));
        match kind.over {
            Over::Plain => Client::Http1(self.shoal.connect()),
            Over::Forward => Client::Http1(self.shoal.connect_forward()),
            Over::Tunnel => {
                let mut connection = self.shoal.connect_forward();
                let authority = self.site.authority();
                connection.ask(&Request::new("CONNECT", &authority), &authority).expect_status(200);
                Client::Http1(connection)
            }
            Over::Tls => {
                let (address, name, config) = tls("http/1.1");
                Client::Http1(Connection::open_tls(address, name, config))
            }
            Over::Http2 => Client::Http2(H2Connection::open(self.shoal.address("reverse"))),
            Over::Http2Tls => {
                let (address, name, config) = tls("h2");
                Client::Http2(H2Connection::open_tls(address, name, config))
            }
        }
    }
}

/// A connection.
enum Client {
    Http1(Connection),
    Http2(H2Connection),
}

impl Client {
    /// Sends requests together and reads their answers.
    fn ask(&mut self, requests: &[Request], host: &str) -> Vec<Response> {
        match self {
            Self::Http1(connection) => {
                connection.send(requests.iter().flat_map(|each| each.to_bytes(host)).collect::<Vec<u8>>());
                let read = |request: &Request| connection.try_response(&request.method);
                let read = requests.iter().map(read).collect::<Result<_, _>>();
                read.unwrap_or_else(|why| panic!("{requests:?}: {why}"))
            }
            Self::Http2(connection) => connection.ask_all(requests, host),
        }
    }
}

/// A profile of failures would be worse than none.
fn check(kind: &Kind, request: &Request, response: &Response) {
    response.expect_status(kind.status);
    if kind.status == 200 && request.method == "GET" {
        let expected = bytes_of(&request.target);
        assert_eq!(response.body.len(), expected, "{} of {}", request.target, kind.what);
    }
    if kind.hits {
        response.expect_hit();
    }
}
