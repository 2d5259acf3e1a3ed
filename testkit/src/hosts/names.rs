//! Names and addresses of one ground: bridge, namespaces, interfaces, networks.
//!
//! A ground has a number that no other ground on the machine has. Everything follows from it:
//!
//! ```text
//!   bridge shoalN (address 1, the test's own) ─┬─ shN-0 ══ eth0 of shoal-PID-N-0 (address 10)
//!                                              └─ shN-1 ══ eth0 of shoal-PID-N-1 (address 11)
//! ```

use std::net::Ipv4Addr;

/// Number of a ground and the process that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) number: u16,
    pub(super) creator: u32,
}

impl Names {
    /// The bridge, in the namespace of the test.
    pub(super) fn bridge(self) -> String {
        format!("shoal{}", self.number)
    }

    /// The network namespace of a host.
    pub(super) fn namespace(self, host: usize) -> String {
        format!("{}{host}", self.namespaces())
    }

    /// What the names of all namespaces of the ground begin with.
    pub(super) fn namespaces(self) -> String {
        format!("shoal-{}-{}-", self.creator, self.number)
    }

    /// The outer end of a host's cable.
    pub(super) fn port(self, host: usize) -> String {
        format!("sh{}-{host}", self.number)
    }

    /// The ends of the cable that leads from a link to the bridge.
    pub(super) fn uplink(self, host: usize) -> [String; 2] {
        ["u", "b"].map(|end| format!("sh{}-{host}{end}", self.number))
    }

    /// The folder of a host's control groups, below that of each controller.
    pub(super) fn group(self, host: usize) -> String {
        format!("{}-{}-{host}", self.creator, self.number)
    }

    /// The address that hosts reach the test itself at.
    pub(super) fn outside(self) -> Ipv4Addr {
        self.address(1)
    }

    /// The address of a host.
    pub(super) fn ip(self, host: usize) -> Ipv4Addr {
        self.address(station(host))
    }

    /// The network of all of them, with its length.
    pub(super) fn network(self) -> String {
        format!("{}/24", self.address(0))
    }

    /// The hardware address of the test's side.
    pub(super) fn outside_hardware(self) -> String {
        self.hardware(0, 1)
    }

    /// The hardware address of a host.
    pub(super) fn host_hardware(self, host: usize) -> String {
        self.hardware(0, station(host))
    }

    /// A hardware address that no station has. Frames to it reach nobody.
    pub(super) fn nobody_hardware(self) -> String {
        self.hardware(0xff, 0xff)
    }

    /// The networks set aside for measuring devices (RFC 2544, appendix C.2.2): 512 with 256
    /// addresses each.
    fn address(self, station: u8) -> Ipv4Addr {
        let [high, low] = self.number.to_be_bytes();
        Ipv4Addr::new(198, 18 + high, low, station)
    }

    /// A hardware address that is given out locally.
    fn hardware(self, kind: u8, station: u8) -> String {
        let [high, low] = self.number.to_be_bytes();
        format!("02:53:{kind:02x}:{high:02x}:{low:02x}:{station:02x}")
    }
}

/// Most hosts of a ground.
pub const HOSTS_MAX: usize = 16;

/// Grounds that the set-aside networks have room for.
pub(super) const GROUNDS_MAX: u16 = 512;

/// A host's last byte of address.
fn station(host: usize) -> u8 {
    assert!(host < HOSTS_MAX, "a ground has at most {HOSTS_MAX} hosts");
    10 + host as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_the_kernel_and_are_apart() {
        let names = Names { number: GROUNDS_MAX - 1, creator: 4_194_304 };
        let [up, bridge_end] = names.uplink(HOSTS_MAX - 1);
        for name in [names.bridge(), names.port(HOSTS_MAX - 1), up, bridge_end] {
            assert!(name.len() <= 15, "{name}");
        }
        assert_ne!(names.ip(0), names.ip(1));
        assert_ne!(names.ip(0), names.outside());
        assert!(names.network().starts_with("198.19.255.0"));
    }
}
