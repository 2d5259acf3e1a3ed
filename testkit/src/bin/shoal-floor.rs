//! `shoal-floor ADDRESS FILE`: a server that does nothing.
//!
//! It answers every request head with the bytes of FILE: one read, one write, on one thread that
//! asks the kernel itself which clients are ready, and nothing in between. What CPU it takes for an
//! answer is what the kernel leaves to any server of this kind (`bench/floor.py`).

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::error::Error;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(address), Some(file), None) = (arguments.next(), arguments.next(), arguments.next()) else {
        return Err("usage: shoal-floor ADDRESS FILE".into());
    };
    let answer = std::fs::read(&file).map_err(|why| format!("{file}: {why}"))?;
    Ok(serve(&TcpListener::bind(address)?, &answer)?)
}

fn serve(listener: &TcpListener, answer: &[u8]) -> io::Result<()> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let mut head = vec![0; 4096];
    let (mut clients, mut events) = (Vec::<Option<Client>>::new(), Vec::<Event>::with_capacity(64));
    loop {
        epoll::wait(&epoll, spare_capacity(&mut events), None)?;
        for event in events.drain(..) {
            match event.data.u64() {
                LISTENER => clients.push(Some(accepted(listener, &epoll, clients.len())?)),
                number => {
                    let client = &mut clients[number as usize];
                    // A client that leaves ends its own connection only.
                    if client.as_mut().is_some_and(|client| !client.answer(&mut head, answer)) {
                        *client = None;
                    }
                }
            }
        }
    }
}

fn accepted(listener: &TcpListener, epoll: &OwnedFd, number: usize) -> io::Result<Client> {
    let (stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    epoll::add(
        epoll,
        &stream,
        EventData::new_u64(number as u64),
        EventFlags::IN | EventFlags::OUT | EventFlags::ET,
    )?;
    Ok(Client { stream, left: 0 })
}

struct Client {
    stream: TcpStream,
    /// Bytes of the answer that it has not taken.
    left: usize,
}

impl Client {
    /// Sends the answer to what it asks, or what is left of that; false when it has gone. Heads do
    /// not come in pieces here, nor several at once: the load generator waits for each answer.
    fn answer(&mut self, head: &mut [u8], answer: &[u8]) -> bool {
        if self.left == 0 {
            match recv(&self.stream, &mut *head, RecvFlags::empty()) {
                Ok((_, 0)) => return false,
                Ok(_) => self.left = answer.len(),
                Err(error) => return error == Errno::AGAIN,
            }
        }
        while self.left > 0 {
            match send(&self.stream, &answer[answer.len() - self.left..], SendFlags::NOSIGNAL) {
                Ok(sent) => self.left -= sent,
                Err(error) => return error == Errno::AGAIN,
            }
        }
        true
    }
}

/// What the kernel calls the listener; clients are numbered.
const LISTENER: u64 = u64::MAX;
