//! What a record means that is not application data.

use crate::keys::Version;

/// What is to be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Nothing.
    Nothing,
    /// The peer sends no more (RFC 8446 section 6.1).
    Closed,
    /// The peer gave up.
    GivenUp,
    /// The peer goes on with other keys (RFC 8446 section 4.6.3), or wants to agree on others (RFC
    /// 5246 section 7.4.1.2): the kernel was given the ones there were, so that the connection
    /// ends, in order as far as we are concerned.
    NewKeys,
    /// It has no place here: the connection ends with this alert.
    Refused(u8),
}

/// The meaning of a record of type `record_type`, or of the beginning of one.
pub fn meaning(version: Version, record_type: u8, bytes: &[u8]) -> Meaning {
    match (record_type, bytes) {
        (ALERT, &[_, CLOSE_NOTIFY]) => Meaning::Closed,
        // "user_canceled: This alert notifies the recipient that the sender is canceling the
        // handshake"; close_notify follows.
        (ALERT, &[_, USER_CANCELED]) => Meaning::Nothing,
        (ALERT, &[WARNING, _]) if version == Version::Tls12 => Meaning::Nothing,
        (ALERT, &[_, _]) => Meaning::GivenUp,
        (HANDSHAKE, &[KEY_UPDATE, ..]) if version == Version::Tls13 => Meaning::NewKeys,
        (HANDSHAKE, &[CLIENT_HELLO, ..]) if version == Version::Tls12 => Meaning::NewKeys,
        (ALERT, _) => Meaning::Refused(DECODE_ERROR),
        _ => Meaning::Refused(UNEXPECTED_MESSAGE),
    }
}

/// An alert that ends a connection: in TLS 1.3 only `close_notify` and `user_canceled` are no
/// errors.
pub fn alert(description: u8) -> [u8; 2] {
    [if description == CLOSE_NOTIFY { WARNING } else { FATAL }, description]
}

/// Types of records (RFC 8446 section 5.1).
pub const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
pub const APPLICATION_DATA: u8 = 23;

/// Alerts (RFC 8446 section 6).
const WARNING: u8 = 1;
const FATAL: u8 = 2;
pub const CLOSE_NOTIFY: u8 = 0;
const UNEXPECTED_MESSAGE: u8 = 10;
pub const BAD_RECORD_MAC: u8 = 20;
pub const RECORD_OVERFLOW: u8 = 22;
const DECODE_ERROR: u8 = 50;
const USER_CANCELED: u8 = 90;

/// Messages of the handshake (RFC 8446 section 4).
const CLIENT_HELLO: u8 = 1;
const KEY_UPDATE: u8 = 24;

#[cfg(test)]
mod tests {
    use super::*;
    use Meaning::*;

    #[test]
    fn records_mean_what_the_rfcs_say() {
        for (record_type, bytes, by_tls12, by_tls13) in [
            (ALERT, &[1, 0][..], Closed, Closed),
            (ALERT, &[2, 0], Closed, Closed),
            (ALERT, &[1, 90], Nothing, Nothing),
            // no_renegotiation, which TLS 1.3 does not know: there all others are fatal, whatever
            // they say.
            (ALERT, &[1, 100], Nothing, GivenUp),
            (ALERT, &[2, 80], GivenUp, GivenUp),
            (ALERT, &[1], Refused(50), Refused(50)),
            (ALERT, &[], Refused(50), Refused(50)),
            (ALERT, &[1, 0, 1], Refused(50), Refused(50)),
            (HANDSHAKE, &[24, 0, 0, 1, 0], Refused(10), NewKeys),
            (HANDSHAKE, &[1, 0, 0, 9], NewKeys, Refused(10)),
            (HANDSHAKE, &[4], Refused(10), Refused(10)),
            (HANDSHAKE, &[], Refused(10), Refused(10)),
            // change_cipher_spec after the handshake
            (20, &[1], Refused(10), Refused(10)),
            (24, &[1], Refused(10), Refused(10)),
        ] {
            assert_eq!(
                meaning(Version::Tls12, record_type, bytes),
                by_tls12,
                "TLS 1.2: {record_type} {bytes:?}"
            );
            assert_eq!(
                meaning(Version::Tls13, record_type, bytes),
                by_tls13,
                "TLS 1.3: {record_type} {bytes:?}"
            );
        }
    }

    #[test]
    fn only_the_end_is_a_warning() {
        assert_eq!([alert(CLOSE_NOTIFY), alert(BAD_RECORD_MAC)], [[1, 0], [2, 20]]);
    }
}
