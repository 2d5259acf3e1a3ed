//! Version 2 of the header: binary.
//!
//! ```text
//!   signature (12) │ version, command │ family, transport │ length (big-endian) │ addresses │ TLVs
//! ```

use super::{Addresses, Header};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

pub(super) const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Bytes up to and including the length.
const FIXED_BYTES: usize = 16;

/// Largest size of addresses and TLVs together. The format allows 65535 bytes. Balancers send a few
/// hundred at most, mainly the names of a client certificate.
const VARIABLE_BYTES_MAX: usize = 4096;

pub(super) const HEADER_BYTES_MAX: usize = FIXED_BYTES + VARIABLE_BYTES_MAX;

pub(super) fn parse(bytes: &[u8]) -> Header {
    let Some((fixed, rest)) = bytes.split_first_chunk::<FIXED_BYTES>() else {
        return Header::Incomplete;
    };
    let [command, family, high, low] = [fixed[12], fixed[13], fixed[14], fixed[15]];
    let length = usize::from(u16::from_be_bytes([high, low]));
    if length > VARIABLE_BYTES_MAX {
        return Header::Malformed("PROXY protocol header too long");
    }
    let Some(variable) = rest.get(..length) else {
        return Header::Incomplete;
    };
    let addresses = match command {
        LOCAL => Some(None),
        PROXY => read_addresses(family, variable),
        _ => return Header::Malformed("unknown PROXY protocol version or command"),
    };
    match addresses {
        Some(addresses) => Header::Complete { length: FIXED_BYTES + length, addresses },
        None => Header::Malformed("invalid PROXY protocol addresses"),
    }
}

/// Reads the addresses at the front of the variable part; TLVs after them are skipped. The inner
/// `None` stands for families without usable addresses. "the receiver … MUST accept the connection
/// and use the real connection's addresses" for UNSPEC, and may for UNIX and datagrams.
fn read_addresses(family: u8, variable: &[u8]) -> Option<Option<Addresses>> {
    match family {
        TCP_OVER_IPV4 => {
            let block: &[u8; 12] = variable.first_chunk()?;
            let (source, rest) = block.split_first_chunk::<4>()?;
            let (destination, ports) = rest.split_first_chunk::<4>()?;
            Some(Some(join(Ipv4Addr::from(*source).into(), Ipv4Addr::from(*destination).into(), ports)?))
        }
        TCP_OVER_IPV6 => {
            let block: &[u8; 36] = variable.first_chunk()?;
            let (source, rest) = block.split_first_chunk::<16>()?;
            let (destination, ports) = rest.split_first_chunk::<16>()?;
            Some(Some(join(Ipv6Addr::from(*source).into(), Ipv6Addr::from(*destination).into(), ports)?))
        }
        family if family >> 4 <= UNIX_FAMILY && family & 0xf <= DATAGRAM => Some(None),
        _ => None,
    }
}

fn join(source: IpAddr, destination: IpAddr, ports: &[u8]) -> Option<Addresses> {
    let &[a, b, c, d] = ports.first_chunk::<4>()?;
    Some(Addresses {
        source: SocketAddr::new(source, u16::from_be_bytes([a, b])),
        destination: SocketAddr::new(destination, u16::from_be_bytes([c, d])),
    })
}

const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;
const TCP_OVER_IPV4: u8 = 0x11;
const TCP_OVER_IPV6: u8 = 0x21;
const UNIX_FAMILY: u8 = 3;
const DATAGRAM: u8 = 2;
