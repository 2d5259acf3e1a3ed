//! Messages of global prefetching between nodes, as bytes.
//!
//! Voelker 2000, section 4.3.3, has three kinds. A request asks for the prefetch of a page. Its
//! acknowledgement comes when the fetch begins. A report goes to the coordinator, and the epoch
//! comes back.
//!
//! ```text
//!   ask    1 | number 8 | value 8 | url length 2 | url
//!   begun  2 | number 8 | taken 1 | left 8
//!   report 3 | processor 2 (thousandths) | groups 1 | groups of (value 8, count 4)
//!   epoch  4 | length 4 (ms) | max value 8 | weights 1 | weights of 4 each
//! ```
//!
//! Numbers are little-endian. Everything is from another node, which may lie or be broken: lengths
//! are bounded, a message with bytes left over is refused, and values are only compared. A node
//! that promises too much loses its requests' time, nothing else.

use super::{BufferGroup, NodeReport, Value};

/// Message between two nodes.
#[derive(Clone, Debug, PartialEq)]
pub enum PrefetchMessage {
    /// Request to fetch an object and to keep it for the sender.
    Ask {
        /// Number of the request, chosen by the sender.
        number: u64,
        /// Value of the object now.
        value: Value,
        /// URL of the object.
        url: String,
    },
    /// The fetch has begun, or was refused: the request is no longer outstanding.
    Begun {
        /// Number of the request.
        number: u64,
        /// `false` if nothing will be fetched.
        is_taken: bool,
        /// Objects that the node still gives in this epoch.
        left: u64,
    },
    /// Report to the coordinator.
    Report(NodeReport),
    /// Epoch that the coordinator planned.
    Epoch {
        /// Time that the epoch lasts, in milliseconds.
        length_ms: u32,
        /// Value of the best object to be given up.
        max_value: Value,
        /// Weights, in the order of the nodes.
        weights: Vec<u32>,
    },
}

impl PrefetchMessage {
    /// Writes the message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Ask { number, value, url } => {
                let url = &url.as_bytes()[..url.len().min(URL_MAX)];
                out.push(1);
                out.extend_from_slice(&number.to_le_bytes());
                out.extend_from_slice(&value.until_us().to_le_bytes());
                out.extend_from_slice(&(url.len() as u16).to_le_bytes());
                out.extend_from_slice(url);
            }
            Self::Begun { number, is_taken, left } => {
                out.push(2);
                out.extend_from_slice(&number.to_le_bytes());
                out.push(u8::from(*is_taken));
                out.extend_from_slice(&left.to_le_bytes());
            }
            Self::Report(report) => {
                let groups = &report.buffers[..report.buffers.len().min(GROUPS_MAX)];
                out.push(3);
                out.extend_from_slice(&((report.processor.clamp(0.0, 1.0) * 1000.0) as u16).to_le_bytes());
                out.push(groups.len() as u8);
                for group in groups {
                    out.extend_from_slice(&group.value.until_us().to_le_bytes());
                    let count = u32::try_from(group.count).unwrap_or(u32::MAX);
                    out.extend_from_slice(&count.to_le_bytes());
                }
            }
            Self::Epoch { length_ms, max_value, weights } => {
                let weights = &weights[..weights.len().min(NODES_MAX)];
                out.push(4);
                out.extend_from_slice(&length_ms.to_le_bytes());
                out.extend_from_slice(&max_value.until_us().to_le_bytes());
                out.push(weights.len() as u8);
                weights.iter().for_each(|weight| out.extend_from_slice(&weight.to_le_bytes()));
            }
        }
    }

    /// Reads a message. `None` if the bytes are none, or more than one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (&kind, mut rest) = bytes.split_first()?;
        let message = match kind {
            1 => {
                let (number, value) = (take_u64(&mut rest)?, take_u64(&mut rest)?);
                let length = usize::from(u16::from_le_bytes(take(&mut rest)?));
                if length == 0 || length > URL_MAX || length > rest.len() {
                    return None;
                }
                let (url, after) = rest.split_at(length);
                rest = after;
                let url = std::str::from_utf8(url).ok()?.to_owned();
                Self::Ask { number, value: Value::of_microseconds(value), url }
            }
            2 => {
                let number = take_u64(&mut rest)?;
                let [taken] = take(&mut rest)?;
                let is_taken = match taken {
                    0 => false,
                    1 => true,
                    _ => return None,
                };
                Self::Begun { number, is_taken, left: take_u64(&mut rest)? }
            }
            3 => {
                let processor = u16::from_le_bytes(take(&mut rest)?);
                let [groups] = take(&mut rest)?;
                if processor > 1000 || usize::from(groups) > GROUPS_MAX {
                    return None;
                }
                let buffers = (0..groups).map(|_| {
                    let value = Value::of_microseconds(take_u64(&mut rest)?);
                    let count = u64::from(u32::from_le_bytes(take(&mut rest)?));
                    Some(BufferGroup { value, count })
                });
                let buffers = buffers.collect::<Option<Vec<_>>>()?;
                Self::Report(NodeReport { processor: f64::from(processor) / 1000.0, buffers })
            }
            4 => {
                let length_ms = u32::from_le_bytes(take(&mut rest)?);
                let max_value = Value::of_microseconds(take_u64(&mut rest)?);
                let [count] = take(&mut rest)?;
                if usize::from(count) > NODES_MAX {
                    return None;
                }
                let weights = (0..count).map(|_| take(&mut rest).map(u32::from_le_bytes));
                Self::Epoch { length_ms, max_value, weights: weights.collect::<Option<Vec<_>>>()? }
            }
            _ => return None,
        };
        rest.is_empty().then_some(message)
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*taken)
}

fn take_u64(rest: &mut &[u8]) -> Option<u64> {
    take(rest).map(u64::from_le_bytes)
}

/// Longest URL of a request.
pub const URL_MAX: usize = 8192;
/// Most groups of a report.
pub const GROUPS_MAX: usize = 64;
/// Most nodes of an epoch.
pub const NODES_MAX: usize = 200;

const _: () = assert!(URL_MAX <= u16::MAX as usize && GROUPS_MAX <= 255 && NODES_MAX <= 255);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round(message: &PrefetchMessage) -> Option<PrefetchMessage> {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        for cut in 0..bytes.len() {
            assert_eq!(PrefetchMessage::decode(&bytes[..cut]), None, "cut at {cut}");
        }
        assert_eq!(PrefetchMessage::decode(&[&bytes[..], b"x"].concat()), None);
        PrefetchMessage::decode(&bytes)
    }

    #[test]
    fn messages_come_back_as_they_were() {
        let group = BufferGroup { value: Value::until(3.0), count: 7 };
        for message in [
            PrefetchMessage::Ask { number: 9, value: Value::until(0.5), url: "http://a.test/x".into() },
            PrefetchMessage::Begun { number: 9, is_taken: true, left: 12 },
            PrefetchMessage::Epoch { length_ms: 5000, max_value: Value::NEVER, weights: vec![0, 5, 9] },
        ] {
            assert_eq!(round(&message).as_ref(), Some(&message));
        }
        let report = NodeReport { processor: 0.25, buffers: vec![group, group] };
        let Some(PrefetchMessage::Report(read)) = round(&PrefetchMessage::Report(report.clone())) else {
            panic!("a report")
        };
        assert_eq!((read.processor, read.buffers), (report.processor, report.buffers));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Some(message) = PrefetchMessage::decode(&bytes) {
                let mut again = Vec::new();
                message.encode(&mut again);
                prop_assert_eq!(again, bytes);
            }
        }
    }
}
