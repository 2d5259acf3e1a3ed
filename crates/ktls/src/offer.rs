//! What the kernel takes, asked once; and the handing over of a connection.

use crate::keys::{Cipher, CryptoInfo, NONCE_BYTES, Version, Way, of_secrets};
use crate::seal::Seal;
use crate::sys;
use rustls::server::ServerConnection;
use rustls::{ProtocolVersion, SupportedCipherSuite};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

/// The versions and ciphers that a kernel takes over, both ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// A bit for each pair.
    pairs: u8,
}

impl Offer {
    /// Asks the kernel, by a connection of this process to itself.
    ///
    /// # Errors
    /// What it fails with when it has no TLS, or none for this process: `ENOENT` where the module
    /// `tls`, or every cipher, is neither there nor can be loaded.
    pub fn ask() -> io::Result<Self> {
        let (mut offer, mut refusal) = (Self::default(), None);
        for (version, cipher) in pairs() {
            let listener = TcpListener::bind(("127.0.0.1", 0))?;
            let near = TcpStream::connect(listener.local_addr()?)?;
            let (_far, _) = listener.accept()?;
            begin(near.as_fd())?;
            let key = vec![0; cipher.key_bytes()];
            let keys = |way| CryptoInfo::new(version, cipher, way, 0, &key, [0; NONCE_BYTES]);
            match set(near.as_fd(), &keys(Way::Send), &keys(Way::Receive)) {
                Ok(()) => offer.pairs |= bit(version, cipher),
                Err(error) => refusal = Some(error),
            }
        }
        // One cipher is enough.
        refusal.filter(|_| offer.is_empty()).map_or(Ok(offer), Err)
    }

    /// Everything, whatever the kernel says: for tests of what happens then.
    pub fn of_everything() -> Self {
        Self { pairs: pairs().map(|(version, cipher)| bit(version, cipher)).fold(0, std::ops::BitOr::bitor) }
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.pairs == 0
    }

    /// Whether these are taken.
    pub fn takes(self, version: ProtocolVersion, suite: SupportedCipherSuite) -> bool {
        let pair = Version::of(version).zip(Cipher::of(suite.suite()));
        pair.is_some_and(|(version, cipher)| self.pairs & bit(version, cipher) != 0)
    }
}

/// Has the kernel take a connected socket's TLS over, as soon as it is given keys. Until then the
/// socket goes on as before.
///
/// # Errors
/// When it does not.
pub fn begin(socket: BorrowedFd<'_>) -> io::Result<()> {
    sys::set_option(socket, libc::IPPROTO_TCP, libc::TCP_ULP, b"tls")
}

/// Gives it the keys of a connection whose handshake is done, of which everything was sent, and of
/// which every byte that was read of `socket` belongs to a record that was processed and whose data
/// were taken.
///
/// # Errors
/// When the connection cannot go on.
pub fn hand_over(socket: BorrowedFd<'_>, connection: ServerConnection) -> io::Result<Seal> {
    let agreed = connection.protocol_version().and_then(Version::of);
    let (version, suite) =
        agreed.zip(connection.negotiated_cipher_suite()).ok_or(io::ErrorKind::Unsupported)?;
    let secrets = connection.dangerous_extract_secrets().map_err(io::Error::other)?;
    let sent = of_secrets(version, Way::Send, secrets.tx.0, &secrets.tx.1);
    let received = of_secrets(version, Way::Receive, secrets.rx.0, &secrets.rx.1);
    let (sent, received) = sent.zip(received).ok_or(io::ErrorKind::Unsupported)?;
    set(socket, &sent, &received)?;
    Ok(Seal::new(version, records_max(suite).saturating_sub(secrets.tx.0)))
}

/// Records that one key of this suite may encrypt.
fn records_max(suite: SupportedCipherSuite) -> u64 {
    match suite {
        SupportedCipherSuite::Tls12(suite) => suite.common.confidentiality_limit,
        SupportedCipherSuite::Tls13(suite) => suite.common.confidentiality_limit,
    }
}

fn set(socket: BorrowedFd<'_>, sent: &CryptoInfo, received: &CryptoInfo) -> io::Result<()> {
    sys::set_option(socket, libc::SOL_TLS, libc::TLS_TX, sent.as_bytes())?;
    sys::set_option(socket, libc::SOL_TLS, libc::TLS_RX, received.as_bytes())
}

fn pairs() -> impl Iterator<Item = (Version, Cipher)> {
    let versions = [Version::Tls12, Version::Tls13].into_iter();
    versions.flat_map(|version| Cipher::ALL.map(|cipher| (version, cipher)))
}

fn bit(version: Version, cipher: Cipher) -> u8 {
    1 << (3 * (version == Version::Tls13) as u8 + cipher as u8)
}
