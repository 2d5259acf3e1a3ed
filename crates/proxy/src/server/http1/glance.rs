//! The short way through a connection: a hit in RAM is written where it stands, and the head never leaves the buffer.

use super::{Connection, Next, head};
use crate::message::{Glance, Handler, Record};
use crate::server::Shared;
use crate::server::account::Account;
use crate::server::client_io::ClientIo;
use crate::server::socket::Gone;
use bytes::Buf;
use std::time::Instant;

/// A hit whose reply is in the output.
pub(super) struct Glanced {
    record: Option<Box<Record>>,
    received: Instant,
    head_bytes: usize,
}

impl<T: ClientIo> Connection<T> {
    /// Puts the reply to a plain request that is fresh in RAM into the output. `None` leaves everything as it was.
    pub(super) fn glance<H: Handler>(&mut self, shared: &Shared<H>, received: Instant) -> Option<Glanced> {
        if self.drain.is_draining() || self.live.keep_alive.is_zero() {
            return None;
        }
        let get = self.parser.plain(&self.socket.input, &self.live.limits)?;
        let (output, dates) = (&mut self.socket.output, &mut self.dates);
        let glance = shared.handler.glance(&get, &self.client, |hit| {
            head::hit(&mut output.head, hit, received, dates);
            output.set_data(hit.body.clone(), false);
        });
        let Glance::Hit(record) = glance else { return None };
        let taken = get.head_bytes;
        self.socket.input.advance(taken);
        Some(Glanced { record, received, head_bytes: self.socket.output.head.len() })
    }

    /// Sends it.
    pub(super) async fn finish_glanced<H: Handler>(&mut self, shared: &Shared<H>, glanced: Glanced) -> Next {
        let Glanced { record, received, head_bytes } = glanced;
        let mut account = record.map(|record| Account::open(&*shared.handler, record, received));
        let length = self.socket.output.data.len();
        let sent = self.socket.send(self.live.idle_timeout).await;
        if let Some(account) = &mut account {
            account.head_bytes = head_bytes as u64;
            account.body_bytes =
                sent.as_ref().map_or_else(|Gone| self.socket.output.data_written(), |()| length) as u64;
        }
        if sent.is_err() {
            return Next::Drop;
        }
        let due = match account {
            Some(account) => {
                let now = Instant::now();
                account.complete(now);
                now
            }
            // Nobody wants to know how long it took, so that the clock need not be read again.
            None => received,
        };
        self.socket.deadline.set(due + self.live.keep_alive);
        self.socket.shrink();
        Next::Keep
    }
}
