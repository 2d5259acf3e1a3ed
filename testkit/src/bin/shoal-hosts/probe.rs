//! What tests run on hosts: a server and clients that tell how the network is.

use serde_json::json;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

/// Answers eight bytes with a body of so many, and each datagram with itself. Prints a line once it
/// listens.
pub(crate) fn answer(address: SocketAddr) -> Result<(), String> {
    let listener = TcpListener::bind(address).map_err(told)?;
    let datagrams = UdpSocket::bind(address).map_err(told)?;
    thread::spawn(move || echo(&datagrams));
    println!("listening");
    for stream in listener.incoming() {
        let mut stream = stream.map_err(told)?;
        thread::spawn(move || {
            let mut asked = [0; 8];
            if stream.read_exact(&mut asked).is_ok() {
                // A client that has gone needs no body.
                let _ = stream.write_all(&body(u64::from_be_bytes(asked) as usize));
            }
        });
    }
    Ok(())
}

fn echo(datagrams: &UdpSocket) {
    let mut buffer = [0; 2048];
    while let Ok((length, from)) = datagrams.recv_from(&mut buffer) {
        let _ = datagrams.send_to(&buffer[..length], from);
    }
}

/// Fetches a body and compares it; prints the microseconds from connecting to its end.
pub(crate) fn fetch(address: SocketAddr, bytes: usize) -> Result<(), String> {
    let begin = Instant::now();
    let mut stream = TcpStream::connect_timeout(&address, CONNECT_LIMIT).map_err(told)?;
    stream.set_read_timeout(Some(READ_LIMIT)).map_err(told)?;
    stream.write_all(&(bytes as u64).to_be_bytes()).map_err(told)?;
    let mut received = Vec::with_capacity(bytes);
    stream.read_to_end(&mut received).map_err(told)?;
    if received != body(bytes) {
        return Err(format!("{} bytes came that are not the {bytes} asked for", received.len()));
    }
    println!("{}", begin.elapsed().as_micros());
    Ok(())
}

/// Sends numbered datagrams, one a millisecond, and prints as JSON how many came back, how many
/// twice, how many after a later one, and the median time in microseconds.
pub(crate) fn ping(address: SocketAddr, count: u32) -> Result<(), String> {
    let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).map_err(told)?;
    socket.connect(address).map_err(told)?;
    socket.set_read_timeout(Some(PING_LIMIT)).map_err(told)?;
    let sender = socket.try_clone().map_err(told)?;
    let begin = Instant::now();
    thread::spawn(move || {
        for number in 0..count {
            let sent = begin.elapsed().as_micros() as u64;
            let _ = sender.send(&[&number.to_be_bytes()[..], &sent.to_be_bytes()].concat());
            thread::sleep(Duration::from_millis(1));
        }
    });
    let (mut times, mut seen, mut last) = (Vec::new(), vec![false; count as usize], 0);
    let (mut doubled, mut late) = (0, 0);
    let mut buffer = [0; 12];
    while times.len() + doubled < 2 * count as usize && socket.recv(&mut buffer).is_ok() {
        let [number, sent] = [&buffer[..4], &buffer[4..]]
            .map(|bytes| bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)));
        let Some(seen) = seen.get_mut(number as usize) else { continue };
        if std::mem::replace(seen, true) {
            doubled += 1;
            continue;
        }
        late += u64::from(number < last);
        last = last.max(number);
        times.push(begin.elapsed().as_micros() as u64 - sent);
    }
    times.sort_unstable();
    let median = times.get(times.len() / 2);
    println!("{}", json!({ "received": times.len(), "doubled": doubled, "late": late, "median_us": median }));
    Ok(())
}

/// A body that tells moved and missing bytes.
fn body(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|place| (place % 251) as u8).collect()
}

fn told(error: std::io::Error) -> String {
    error.to_string()
}

/// Shorter than the second try of a connection that is cut, longer than any delay of a test.
const CONNECT_LIMIT: Duration = Duration::from_millis(2500);

const READ_LIMIT: Duration = Duration::from_secs(15);

/// Silence after which no datagram is expected any more.
const PING_LIMIT: Duration = Duration::from_millis(700);
