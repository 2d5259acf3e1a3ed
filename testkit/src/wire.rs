//! Byte streams of either end, plain or TLS, blocking with a limit on every wait.

use rustls::{ClientConnection, ServerConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// A connection's bytes.
pub trait Wire: Read + Write + Send {
    /// The socket below.
    fn socket(&self) -> &TcpStream;

    /// Ends this side's sending in order.
    fn end_sending(&mut self) -> io::Result<()>;
}

impl Wire for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }

    fn end_sending(&mut self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

impl Wire for StreamOwned<ClientConnection, TcpStream> {
    fn socket(&self) -> &TcpStream {
        &self.sock
    }

    fn end_sending(&mut self) -> io::Result<()> {
        self.conn.send_close_notify();
        self.flush()?;
        self.sock.shutdown(Shutdown::Write)
    }
}

impl Wire for StreamOwned<ServerConnection, TcpStream> {
    fn socket(&self) -> &TcpStream {
        &self.sock
    }

    fn end_sending(&mut self) -> io::Result<()> {
        self.conn.send_close_notify();
        self.flush()?;
        self.sock.shutdown(Shutdown::Write)
    }
}

/// Limits how long a read may wait.
pub fn limit_reads(wire: &dyn Wire, limit: Duration) {
    wire.socket().set_read_timeout(Some(limit)).expect("a limit above zero is taken");
}

/// Reads some bytes. A process that was stopped and goes on begins its wait anew.
pub fn read(wire: &mut dyn Wire, bytes: &mut [u8]) -> io::Result<usize> {
    loop {
        match wire.read(bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

/// Closes so that the peer sees a reset rather than an end: RST instead of FIN.
pub fn reset(wire: Box<dyn Wire>) {
    let lingering = rustix::net::sockopt::set_socket_linger(wire.socket(), Some(Duration::ZERO));
    lingering.expect("an open socket takes the option");
}
