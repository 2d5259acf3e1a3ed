//! `shoal-floor ADDRESS FILE`: a server that does nothing.
//!
//! It answers every request head with the bytes of FILE: one read, one write, on one thread of the same runtime as the
//! product's, and nothing in between. What CPU it takes for an answer is what the kernel and the runtime leave to any
//! server of this kind (`bench/floor.py`).

use std::error::Error;
use std::rc::Rc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::task::{LocalSet, spawn_local};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(address), Some(file), None) = (arguments.next(), arguments.next(), arguments.next()) else {
        return Err("usage: shoal-floor ADDRESS FILE".into());
    };
    let answer: Rc<[u8]> = std::fs::read(&file).map_err(|why| format!("{file}: {why}"))?.into();
    let serving = LocalSet::new();
    Ok(serving.block_on(&Builder::new_current_thread().enable_io().build()?, serve(&address, answer))?)
}

async fn serve(address: &str, answer: Rc<[u8]>) -> std::io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    loop {
        let (client, _) = listener.accept().await?;
        client.set_nodelay(true)?;
        // A client that leaves ends its own connection only.
        spawn_local(answer_all(client, Rc::clone(&answer)));
    }
}

/// Heads do not come in pieces here, nor several at once: the load generator waits for each answer.
async fn answer_all(mut client: TcpStream, answer: Rc<[u8]>) -> std::io::Result<()> {
    let mut head = [0; 4096];
    while client.read(&mut head).await? > 0 {
        client.write_all(&answer).await?;
    }
    Ok(())
}
