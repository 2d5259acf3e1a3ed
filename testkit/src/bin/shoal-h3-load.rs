//! `shoal-h3-load ADDRESS PATH CONNECTIONS STREAMS SECONDS`: load over HTTP/3.
//!
//! Each connection has STREAMS requests under way at all times. The server's certificate is not
//! checked. Prints one line of JSON: responses with 200, other outcomes, bytes of the responses.

use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Connection, Endpoint, TransportConfig, VarInt};
use rustls::crypto::ring;
use shoal_testkit::certificates::AnyCertificate;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Outcomes of all requests.
#[derive(Default)]
struct Outcomes {
    done: AtomicU64,
    failed: AtomicU64,
    bytes: AtomicU64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, path, connections, streams, seconds] = arguments.as_slice() else {
        return Err("usage: shoal-h3-load ADDRESS PATH CONNECTIONS STREAMS SECONDS".into());
    };
    let (connections, streams): (usize, usize) = (connections.parse()?, streams.parse()?);
    let time = Duration::from_secs_f64(seconds.parse()?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run(address.parse()?, request(path)?, (connections, streams), time))
}

async fn run(
    address: SocketAddr,
    request: Arc<[u8]>,
    (connections, streams): (usize, usize),
    time: Duration,
) -> Result<(), Box<dyn Error>> {
    let config = client_config()?;
    let outcomes = Arc::<Outcomes>::default();
    let mut opened = Vec::new();
    for _ in 0..connections {
        // A socket for each, so that the kernel gives them to all workers.
        let endpoint = Endpoint::client(
            (if address.is_ipv4() { "127.0.0.1" } else { "::1" }.parse::<std::net::IpAddr>()?, 0).into(),
        )?;
        let connection = endpoint.connect_with(config.clone(), address, "localhost")?.await?;
        let mut control = connection.open_uni().await?;
        control.write_all(b"\0\x04\0").await?;
        opened.push((endpoint, connection, control));
    }
    let until = Instant::now() + time;
    let mut tasks = Vec::new();
    for (_, connection, _) in &opened {
        for _ in 0..streams {
            let (connection, request) = (connection.clone(), Arc::clone(&request));
            tasks.push(tokio::spawn(ask_until(connection, request, until, Arc::clone(&outcomes))));
        }
    }
    for task in tasks {
        task.await?;
    }
    let [done, failed, bytes] =
        [&outcomes.done, &outcomes.failed, &outcomes.bytes].map(|count| count.load(Relaxed));
    println!("{{\"done\": {done}, \"failed\": {failed}, \"bytes\": {bytes}}}");
    Ok(())
}

/// Sends one request after the other.
async fn ask_until(connection: Connection, request: Arc<[u8]>, until: Instant, outcomes: Arc<Outcomes>) {
    while Instant::now() < until {
        match ask(&connection, &request).await {
            Ok(bytes) => {
                outcomes.done.fetch_add(1, Relaxed);
                outcomes.bytes.fetch_add(bytes, Relaxed);
            }
            Err(_) => {
                outcomes.failed.fetch_add(1, Relaxed);
                if connection.close_reason().is_some() {
                    return;
                }
            }
        }
    }
}

/// Returns the bytes of a response with status 200.
async fn ask(connection: &Connection, request: &[u8]) -> Result<u64, Box<dyn Error + Send + Sync>> {
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_all(request).await?;
    send.finish()?;
    let (mut first, mut bytes) = (Vec::new(), 0);
    while let Some(chunk) = receive.read_chunk(usize::MAX, true).await? {
        bytes += chunk.bytes.len() as u64;
        if first.len() < STATUS_WITHIN {
            first.extend_from_slice(&chunk.bytes);
        }
    }
    let head = &first[..first.len().min(STATUS_WITHIN)];
    // `:status` 200: as an index of the static table, or as text.
    let is_sound =
        head.contains(&0xd9) || head.windows(3).any(|text| text == b"200" || text == b"\x82\x10\x01");
    if is_sound { Ok(bytes) } else { Err("another status".into()) }
}

/// Returns a HEADERS frame of a GET: the static table's entries, and two literals.
fn request(path: &str) -> Result<Arc<[u8]>, Box<dyn Error>> {
    if path.len() > 100 {
        return Err("the path is long".into());
    }
    let mut section = b"\0\0\xd1\xd7\x50\x09localhost\x51".to_vec();
    section.push(path.len() as u8);
    section.extend_from_slice(path.as_bytes());
    let mut frame = vec![1, 0x40, section.len() as u8];
    frame.extend_from_slice(&section);
    Ok(frame.into())
}

fn client_config() -> Result<ClientConfig, Box<dyn Error>> {
    let provider = Arc::new(ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate::with_its_key()))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h3".to_vec()];
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(config)?));
    let mut transport = TransportConfig::default();
    transport.receive_window(VarInt::from_u32(64 << 20)).keep_alive_interval(Some(Duration::from_secs(5)));
    config.transport_config(Arc::new(transport));
    Ok(config)
}

/// First bytes of a response, which have its status.
const STATUS_WITHIN: usize = 64;
