//! Streams in one direction: this side's control stream, and those of the client.

use super::Http3Context;
use crate::message::Handler;
use parking_lot::Mutex;
use quinn::{Connection, RecvStream, VarInt};
use shoal_http3::{ErrorCode, UniReader, UniStreams, control_stream, goaway};
use std::sync::Arc;
use tokio::sync::mpsc;

/// This side's control stream.
pub(super) struct ControlSender(mpsc::Sender<Vec<u8>>);

impl ControlSender {
    /// Sends GOAWAY.
    pub fn goaway(&self, stream: u64) {
        // There is room: a connection sends two.
        let _ = self.0.try_send(goaway(stream));
    }
}

/// Opens this side's control stream and sends the settings. The stream stays open for as long as
/// the sender lives: it must not end before the connection.
pub(super) fn open_control(connection: &Connection, head_bytes_max: usize) -> ControlSender {
    let (sender, mut frames) = mpsc::channel::<Vec<u8>>(GOAWAYS_MAX);
    let connection = connection.clone();
    tokio::spawn(async move {
        let Ok(mut stream) = connection.open_uni().await else { return };
        if stream.write_all(&control_stream(head_bytes_max)).await.is_err() {
            return;
        }
        while let Some(frame) = frames.recv().await {
            if stream.write_all(&frame).await.is_err() {
                return;
            }
        }
        connection.closed().await;
    });
    ControlSender(sender)
}

/// Streams that the client has opened in one direction.
#[derive(Default)]
pub(super) struct UniStreamCounter {
    kinds: Arc<Mutex<UniStreams>>,
    opened: u32,
}

impl UniStreamCounter {
    /// Takes a new stream.
    pub fn take<H: Handler>(&mut self, stream: RecvStream, context: &Arc<Http3Context<H>>) {
        self.opened += 1;
        if self.opened > OPENED_MAX {
            return context.give_up(ErrorCode::EXCESSIVE_LOAD);
        }
        tokio::spawn(read(stream, Arc::clone(&self.kinds), Arc::clone(context)));
    }
}

/// Reads a stream to its end. An error ends the connection.
async fn read<H: Handler>(
    mut stream: RecvStream,
    kinds: Arc<Mutex<UniStreams>>,
    context: Arc<Http3Context<H>>,
) {
    let mut reader = UniReader::default();
    loop {
        // The end of the connection ends the stream too. A reset is an end like any other.
        let chunk = stream.read_chunk(CHUNK_BYTES_MAX, true).await;
        let outcome = match &chunk {
            Ok(Some(chunk)) => reader.take(&chunk.bytes, &mut kinds.lock()),
            Ok(None) | Err(quinn::ReadError::Reset(_)) => reader.end().map(|()| false),
            Err(_) => return,
        };
        match outcome {
            Ok(true) => {}
            Ok(false) => {
                let _ = stream.stop(VarInt::from_u32(ErrorCode::STREAM_CREATION_ERROR.0));
                return;
            }
            Err(code) => return context.give_up(code),
        }
    }
}

/// GOAWAY frames of one connection.
const GOAWAYS_MAX: usize = 2;

/// Most streams of a connection in one direction: three are needed, and clients open a few of
/// unknown kinds so that servers learn to ignore them.
const OPENED_MAX: u32 = 64;

const CHUNK_BYTES_MAX: usize = 4096;
