//! Fields by which the nodes of a cluster ask each other for objects.

use shoal_cluster::{ObjectAnswer, ObjectAsk, parse_sum, sum_value};

/// Fields of asks and answers are refused, or read back as the same bytes.
pub fn peer_ask(data: &[u8]) {
    if let Ok(ask) = ObjectAsk::parse(data) {
        assert_eq!(ask.to_value().as_deref().map(str::as_bytes), Some(data), "one spelling of an ask");
    }
    if let Some(answer) = ObjectAnswer::parse(data) {
        assert_eq!(answer.to_value().as_bytes(), data, "one spelling of an answer");
    }
    if let Some(sum) = parse_sum(data) {
        assert_eq!(sum_value(sum).as_bytes(), data, "one spelling of a sum");
    }
}
