//! Signatures of HTCP messages: HMAC-MD5 under a shared key (RFC 2756, section 4).
//!
//! ```text
//! AUTH 0..2 length | 2..6 time of signing | 6..10 time of expiry | key name | signature
//! ```
//!
//! Times are seconds since 1970. Name and signature are COUNTSTR. The signature covers both
//! addresses and ports, the versions, both times, DATA and the key's name. So a message cannot be
//! sent again from elsewhere, nor after its expiry. The RFC has MD5; HMAC over it is not
//! broken, but new designs use other hashes.

use super::{HtcpDatagram, push_counted};
use crate::reader::Reader;
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// A shared key with its name.
#[derive(Clone, PartialEq, Eq)]
pub struct HtcpKey {
    name: String,
    secret: Vec<u8>,
}

/// Sender and receiver of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SocketPair {
    /// Address of the sender.
    pub source: SocketAddr,
    /// Address of the receiver.
    pub destination: SocketAddr,
}

/// Reason for refusing a key file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HtcpKeyError;

/// Reason for refusing a signature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignatureError {
    /// The datagram has no signature.
    Missing,
    /// The section cannot be read.
    Malformed,
    /// Another key's name.
    Name,
    /// Signed in the future, or expired.
    Time,
    /// The signature is not of this key and these bytes.
    Wrong,
}

impl HtcpKey {
    /// Makes a key of the line `name secret`. The secret has at least 16 characters.
    ///
    /// # Errors
    /// If the line has another form.
    pub fn parse(line: &str) -> Result<Self, HtcpKeyError> {
        let (name, secret) = line.trim().split_once(char::is_whitespace).ok_or(HtcpKeyError)?;
        let secret = secret.trim();
        let is_sound = (SECRET_MIN..=SECRET_MAX).contains(&secret.len()) && name.len() <= NAME_MAX;
        match is_sound {
            true => Ok(Self { name: name.to_owned(), secret: secret.as_bytes().to_vec() }),
            false => Err(HtcpKeyError),
        }
    }

    /// Returns the AUTH section for DATA.
    pub(super) fn sign(&self, data: &[u8], minor: u8, ends: SocketPair, now: u32) -> Option<Vec<u8>> {
        let expires = now.saturating_add(SIGNATURE_SECONDS);
        let signature = self.code(data, minor, ends, (now, expires))?.finalize().into_bytes();
        let mut auth = vec![0, 0];
        auth.extend(now.to_be_bytes());
        auth.extend(expires.to_be_bytes());
        push_counted(&mut auth, self.name.as_bytes())?;
        push_counted(&mut auth, &signature)?;
        let length = u16::try_from(auth.len()).ok()?;
        auth[..2].copy_from_slice(&length.to_be_bytes());
        Some(auth)
    }

    /// Judges the signature of a datagram that came at `now`, in seconds since 1970.
    ///
    /// # Errors
    /// Says why the signature does not count.
    pub fn verify(
        &self,
        datagram: &HtcpDatagram<'_>,
        ends: SocketPair,
        now: u32,
    ) -> Result<(), SignatureError> {
        if !datagram.is_signed {
            return Err(SignatureError::Missing);
        }
        let mut reader = Reader::new(&datagram.auth[2..]);
        let mut parts = || Some(((reader.u32()?, reader.u32()?), reader.counted()?, reader.counted()?));
        let (times, name, signature) = parts().ok_or(SignatureError::Malformed)?;
        if !reader.is_empty() {
            return Err(SignatureError::Malformed);
        }
        if name != self.name.as_bytes() {
            return Err(SignatureError::Name);
        }
        let code = self.code(datagram.data, datagram.minor, ends, times).ok_or(SignatureError::Malformed)?;
        code.verify_slice(signature).map_err(|_| SignatureError::Wrong)?;
        let (signed, expires) = times;
        let is_current = signed <= now.saturating_add(SKEW_SECONDS) && now < expires;
        // A sender cannot make a message valid for ever.
        let is_short = expires.saturating_sub(signed) <= LIFETIME_SECONDS_MAX;
        if is_current && is_short { Ok(()) } else { Err(SignatureError::Time) }
    }

    fn code(&self, data: &[u8], minor: u8, ends: SocketPair, times: (u32, u32)) -> Option<Hmac<Md5>> {
        let mut code = Hmac::<Md5>::new_from_slice(&self.secret).ok()?;
        for end in [ends.source, ends.destination] {
            match end.ip().to_canonical() {
                IpAddr::V4(address) => code.update(&address.octets()),
                IpAddr::V6(address) => code.update(&address.octets()),
            }
            code.update(&end.port().to_be_bytes());
        }
        code.update(&[0, minor]);
        code.update(&times.0.to_be_bytes());
        code.update(&times.1.to_be_bytes());
        code.update(data);
        let mut name = Vec::new();
        push_counted(&mut name, self.name.as_bytes())?;
        code.update(&name);
        Some(code)
    }
}

impl fmt::Debug for HtcpKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HtcpKey({:?}, secret)", self.name)
    }
}

impl fmt::Display for HtcpKeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a key is one line: a name, a blank, and {SECRET_MIN} to {SECRET_MAX} characters of secret")
    }
}

impl std::error::Error for HtcpKeyError {}

/// Seconds for which a signature of ours counts.
pub const SIGNATURE_SECONDS: u32 = 30;
/// Difference of clocks that is put up with.
const SKEW_SECONDS: u32 = 60;
/// Longest lifetime of a neighbour's signature.
const LIFETIME_SECONDS_MAX: u32 = 600;
const SECRET_MIN: usize = 16;
const SECRET_MAX: usize = 256;
const NAME_MAX: usize = 64;
