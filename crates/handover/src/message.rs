//! Messages of a hand-over, as JSON, with the versions that both processes speak.
//!
//! A later version may add fields, which an earlier one ignores, and messages, which it does not
//! get: both speak the version that [`agree`] returns.

use crate::sockets::SocketName;
use serde::{Deserialize, Serialize};

/// Version of the messages that this program speaks at most.
pub const PROTOCOL: u32 = 1;

/// Version of the messages that this program speaks at least.
pub const PROTOCOL_LEAST: u32 = 1;

/// Message of a hand-over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "snake_case")]
pub enum Message {
    /// First message of the old process. `sockets` follow in messages of their own.
    Offer {
        /// Least version of the messages that the old process speaks.
        least: u32,
        /// Greatest version of the messages that the old process speaks.
        most: u32,
        /// Version of the old program.
        program: String,
        /// Number of sockets that follow.
        sockets: usize,
    },
    /// Some of the sockets; their descriptors come with the message, in this order.
    Sockets {
        /// Names of the sockets.
        names: Vec<SocketName>,
    },
    /// The new process has read its settings and has all sockets.
    Prepared {
        /// Version of the messages that both speak.
        protocol: u32,
        /// Version of the new program.
        program: String,
    },
    /// The old process has written the store and lets the new one open it.
    Released {
        /// Disks that were in service. The new process refuses if it cannot open one.
        disks: Vec<String>,
        /// Members of the cluster, to ask for the others.
        members: Vec<String>,
    },
    /// The new process accepts clients.
    Serving,
    /// The hand-over is complete: the new process is the node.
    Entrusted,
    /// Stored responses were purged after the store was released.
    Changed {
        /// The responses.
        change: Change,
    },
    /// An object came too late for the store of the old process. A file that comes with the message
    /// has its key, metadata and body in this order.
    Stored {
        /// Bytes of the key.
        key_bytes: u32,
        /// Bytes of the metadata.
        metadata_bytes: u32,
        /// Bytes of the body.
        body_bytes: u32,
    },
    /// The old process has removed an object.
    Removed {
        /// Key of the object, in hexadecimal digits.
        key: String,
    },
    /// The sender cannot go on; one line of reason.
    Refused {
        /// The reason.
        why: String,
    },
}

/// Responses that one process has purged, and the other must purge too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Every response.
    All,
    /// Responses of an origin's host.
    Host(String),
    /// Responses with a tag.
    Tag(String),
    /// Responses in a cache group of an origin.
    Group {
        /// Scheme, host and port.
        origin: String,
        /// The group.
        group: String,
        /// `true` if an operator has purged it, not the origin.
        is_operators: bool,
    },
    /// Responses of a URL.
    Url(String),
}

/// Returns the version of messages for two processes, the greatest that both speak.
///
/// # Errors
/// If there is none, in a line.
pub fn agree(least: u32, most: u32) -> Result<u32, String> {
    const { assert!(PROTOCOL_LEAST <= PROTOCOL) };
    let version = most.min(PROTOCOL);
    match version >= least.max(PROTOCOL_LEAST) {
        true => Ok(version),
        false => Err(format!(
            "the running process speaks versions {least} to {most} of the hand-over, and this one speaks \
             {PROTOCOL_LEAST} to {PROTOCOL}: restart the node instead"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greatest_common_version_is_spoken() {
        assert_eq!(agree(1, 1), Ok(1));
        assert_eq!(agree(1, 9), Ok(PROTOCOL));
        let refusal = agree(PROTOCOL + 1, PROTOCOL + 3).expect_err("nothing in common");
        assert!(refusal.contains("restart the node"), "{refusal}");
    }

    #[test]
    fn later_fields_are_ignored() {
        let text = r#"{"message":"prepared","protocol":1,"program":"9.0.0","more":[1]}"#;
        let read: Message = serde_json::from_str(text).expect("a message");
        assert_eq!(read, Message::Prepared { protocol: 1, program: "9.0.0".into() });
        assert!(serde_json::from_str::<Message>(r#"{"message":"dance"}"#).is_err());
    }
}
