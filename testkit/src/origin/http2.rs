//! The origin's side of an HTTP/2 connection without TLS (prior knowledge).

use super::Shared;
use super::answer::{After, Answer, Step};
use super::journal::Received;
use crate::fields::Fields;
use crate::h2::{field_map, fields_of};
use bytes::Bytes;
use h2::server::{self, SendResponse};
use h2::{Reason, SendStream};
use std::error::Error;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Serves one connection to its end, streams concurrently.
pub fn serve(stream: TcpStream, streams: u32, connection: usize, shared: Arc<Shared>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a thread may have a runtime");
    let conversation = converse(stream, streams, connection, shared);
    let _ = runtime.block_on(tokio::task::LocalSet::new().run_until(conversation));
}

async fn converse(
    stream: TcpStream,
    streams: u32,
    connection: usize,
    shared: Arc<Shared>,
) -> Result<(), Box<dyn Error>> {
    stream.set_nonblocking(true)?;
    let stream = tokio::net::TcpStream::from_std(stream)?;
    let mut peer = server::Builder::new().max_concurrent_streams(streams).handshake(stream).await?;
    while let Some(request) = peer.accept().await {
        let (request, respond) = request?;
        let shared = shared.clone();
        tokio::task::spawn_local(async move {
            if exchange(request, respond, connection, &shared).await.is_err() {
                shared.journal.abort();
            }
        });
    }
    Ok(())
}

async fn exchange(
    request: http::Request<h2::RecvStream>,
    mut respond: SendResponse<Bytes>,
    connection: usize,
    shared: &Shared,
) -> Result<(), h2::Error> {
    let received = receive(request, connection).await?;
    let earlier = shared.journal.note(&received);
    let answer = shared.routes.answer(&received, earlier);
    for step in &answer.before {
        wait(step).await;
    }
    let mut response = http::Response::new(());
    *response.status_mut() = http::StatusCode::from_u16(answer.status).expect("a status between 100 and 999");
    *response.headers_mut() = field_map(&answer.fields);
    if answer.dated && !answer.fields.has("date") {
        let now = httpdate::fmt_http_date(SystemTime::now());
        response.headers_mut().insert("date", now.parse().expect("a date is a field value"));
    }
    let bodiless = received.method == "HEAD" || answer.steps.is_empty();
    let stream = respond.send_response(response, bodiless)?;
    if bodiless { Ok(()) } else { send_body(stream, &answer, shared).await }
}

async fn send_body(mut stream: SendStream<Bytes>, answer: &Answer, shared: &Shared) -> Result<(), h2::Error> {
    for step in &answer.steps {
        match step {
            Step::Send(bytes) => {
                send_data(&mut stream, Bytes::from(bytes.clone())).await?;
                shared.journal.sent(bytes.len() as u64);
            }
            other => wait(other).await,
        }
    }
    match answer.after {
        After::Keep if answer.trailers.0.is_empty() => stream.send_data(Bytes::new(), true),
        After::Keep => stream.send_trailers(field_map(&answer.trailers)),
        After::Close | After::Reset | After::Stall => {
            stream.send_reset(Reason::INTERNAL_ERROR);
            Ok(())
        }
    }
}

/// Sends as the peer's window allows.
async fn send_data(stream: &mut SendStream<Bytes>, mut bytes: Bytes) -> Result<(), h2::Error> {
    while !bytes.is_empty() {
        stream.reserve_capacity(bytes.len());
        let granted = std::future::poll_fn(|context| stream.poll_capacity(context)).await;
        let granted = granted.ok_or(Reason::STREAM_CLOSED)??;
        stream.send_data(bytes.split_to(granted.min(bytes.len())), false)?;
    }
    Ok(())
}

async fn receive(request: http::Request<h2::RecvStream>, connection: usize) -> Result<Received, h2::Error> {
    let (head, mut stream) = request.into_parts();
    let mut received = Received {
        method: head.method.to_string(),
        target: head.uri.path_and_query().map_or_else(|| head.uri.to_string(), ToString::to_string),
        version: "HTTP/2".into(),
        fields: fields_of(&head.headers),
        connection,
        ..Received::default()
    };
    if let Some(authority) = head.uri.authority() {
        received.fields.push(":authority", authority.as_str());
    }
    while let Some(bytes) = stream.data().await {
        let bytes = bytes?;
        stream.flow_control().release_capacity(bytes.len())?;
        received.body.extend_from_slice(&bytes);
    }
    received.trailers = stream.trailers().await?.map_or_else(Fields::default, |map| fields_of(&map));
    Ok(received)
}

async fn wait(step: &Step) {
    match step {
        Step::Pause(pause) => tokio::time::sleep(*pause).await,
        Step::Await(gate) => {
            while !gate.is_open() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        Step::Open(gate) => gate.open(),
        Step::Send(_) | Step::Echo => {}
    }
}
