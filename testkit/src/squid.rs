//! Squid as a neighbour of Shoal: a caching proxy on an address of its own, with ICP, HTCP and
//! digests on.
//!
//! The settings follow what was measured on Debian's Squid: every neighbour has its own loopback
//! address, ports are below 32768, netdb is without effect, and stopping waits a second at most.

use crate::wait;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use tempfile::TempDir;

/// Addresses of one neighbour: an IP of its own, and three ports.
#[derive(Clone, Copy, Debug)]
pub struct NeighbourPorts {
    /// Address of the neighbour.
    pub ip: IpAddr,
    /// TCP port of its proxy.
    pub http: u16,
    /// UDP port for ICP.
    pub icp: u16,
    /// UDP port for HTCP.
    pub htcp: u16,
}

/// A Squid under test.
pub struct Squid {
    ports: NeighbourPorts,
    process: Child,
    folder: TempDir,
}

impl NeighbourPorts {
    /// Takes an address and ports that are free now.
    pub fn fresh() -> Self {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let [high, low] = ((std::process::id() & 0x3fff) as u16).to_be_bytes();
            let ip = Ipv4Addr::new(127, 128 + high, low, 1 + (number % 250) as u8);
            let base = 20_000 + (number % 2000) * 4;
            let ports = Self { ip: ip.into(), http: base, icp: base + 1, htcp: base + 2 };
            let is_free = TcpListener::bind((ports.ip, ports.http)).is_ok()
                && UdpSocket::bind((ports.ip, ports.icp)).is_ok()
                && UdpSocket::bind((ports.ip, ports.htcp)).is_ok();
            if is_free {
                return ports;
            }
        }
    }

    /// Address of the proxy.
    pub fn proxy(&self) -> SocketAddr {
        (self.ip, self.http).into()
    }
}

impl Squid {
    /// Starts a Squid with further lines of settings, in which `{folder}` is its own; `None` where
    /// it is not installed.
    pub fn start(ports: NeighbourPorts, lines: &str) -> Option<Self> {
        let found = ["squid", "/usr/sbin/squid"].into_iter().find(|program| {
            let run = Command::new(program).arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status();
            run.is_ok_and(|status| status.success())
        })?;
        let folder = tempfile::tempdir().expect("a folder");
        // Squid gives up root's rights for a user's of its own.
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).expect("our own folder");
        let NeighbourPorts { ip, http, icp, htcp } = ports;
        let path = folder.path().display();
        let text = format!(
            "http_port {ip}:{http}\nicp_port {icp}\nhtcp_port {htcp}\nudp_incoming_address {ip}\n\
             tcp_outgoing_address {ip}\nvisible_hostname squid-{http}\nunique_hostname squid-{http}\n\
             http_access allow all\nicp_access allow all\nhtcp_access allow all\nhtcp_clr_access allow all\n\
             minimum_direct_rtt 0\nminimum_direct_hops 0\nnetdb_high 0\nnetdb_low 0\nquery_icmp off\n\
             access_log stdio:{path}/access.log\ncache_store_log none\ncache_log {path}/cache.log\n\
             pid_filename {path}/squid.pid\ncoredump_dir {path}\npinger_enable off\ncache_mem 16 MB\n\
             shutdown_lifetime 1 seconds\ndigest_rebuild_period 5 seconds\ndigest_rewrite_period 5 seconds\n\
             dead_peer_timeout 3 seconds\nconnect_retries 0\nforward_max_tries 5\n{lines}\n",
            lines = lines.replace("{folder}", &path.to_string()),
        );
        let file = folder.path().join("settings");
        std::fs::write(&file, text).expect("written");
        let output = File::create(folder.path().join("output")).expect("a file for its output");
        let errors = output.try_clone().expect("the same file");
        let mut command = Command::new(found);
        // The service's name is that of its shared memory, which a killed Squid leaves behind.
        let service = format!("n{http}x{}", std::process::id());
        command.args(["-N", "-n", &service, "-f"]).arg(&file);
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        if lines.contains("cache_dir") {
            let made = Command::new(found).args(["-N", "-z", "-n", &service, "-f"]).arg(&file).output();
            assert!(made.is_ok_and(|made| made.status.success()), "Squid makes its folders");
        }
        let process = command.spawn().expect("it answered to its version");
        let squid = Self { ports, process, folder };
        let accepts = || TcpStream::connect(squid.ports.proxy()).is_ok();
        assert!(wait::within(wait::LIMIT, accepts), "Squid does not start:\n{}", squid.logs());
        Some(squid)
    }

    /// Its addresses.
    pub fn ports(&self) -> NeighbourPorts {
        self.ports
    }

    /// Lines of its access log.
    pub fn access_log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("access.log")).unwrap_or_default()
    }

    /// What it wrote of itself.
    pub fn logs(&self) -> String {
        let read = |name: &str| std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
        format!("{}{}{}", read("output"), read("cache.log"), read("access.log"))
    }
}

impl Drop for Squid {
    fn drop(&mut self) {
        wait::end(&mut self.process);
    }
}
