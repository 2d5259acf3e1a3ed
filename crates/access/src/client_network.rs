//! The network that counts as one client.

use std::net::{IpAddr, Ipv6Addr};

/// Returns the address that a client's share belongs to. For IPv6 this is the /64 network, since
/// its owner has all addresses in it.
pub fn client_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from(network))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_owner_are_one_client() {
        for (address, network) in [
            ("192.0.2.7", "192.0.2.7"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("2001:db8::1", "2001:db8::"),
            ("2001:db8::ffff:0:0:1", "2001:db8::"),
            ("2001:db8:0:1::1", "2001:db8:0:1::"),
        ] {
            let address = address.parse().expect("an address");
            assert_eq!(client_network(address).to_string(), network);
        }
    }
}
