//! Ports of a destination, one or a range of them.

use crate::mistake::Mistakes;
use crate::setting::{Setting, SettingKind, TomlText, quoted};
use crate::tree::{Node, Value};
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Range of consecutive ports. Written `80`, or `"1024-65535"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports(RangeInclusive<u16>);

impl Ports {
    /// Makes the range from the first port to the last.
    pub const fn new(first: u16, last: u16) -> Self {
        Self(first..=last)
    }

    /// Returns `true` if the range contains this port.
    pub fn contains(&self, port: u16) -> bool {
        self.0.contains(&port)
    }
}

impl FromStr for Ports {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let port = |text: &str| text.trim().parse().ok().filter(|port| *port > 0);
        match (port(first), port(last)) {
            (Some(first), Some(last)) if first <= last => Ok(Self::new(first, last)),
            (Some(_), Some(_)) => Err(format!("{text:?} begins behind its end")),
            _ => {
                Err(format!("{text:?} is neither a port from 1 to 65535 nor a range such as \"1024-65535\""))
            }
        }
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.start(), self.0.end()) {
            (first, last) if first == last => first.fmt(f),
            (first, last) => write!(f, "{first}-{last}"),
        }
    }
}

impl Setting for Ports {
    fn kind() -> SettingKind {
        SettingKind::Text("port or range of ports".into())
    }

    fn read(node: &Node, key: &str, mistakes: &mut Mistakes) -> Option<Self> {
        let text = match node.value {
            Value::Integer(port) => port.to_string(),
            _ => String::read(node, key, mistakes)?,
        };
        text.parse().map_err(|message: String| mistakes.note(&node.place, key, message, None)).ok()
    }

    fn write(&self) -> TomlText {
        match self.0.start() == self.0.end() {
            true => TomlText::Value(self.to_string()),
            false => quoted(&self.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_ranges_are_read() {
        let sound = [("80", 80, 80), ("1024-65535", 1024, 65535), ("1 - 2", 1, 2), ("7-7", 7, 7)];
        for (text, first, last) in sound {
            assert_eq!(text.parse(), Ok(Ports::new(first, last)));
        }
        for text in ["", "0", "65536", "http", "2-1", "1-", "-1", "0-5", "1-2-3", "-"] {
            assert!(text.parse::<Ports>().is_err(), "{text:?}");
        }
        let range = Ports::new(10, 12);
        assert_eq!([9, 10, 12, 13].map(|port| range.contains(port)), [false, true, true, false]);
    }

    #[test]
    fn port_and_range_are_read_others_refused() {
        let read = |list: &str| crate::Settings::parse(&format!("forward.request_ports = {list}"), "file");
        let ports = read("[80, \"81\", \"1024-2000\"]").expect("sound").forward.request_ports;
        assert_eq!(ports, [Ports::new(80, 80), Ports::new(81, 81), Ports::new(1024, 2000)]);
        let written: Vec<_> = ports.iter().map(|ports| ports.write().to_string()).collect();
        assert_eq!(written, ["80", "81", "\"1024-2000\""]);
        let mistakes = read("[0, \"x\", \"9-8\", true]").expect_err("none of them");
        let keys = (0..4).map(|index| format!("forward.request_ports[{index}]"));
        assert!(mistakes.iter().map(|mistake| &mistake.key).eq(&keys.collect::<Vec<_>>()), "{mistakes:?}");
    }
}
