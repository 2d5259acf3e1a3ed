//! HTTP/2 connections.

use super::Shared;
use super::client_io::ClientIo;
use super::live::Live;
use crate::message::{Client, Handler};
use std::sync::Arc;

/// Serves one connection to its end.
pub(super) async fn serve<T: ClientIo, H: Handler>(
    _io: T,
    _shared: Arc<Shared<H>>,
    _live: Arc<Live>,
    _client: Arc<Client>,
) {
}
