//! Other proxies in front of Shoal or behind it: nginx and Squid, where they are installed.

use crate::address::{free_port, fresh_ip};
use crate::wait;
use std::fs::File;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A proxy that passes everything on to one address and keeps nothing.
pub struct Neighbour {
    address: SocketAddr,
    process: Child,
    _folder: TempDir,
}

impl Neighbour {
    /// nginx before `next`, on kept connections; `None` where it is not installed.
    pub fn nginx(next: SocketAddr) -> Option<Self> {
        Self::start("nginx", &["-v"], |folder, address| {
            let text = format!(
                "daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;\n\
                 events {{ worker_connections 64; }}\n\
                 http {{ access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/temp;\n\
                 fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;\n\
                 upstream next {{ server {next}; keepalive 8; }}\n\
                 server {{ listen {address}; location / {{ proxy_pass http://next; proxy_http_version 1.1;\n\
                 proxy_set_header Connection \"\"; proxy_set_header Host $host; }} }} }}\n"
            );
            (text, vec!["-p".into(), folder.into(), "-c".into()])
        })
    }

    /// Squid before `next`, as an accelerator; `None` where it is not installed.
    pub fn squid(next: SocketAddr) -> Option<Self> {
        Self::start("squid", &["-v"], |folder, address| {
            let text = format!(
                "http_port {address} accel vhost defaultsite=site.test\nvisible_hostname neighbour\n\
                 cache_peer {ip} parent {port} 0 no-query no-digest originserver\nhttp_access allow all\ncache deny all\n\
                 access_log none\ncache_store_log none\ncache_log {folder}/cache.log\npid_filename {folder}/squid.pid\n\
                 coredump_dir {folder}\npinger_enable off\nshutdown_lifetime 0 seconds\n",
                ip = next.ip(),
                port = next.port(),
            );
            (text, vec!["-N".into(), "-n".into(), format!("n{}", address.port()), "-f".into()])
        })
    }

    /// nginx with these `http` settings, in which `{address}` is where it listens; `None` where it
    /// is not installed.
    pub fn nginx_with(http: &str) -> Option<Self> {
        Self::start("nginx", &["-v"], |folder, address| {
            let http = http.replace("{address}", &address.to_string());
            let text = format!(
                "daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;\n\
                 events {{ worker_connections 256; }}\n\
                 http {{ access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/temp;\n\
                 fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;\n\
                 {http}\n}}\n"
            );
            (text, vec!["-p".into(), folder.into(), "-c".into()])
        })
    }

    /// HAProxy with these settings, in which `{address}` is where it listens; `None` where it is
    /// not installed.
    pub fn haproxy_with(settings: &str) -> Option<Self> {
        Self::start("haproxy", &["-v"], |_, address| {
            let text = settings.replace("{address}", &address.to_string());
            (format!("global\n    maxconn 256\n{text}\n"), vec!["-db".into(), "-f".into()])
        })
    }

    /// Where it accepts clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    fn start(
        program: &str,
        version: &[&str],
        configure: impl Fn(&str, SocketAddr) -> (String, Vec<String>),
    ) -> Option<Self> {
        let found = [program.to_owned(), format!("/usr/sbin/{program}")];
        let program = found.iter().find(|program| {
            let run =
                Command::new(program).args(version).stdout(Stdio::null()).stderr(Stdio::null()).status();
            run.is_ok_and(|status| status.success())
        })?;
        let folder = tempfile::tempdir().expect("a folder");
        // They give up root's rights for a user's of their own.
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).expect("our own folder");
        let address = free_port(fresh_ip());
        let path = folder.path().to_string_lossy().into_owned();
        let (text, mut arguments) = configure(&path, address);
        let file = folder.path().join("settings");
        std::fs::write(&file, text).expect("written");
        arguments.push(file.to_string_lossy().into_owned());
        let process = spawn(program, &arguments, &folder.path().join("output"));
        let neighbour = Self { address, process, _folder: folder };
        wait::until("the neighbour accepts", || TcpStream::connect(address).is_ok());
        Some(neighbour)
    }
}

fn spawn(program: &str, arguments: &[String], output: &Path) -> Child {
    let output = File::create(output).expect("a file for its output");
    let errors = output.try_clone().expect("the same file");
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(output).stderr(errors);
    command.spawn().expect("it answered to its version")
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        wait::end(&mut self.process);
    }
}
