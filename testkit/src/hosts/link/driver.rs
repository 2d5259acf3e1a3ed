//! Thread of a link: reads frames from two interfaces, and sends each when its time has come.

use super::checksum;
use super::line::Line;
use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, bind, recvfrom, send, setsockopt,
    socket, sockopt,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Packet sockets of both ends.
pub(super) struct Driver {
    ends: [End; 2],
}

/// One interface.
struct End {
    socket: OwnedFd,
    index: usize,
}

impl Driver {
    /// Opens the interfaces of these names.
    pub(super) fn open(names: &[String; 2]) -> Result<Self, String> {
        let [near, far] = names;
        Ok(Self { ends: [End::open(near)?, End::open(far)?] })
    }

    /// Passes frames on until told to stop.
    pub(super) fn run(self, lines: &[Mutex<Line>; 2], stopping: &AtomicBool) {
        let begin = Instant::now();
        let mut buffer = vec![0; FRAME_MAX];
        while !stopping.load(SeqCst) {
            let mut next = PAUSE;
            for (direction, line) in lines.iter().enumerate() {
                let mut line = line.lock().unwrap_or_else(PoisonError::into_inner);
                let (from, to) = (&self.ends[direction], &self.ends[1 - direction]);
                for _ in 0..BATCH {
                    let Some(frame) = from.receive(&mut buffer) else { break };
                    line.take(begin.elapsed(), frame);
                }
                while let Some(frame) = line.arrived(begin.elapsed()) {
                    to.send(&frame);
                }
                let due = line.next_due().map(|due| due.saturating_sub(begin.elapsed()));
                next = next.min(due.unwrap_or(next));
            }
            self.wait(next);
        }
    }

    /// Waits until a frame comes, or for this time.
    fn wait(&self, limit: Duration) {
        let mut ends = self.ends.each_ref().map(|end| PollFd::new(&end.socket, PollFlags::IN));
        let limit = Timespec { tv_sec: 0, tv_nsec: i64::from(limit.min(PAUSE).subsec_nanos()) };
        // An interrupted wait ends early and is begun again.
        let _ = poll(&mut ends, Some(&limit));
    }
}

impl End {
    fn open(name: &str) -> Result<Self, String> {
        let failed = |error: nix::Error| format!("packet socket on {name}: {error}");
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket =
            socket(AddressFamily::Packet, SockType::Raw, flags, SockProtocol::EthAll).map_err(failed)?;
        let interfaces = nix::ifaddrs::getifaddrs().map_err(failed)?;
        let mut found = interfaces.filter(|interface| interface.interface_name == name);
        let address: LinkAddr = found
            .find_map(|interface| interface.address?.as_link_addr().copied())
            .ok_or_else(|| format!("there is no interface {name}"))?;
        // Room for the frames that come while this thread waits for a core.
        let _ = setsockopt(&socket, sockopt::RcvBufForce, &BUFFER);
        bind(socket.as_raw_fd(), &address).map_err(failed)?;
        Ok(Self { socket, index: address.ifindex() })
    }

    /// The next frame that came in at this interface, with all checksums.
    fn receive(&self, buffer: &mut [u8]) -> Option<Vec<u8>> {
        loop {
            let (length, from) = recvfrom::<LinkAddr>(self.socket.as_raw_fd(), buffer).ok()?;
            // Before it was bound the socket may have taken frames of other interfaces.
            if from.is_some_and(|from| from.ifindex() == self.index && from.pkttype() != OUTGOING) {
                let mut frame = buffer.get(..length)?.to_vec();
                checksum::complete(&mut frame);
                return Some(frame);
            }
        }
    }

    /// Sends a frame. One that the device does not take is lost, as on a wire.
    fn send(&self, frame: &[u8]) {
        let _ = send(self.socket.as_raw_fd(), frame, MsgFlags::MSG_DONTWAIT);
    }
}

/// Longest wait before the thread looks if it is to stop.
const PAUSE: Duration = Duration::from_millis(20);

/// Frames read from one end before the other has its turn.
const BATCH: usize = 64;

/// The largest frame that the kernel hands over, with room to spare.
const FRAME_MAX: usize = 1 << 17;

const BUFFER: usize = 4 << 20;

/// `PACKET_OUTGOING` of packet(7): a frame that this machine sends.
const OUTGOING: u8 = 4;
