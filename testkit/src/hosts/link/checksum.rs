//! Checksums of TCP and UDP over IPv4 (RFC 1071), which the kernel leaves to the device.
//!
//! A virtual cable carries frames whose checksum holds the sum of the pseudo-header only. A frame
//! that is sent anew from user space must have all of it, or the receiver drops it.

/// Completes the checksum of a frame, if it is one of TCP or UDP in IPv4 and whole.
pub(super) fn complete(frame: &mut [u8]) {
    let Some((ethernet, packet)) = frame.split_at_mut_checked(ETHERNET) else { return };
    let is_ipv4 = ethernet[12..14] == [0x08, 0x00] && packet.first().is_some_and(|byte| byte >> 4 == 4);
    if !is_ipv4 || packet.len() < 20 {
        return;
    }
    let header = usize::from(packet[0] & 15) * 4;
    let total = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
    // A fragment has a part of what is summed; the kernel has summed that before it cut.
    let is_fragment = u16::from_be_bytes([packet[6], packet[7]]) & 0x3fff != 0;
    let protocol = packet[9];
    let place = match protocol {
        TCP => header + 16,
        UDP => header + 6,
        _ => return,
    };
    if is_fragment || header < 20 || total > packet.len() || place + 2 > total {
        return;
    }
    packet[place..place + 2].fill(0);
    let mut sum = words(&packet[12..20]) + u64::from(protocol) + (total - header) as u64;
    sum += words(&packet[header..total]);
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    // Zero says that a datagram has no checksum (RFC 768).
    let checksum = if protocol == UDP && sum == 0xffff { 0xffff } else { !(sum as u16) };
    packet[place..place + 2].copy_from_slice(&checksum.to_be_bytes());
}

/// The sum of bytes as words of 16 bits, an odd last one filled up with zero.
fn words(bytes: &[u8]) -> u64 {
    let word = |pair: &[u8]| u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0));
    bytes.chunks(2).map(word).sum()
}

const ETHERNET: usize = 14;
const TCP: u8 = 6;
const UDP: u8 = 17;

#[cfg(test)]
mod tests {
    use super::*;

    /// A datagram of `hello` from 10.0.0.1:5 to 10.0.0.2:6.
    fn datagram() -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([0x08, 0x00]);
        frame.extend([0x45, 0, 0, 33, 0, 0, 0x40, 0, 64, UDP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0, 5, 0, 6, 0, 13, 0xaa, 0xaa]);
        frame.extend(b"hello");
        frame
    }

    #[test]
    fn completed_datagram_sums_to_ones() {
        let mut frame = datagram();
        complete(&mut frame);
        let packet = &frame[ETHERNET..];
        let mut sum = words(&packet[12..20]) + u64::from(UDP) + 13 + words(&packet[20..33]);
        while sum >> 16 != 0 {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        assert_eq!(sum, 0xffff);
    }

    #[test]
    fn fragments_and_cut_frames_stay_as_they_are() {
        let mut fragment = datagram();
        fragment[ETHERNET + 6] = 0x20;
        let before = fragment.clone();
        complete(&mut fragment);
        assert_eq!(fragment, before);
        for length in 0..datagram().len() {
            complete(&mut datagram()[..length]);
        }
    }
}
