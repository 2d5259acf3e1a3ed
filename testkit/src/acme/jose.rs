//! Signed requests (JWS, RFC 7515), as a client of ACME sends them.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use serde_json::Value;

/// A request, taken apart and not checked yet.
pub struct Jose {
    header: Value,
    /// The payload; null of a POST-as-GET.
    pub payload: Value,
    signed: String,
    signature: Vec<u8>,
}

impl Jose {
    /// Takes a body apart.
    pub fn parse(body: &[u8]) -> Option<Self> {
        Self::of(&serde_json::from_slice(body).ok()?)
    }

    /// Takes a JWS apart.
    pub fn of(whole: &Value) -> Option<Self> {
        let part = |name: &str| whole[name].as_str();
        let (protected, payload) = (part("protected")?, part("payload")?);
        Some(Self {
            header: serde_json::from_slice(&decoded(protected)?).ok()?,
            payload: match payload {
                "" => Value::Null,
                text => serde_json::from_slice(&decoded(text)?).ok()?,
            },
            signed: format!("{protected}.{payload}"),
            signature: decoded(part("signature")?)?,
        })
    }

    /// A text of the header; empty without one.
    pub fn text(&self, name: &str) -> String {
        self.header[name].as_str().unwrap_or_default().into()
    }

    /// The public key in the header, as a point of P-256.
    pub fn own_key(&self) -> Option<Vec<u8>> {
        let coordinate = |name: &str| decoded(self.header["jwk"][name].as_str()?);
        Some([vec![4], coordinate("x")?, coordinate("y")?].concat())
    }

    /// Whether the owner of this key has signed.
    pub fn is_signed_by(&self, key: &[u8]) -> bool {
        self.text("alg") == "ES256"
            && UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key)
                .verify(self.signed.as_bytes(), &self.signature)
                .is_ok()
    }

    /// Whether this binding of an account has the secret and names the account's key.
    pub fn is_bound_by(&self, id: &str, secret: &[u8], account: &[u8]) -> bool {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let coordinate = |name: &str| self.payload[name].as_str().and_then(decoded).unwrap_or_default();
        let bound = [vec![4], coordinate("x"), coordinate("y")].concat();
        self.text("kid") == id
            && self.text("alg") == "HS256"
            && bound == account
            && hmac::verify(&key, self.signed.as_bytes(), &self.signature).is_ok()
    }
}

/// The thumbprint of a public key (RFC 7638), given as a point of P-256.
pub fn thumbprint(key: &[u8]) -> String {
    let (x, y) = (URL_SAFE_NO_PAD.encode(&key[1..33]), URL_SAFE_NO_PAD.encode(&key[33..]));
    let canonical = format!("{{\"crv\":\"P-256\",\"kty\":\"EC\",\"x\":\"{x}\",\"y\":\"{y}\"}}");
    URL_SAFE_NO_PAD.encode(ring::digest::digest(&ring::digest::SHA256, canonical.as_bytes()))
}

fn decoded(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

/// Base64url without padding.
pub fn encoded(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The bytes of a field with base64url.
pub fn bytes_of(value: &Value) -> Vec<u8> {
    value.as_str().and_then(decoded).unwrap_or_default()
}
