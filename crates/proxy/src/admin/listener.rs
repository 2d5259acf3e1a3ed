//! The admin listener's socket, thread and connections.
//!
//! One thread with its own runtime accepts connections. Calls to the node run on a few blocking
//! threads, so that `/healthz` still answers during a long purge.

mod passing;

use super::Control;
use super::access::{self, AccessRefusal, AdminAccess};
use super::guard::HostGuard;
use super::impatient::TimeoutStream;
use super::routes::{self, AdminResponse};
use super::ui::{self, AdminBody};
use crate::dashboard::VIEWERS_MAX;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use shoal_handover::{InheritedSockets, SocketUse};
use shoal_settings::{AdminAddress, AdminRole};
use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, oneshot, watch};

/// A running admin listener. Dropping it closes the socket and ends the thread.
pub struct AdminListener {
    place: BoundSocket,
    offer: OwnedFd,
    changes: Arc<Semaphore>,
    is_paused: watch::Sender<bool>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// An admin listener that does not answer yet: clients that connect wait.
pub struct BoundAdmin {
    // First field, so that the socket is closed before its file is removed.
    socket: Socket,
    runtime: Runtime,
    offer: OwnedFd,
    place: BoundSocket,
}

enum Socket {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener),
}

/// Bounded access to the node.
#[derive(Clone)]
struct ControlCalls {
    control: Arc<dyn Control>,
    /// Permits for calls that change something.
    changes: Arc<Semaphore>,
    /// Permit for a request with a large body.
    lists: Arc<Semaphore>,
}

/// Rules by which requests are let in.
#[derive(Clone)]
struct Door {
    guard: HostGuard,
    access: Arc<AdminAccess>,
    /// `true` if other machines do not reach the listener.
    is_local: bool,
    /// Client; `None` at a Unix socket.
    from: Option<IpAddr>,
}

/// Address of a bound listener. Dropping it removes the file of a Unix socket that is this
/// process's.
struct BoundSocket {
    asked: String,
    address: AdminAddress,
    is_ours: AtomicBool,
}

impl BoundAdmin {
    /// Binds `address`.
    ///
    /// # Errors
    ///
    /// If the address cannot be bound.
    pub fn bind(address: &AdminAddress) -> io::Result<Self> {
        Self::take_or_bind(address, &mut InheritedSockets::default())
    }

    /// Takes the socket that another process has passed, or binds `address`. The file of a Unix
    /// socket stays the other process's until [`AdminListener::own`].
    ///
    /// # Errors
    ///
    /// If the address cannot be bound.
    pub fn take_or_bind(address: &AdminAddress, inherited: &mut InheritedSockets) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(BLOCKING_THREADS)
            .thread_name("admin-call")
            .build()?;
        let asked = asked(address)?;
        let passed = inherited.take(SocketUse::Admin, &asked).into_iter().next();
        let is_ours = AtomicBool::new(passed.is_none());
        let context = runtime.enter();
        let (socket, address) = match passed {
            Some(passed) => take(address, passed)?,
            None => bind(address)?,
        };
        let offer = match &socket {
            Socket::Tcp(listener) => listener.as_fd().try_clone_to_owned()?,
            Socket::Unix(listener) => listener.as_fd().try_clone_to_owned()?,
        };
        drop(context);
        Ok(Self { socket, runtime, offer, place: BoundSocket { asked, address, is_ours } })
    }

    /// Returns the bound address, with the actual port if the settings said 0.
    pub fn address(&self) -> &AdminAddress {
        &self.place.address
    }

    /// Serves `control` from a thread of its own, as far as `access` allows.
    ///
    /// # Errors
    ///
    /// If the thread cannot be started.
    pub fn start(self, control: Arc<dyn Control>, access: Arc<AdminAccess>) -> io::Result<AdminListener> {
        let Self { socket, runtime, offer, place } = self;
        let guard = guard(&socket, &access);
        let door = Door { guard, access, is_local: access::is_local(&place.address), from: None };
        let (stop, stopped) = oneshot::channel();
        let (is_paused, paused) = watch::channel(false);
        let changes = Arc::new(Semaphore::new(CHANGES));
        let calls =
            ControlCalls { control, changes: Arc::clone(&changes), lists: Arc::new(Semaphore::new(1)) };
        let thread = std::thread::Builder::new().name("admin".into()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = accept(socket, calls, door, paused) => {}
                    _ = stopped => {}
                }
            });
            // a blocked call must not keep the process from ending
            runtime.shutdown_background();
        })?;
        Ok(AdminListener { place, offer, changes, is_paused, stop: Some(stop), thread: Some(thread) })
    }
}

impl AdminListener {
    /// Returns the bound address, with the actual port if the settings said 0.
    pub fn address(&self) -> &AdminAddress {
        &self.place.address
    }
}

impl Drop for AdminListener {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // the panic hook has already reported a thread that panicked
            let _ = thread.join();
        }
    }
}

impl Drop for BoundSocket {
    fn drop(&mut self) {
        if let (AdminAddress::Unix(path), true) = (&self.address, self.is_ours.load(SeqCst)) {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Returns the address as it names the socket between processes.
fn asked(address: &AdminAddress) -> io::Result<String> {
    Ok(match address {
        AdminAddress::Tcp(address) => address.to_string(),
        AdminAddress::Unix(path) => AdminAddress::Unix(std::path::absolute(path)?).to_string(),
    })
}

/// Takes a socket that another process has bound.
fn take(address: &AdminAddress, passed: OwnedFd) -> io::Result<(Socket, AdminAddress)> {
    match address {
        AdminAddress::Tcp(_) => {
            let listener = std::net::TcpListener::from(passed);
            listener.set_nonblocking(true)?;
            let bound = AdminAddress::Tcp(listener.local_addr()?);
            Ok((Socket::Tcp(tokio::net::TcpListener::from_std(listener)?), bound))
        }
        AdminAddress::Unix(path) => {
            let listener = std::os::unix::net::UnixListener::from(passed);
            listener.set_nonblocking(true)?;
            let bound = AdminAddress::Unix(std::path::absolute(path)?);
            Ok((Socket::Unix(tokio::net::UnixListener::from_std(listener)?), bound))
        }
    }
}

fn bind(address: &AdminAddress) -> io::Result<(Socket, AdminAddress)> {
    match address {
        AdminAddress::Tcp(address) => {
            let listener = std::net::TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let bound = AdminAddress::Tcp(listener.local_addr()?);
            Ok((Socket::Tcp(tokio::net::TcpListener::from_std(listener)?), bound))
        }
        AdminAddress::Unix(path) => {
            let path = std::path::absolute(path)?;
            remove_abandoned(&path)?;
            let listener = tokio::net::UnixListener::bind(&path)?;
            // connecting needs write permission; the group has it, so that operators need not be
            // root
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o660))?;
            Ok((Socket::Unix(listener), AdminAddress::Unix(path)))
        }
    }
}

/// Removes a socket that a killed process left behind. A socket with a listener stays.
fn remove_abandoned(path: &Path) -> io::Result<()> {
    let is_socket =
        |path: &Path| std::fs::symlink_metadata(path).is_ok_and(|data| data.file_type().is_socket());
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused && is_socket(path) => {
            std::fs::remove_file(path)
        }
        _ => Ok(()),
    }
}

/// Returns the guard for this socket. A TCP listener accepts this machine's name and the names of
/// the settings.
fn guard(socket: &Socket, access: &AdminAccess) -> HostGuard {
    match socket {
        Socket::Unix(_) => HostGuard::Open,
        Socket::Tcp(_) => {
            let node_name = rustix::system::uname().nodename().to_string_lossy().into_owned();
            let scheme = if access.tls().is_some() { "https://" } else { "http://" };
            HostGuard::Named { names: access.hosts().iter().cloned().chain([node_name]).collect(), scheme }
        }
    }
}

/// Accepts connections, at most [`CONNECTIONS`] at a time; further ones wait in the backlog.
/// No connection is accepted while `paused`.
async fn accept(socket: Socket, calls: ControlCalls, door: Door, mut paused: watch::Receiver<bool>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let place = places.clone().acquire_owned().await.expect("never closed");
        if paused.wait_for(|is_paused| !is_paused).await.is_err() {
            return;
        }
        let (calls, door) = (calls.clone(), door.clone());
        let next = async {
            match &socket {
                Socket::Tcp(listener) => listener.accept().await.map(|(stream, client)| {
                    let door = Door { from: Some(client.ip()), ..door };
                    tokio::spawn(async move {
                        tcp_connection(stream, calls, door).await;
                        drop(place);
                    })
                }),
                Socket::Unix(listener) => listener.accept().await.map(|(stream, _)| {
                    tokio::spawn(async move {
                        connection(stream, calls, door).await;
                        drop(place);
                    })
                }),
            }
        };
        let accepted = tokio::select! {
            biased;
            _ = paused.wait_for(|is_paused| *is_paused) => continue,
            accepted = next => accepted,
        };
        if let Err(error) = accepted {
            tracing::warn!(%error, "the admin listener cannot accept a connection");
            tokio::time::sleep(PAUSE_AFTER_ERROR).await;
        }
    }
}

/// Serves a TCP connection, after the handshake if there is TLS.
async fn tcp_connection(stream: TcpStream, calls: ControlCalls, door: Door) {
    let access = Arc::clone(&door.access);
    let Some(tls) = access.tls() else { return connection(stream, calls, door).await };
    match tokio::time::timeout(READ_TIMEOUT, tls.accept(stream)).await {
        Ok(Ok(stream)) => connection(stream, calls, door).await,
        Ok(Err(error)) => tracing::debug!(%error, "an admin connection made no handshake"),
        Err(_) => tracing::debug!("an admin connection made no handshake in time"),
    }
}

async fn connection<S>(stream: S, calls: ControlCalls, door: Door)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = hyper::service::service_fn(move |request| {
        let (calls, door) = (calls.clone(), door.clone());
        async move { Ok::<_, Infallible>(respond(request, calls, &door).await) }
    });
    let result = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(READ_TIMEOUT)
        .max_buf_size(16 << 10)
        .serve_connection(TokioIo::new(TimeoutStream::new(stream, WRITE_TIMEOUT)), service)
        .await;
    if let Err(error) = result {
        tracing::debug!(%error, "an admin connection ended");
    }
}

async fn respond(request: Request<Incoming>, calls: ControlCalls, door: &Door) -> Response<AdminBody> {
    let (head, body) = request.into_parts();
    if let Some(why) = door.guard.refusal(&head.method, &head.headers) {
        return response(routes::text(StatusCode::FORBIDDEN, format!("{why}\n")));
    }
    if door.access.has_metrics_alone() && !routes::is_of_metrics(&head.method, head.uri.path()) {
        return response(routes::text(StatusCode::NOT_FOUND, routes::METRICS_ALONE.into()));
    }
    let is_dashboard = ui::is_ours(head.uri.path());
    let is_health = head.uri.path() == routes::HEALTH && head.method.is_safe();
    let role = match door.access.judge(&head, is_dashboard, (door.is_local, door.from)) {
        Err(_) if is_health => AdminRole::Look,
        Err(refusal) => return refused(refusal),
        Ok(role) => role,
    };
    if is_dashboard && let Some(dashboard) = calls.control.dashboard() {
        let may_change = role == AdminRole::Change;
        let call = tokio::task::spawn_blocking(move || ui::answer(&dashboard, &head, may_change));
        // The panic hook has already reported a call that panicked.
        let mut answer = call.await.unwrap_or_else(|_| response(failed()));
        ui::protect(answer.headers_mut());
        return answer;
    }
    response(respond_plain(head, body, calls).await)
}

fn refused(refusal: AccessRefusal) -> Response<AdminBody> {
    let status = match refusal {
        AccessRefusal::Unauthorized => StatusCode::UNAUTHORIZED,
        AccessRefusal::Guessing => StatusCode::TOO_MANY_REQUESTS,
        AccessRefusal::Role | AccessRefusal::Everybody => StatusCode::FORBIDDEN,
    };
    let mut response = response(routes::text(status, format!("{}\n", refusal.text())));
    if status == StatusCode::UNAUTHORIZED {
        let challenge = HeaderValue::from_static("Basic realm=\"shoal admin\", charset=\"UTF-8\"");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}

async fn respond_plain(head: Parts, body: Incoming, calls: ControlCalls) -> AdminResponse {
    if head.uri.path() == routes::HEALTH {
        // This call never blocks, and must be answered even while all other calls block.
        let none = Bytes::new();
        return routes::answer(&*calls.control, &head.method, routes::HEALTH, None, &none);
    }
    // Large bodies come one at a time, so that all connections together hold little.
    let is_list = [routes::WARM, routes::HINTS].contains(&head.uri.path()) && !head.method.is_safe();
    let turn = if is_list { calls.lists.clone().acquire_owned().await.ok() } else { None };
    let (limit, patience) = if is_list { (LIST_MAX, LIST_TIMEOUT) } else { (BODY_MAX, READ_TIMEOUT) };
    let body = tokio::time::timeout(patience, Limited::new(body, limit).collect()).await;
    let body = match body {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(_)) => {
            return routes::text(StatusCode::PAYLOAD_TOO_LARGE, "the body is cut or too large\n".into());
        }
        Err(_) => return routes::text(StatusCode::REQUEST_TIMEOUT, "the body took too long\n".into()),
    };
    let answer = calls.answer(head, body).await;
    drop(turn);
    answer
}

impl ControlCalls {
    /// Returns the node's answer once a thread is free.
    async fn answer(self, head: Parts, body: Bytes) -> AdminResponse {
        let is_change = !head.method.is_safe();
        let turn = if is_change { self.changes.acquire_owned().await.ok() } else { None };
        if is_change && turn.is_none() {
            let why = "another process has taken this node over; ask again\n";
            return routes::text(StatusCode::SERVICE_UNAVAILABLE, why.into());
        }
        let call = tokio::task::spawn_blocking(move || {
            // held until the call ends, even if the client has left
            let _turn = turn;
            routes::answer(&*self.control, &head.method, head.uri.path(), head.uri.query(), &body)
        });
        // the panic hook has already reported a call that panicked
        call.await.unwrap_or_else(|_| failed())
    }
}

fn failed() -> AdminResponse {
    routes::text(StatusCode::INTERNAL_SERVER_ERROR, "the call failed; see the error log\n".into())
}

fn response(answer: AdminResponse) -> Response<AdminBody> {
    let mut response = Response::new(AdminBody::from(Bytes::from(answer.body)));
    *response.status_mut() = answer.status;
    let fields = response.headers_mut();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(answer.content_type));
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    fields.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Some(allow) = answer.allow {
        fields.insert(header::ALLOW, HeaderValue::from_static(allow));
    }
    response
}

/// Maximum connections served at a time.
const CONNECTIONS: usize = VIEWERS_MAX + 64;

/// Maximum calls to the node at a time; further ones wait.
const BLOCKING_THREADS: usize = 16;

/// Maximum changing calls at a time. They may wait long for a disk: the other threads stay free for
/// metrics and status.
const CHANGES: usize = 12;

/// Largest request body in bytes.
const BODY_MAX: usize = 64 << 10;

/// Largest list for warming or of hints in bytes.
const LIST_MAX: usize = shoal_mirrors::wanted::LIST_MAX;

/// Time for the body of a list.
const LIST_TIMEOUT: Duration = Duration::from_secs(60);

/// Time for a request's head, and again for its body. An idle connection is closed after the same
/// time.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest time without progress while a client receives an answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause after a failed accept: mostly file descriptors are short.
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(100);

const _: () = {
    assert!(CHANGES < BLOCKING_THREADS, "looks have threads that no change takes");
    assert!(BLOCKING_THREADS <= CONNECTIONS);
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::tests::Scripted;
    use tokio::io::AsyncWriteExt;

    /// Without this limit, a few clients that do not read would hold all connections.
    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_let_go() {
        let (mut client, server) = tokio::io::duplex(512);
        let calls = ControlCalls {
            control: Arc::new(Scripted::default()),
            changes: Arc::new(Semaphore::new(1)),
            lists: Arc::new(Semaphore::new(1)),
        };
        let access = AdminAccess::new(&shoal_settings::Admin::default()).expect("sound");
        let door = Door { guard: HostGuard::Open, access, is_local: true, from: None };
        let serving = tokio::spawn(connection(server, calls, door));
        client.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("room");
        let ended = tokio::time::timeout(WRITE_TIMEOUT * 3, serving).await;
        ended.expect("the connection ends by itself").expect("in order");
    }
}
