//! Facts about a machine and its files, by which `shoal doctor` judges. Nothing here reads them.

use shoal_proxy::admin::Status;
use std::path::PathBuf;
use std::time::Duration;

/// All facts.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub open_files: OpenFiles,
    pub memory: Memory,
    pub kernel: Kernel,
    pub clock: Clock,
    pub disks: Vec<DiskFact>,
    pub files: Vec<FileFact>,
    /// User for the judgement of files.
    pub user: User,
    pub names: Vec<NameFact>,
    pub ports: Vec<PortFact>,
    pub node: NodeFact,
}

/// Limit of open files.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenFiles {
    /// Limit that a process reaches by itself; `None` for no limit.
    pub hard: Option<u64>,
    /// `true` if it is the running node's, `false` if it is this command's.
    pub is_nodes: bool,
    /// Limit of the whole machine.
    pub of_machine: Option<u64>,
}

/// Memory, in bytes.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// Memory of the machine; 0 if unknown.
    pub total: u64,
    /// Limit of the control group.
    pub group_limit: Option<u64>,
    /// `vm.overcommit_memory`.
    pub overcommit: Option<u64>,
    /// Setting of transparent huge pages in force: `always`, `madvise` or `never`.
    pub huge_pages: Option<String>,
}

/// Settings of the kernel's network.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kernel {
    /// `net.core.somaxconn`.
    pub somaxconn: Option<u64>,
    /// `net.ipv4.tcp_max_syn_backlog`.
    pub syn_backlog: Option<u64>,
    /// `net.ipv4.ip_local_port_range`.
    pub local_ports: Option<(u64, u64)>,
    /// `net.ipv4.tcp_timestamps`.
    pub timestamps: Option<u64>,
    /// `net.ipv4.tcp_tw_reuse`.
    pub tw_reuse: Option<u64>,
}

/// The clock.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    /// `true` if a time service keeps the clock; `None` if that cannot be told here.
    pub is_synchronised: Option<bool>,
    /// Seconds since 1970.
    pub unix_s: u64,
    /// Steps of the time of day against the monotonic clock while this command ran.
    pub step: Duration,
}

/// One disk of the settings.
#[derive(Clone, Debug, Default)]
pub struct DiskFact {
    pub path: PathBuf,
    /// Reason why the node would not take it: room, or no answer.
    pub misfit: Option<String>,
    /// Error of the system when it was looked at.
    pub error: Option<String>,
    /// `true` for a block device.
    pub is_device: bool,
    /// Kind of the file system, such as `ext4`.
    pub kind: String,
    /// Options of the mount.
    pub options: Vec<String>,
    /// `true` if its device turns.
    pub is_rotational: Option<bool>,
    /// Bytes of the file system, and those that are free.
    pub total: u64,
    pub free: u64,
    /// Inodes of the file system, and those that are free; 0 where there is no limit.
    pub inodes: u64,
    pub inodes_free: u64,
}

/// One file or folder of the settings.
#[derive(Clone, Debug)]
pub struct FileFact {
    /// Setting that names it.
    pub setting: String,
    pub path: PathBuf,
    pub need: Need,
    pub state: FileState,
    /// Lifetime of the certificate in it.
    pub certificate: CertificateState,
}

/// Use of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Read, and known to nobody else: keys and passwords.
    Secret,
    /// Read.
    Read,
    /// Folder in which the node makes files.
    WriteIn,
    /// Certificate with its key, which the node writes when it has come.
    Ordered,
}

/// State of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileState {
    /// The file is there.
    There {
        /// Bits of the permissions.
        mode: u32,
        uid: u32,
        gid: u32,
        is_folder: bool,
    },
    /// The file is not there.
    Absent,
    /// The file cannot be looked at; a line.
    Hidden(String),
}

/// Lifetime of a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CertificateState {
    /// No certificate, or one with dates in order.
    #[default]
    Sound,
    /// The certificate ends within [`CERTIFICATE_DAYS`].
    EndsSoon,
    Ended,
    NotYet,
}

/// Days before a certificate's end at which operators are warned.
pub const CERTIFICATE_DAYS: u64 = 14;

/// A user and its groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    pub uid: u32,
    pub gids: Vec<u32>,
    /// `true` if it is the running node's, `false` if it is this command's.
    pub is_nodes: bool,
}

/// One name of the settings, looked up.
#[derive(Clone, Debug)]
pub struct NameFact {
    pub name: String,
    /// Setting that has the name.
    pub setting: String,
    /// Number of addresses, or the error; `None` if no answer came in time.
    pub found: Option<Result<usize, String>>,
    pub took: Duration,
}

/// One listening address of the settings.
#[derive(Clone, Debug)]
pub struct PortFact {
    pub address: String,
    pub setting: String,
    pub state: PortState,
}

/// State of a listening address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortState {
    /// The address can be bound.
    Free,
    /// The running node has the address.
    Nodes,
    /// Another process has the address.
    Taken,
    /// This user may not bind the address.
    Forbidden,
    /// No address of this machine.
    Foreign,
    /// The address cannot be bound for another reason.
    Failed(String),
}

/// The running node.
#[derive(Clone, Debug, Default)]
pub enum NodeFact {
    /// The settings have no admin listener, and no address was given.
    #[default]
    NoAddress,
    /// The node was not to be asked.
    NotAsked,
    /// No node answers; the error.
    Silent { at: String, why: String },
    /// The node does not answer this user; the reason.
    Refused { why: String },
    /// The node answers.
    Answers { at: String, status: Box<Status>, findings: Vec<crate::finding::Finding> },
}
