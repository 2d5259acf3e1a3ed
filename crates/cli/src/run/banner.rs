//! Text that `shoal run` prints after its start: all addresses and paths, and commands that point
//! clients at the node.

use crate::mirror::{lines, listener_url as url, reachable};
use crate::show;
use shoal_proxy::admin::DiskStatus;
use shoal_settings::{AdminAddress, Disk, Listen, LogTarget, Mode, Settings};
use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

/// Returns the whole text. `addresses` are the bound addresses of the listeners, in the order of
/// the settings. `disks` are the states of the store's disks.
pub fn text(
    settings: &Settings,
    addresses: &[SocketAddr],
    admin: Option<&AdminAddress>,
    disks: &[DiskStatus],
) -> String {
    let mut text = format!("shoal {}\n", env!("CARGO_PKG_VERSION"));
    for (listen, address) in settings.listen.iter().zip(addresses) {
        let mode = listen.mode.name();
        let all = match address.ip() {
            ip if !ip.is_unspecified() => "",
            IpAddr::V4(_) => ", and port {} of all IPv4 addresses",
            IpAddr::V6(_) => ", and port {} of all addresses",
        };
        let all = all.replace("{}", &address.port().to_string());
        let _ = writeln!(text, "  {mode:8} {}{all}", url(listen, *address));
        if !address.ip().is_loopback() {
            served(&mut text, settings, listen);
        }
    }
    whereabouts(&mut text, settings, admin, disks);
    let of_mode =
        |mode: Mode| settings.listen.iter().zip(addresses).find(move |(listen, _)| listen.mode == mode);
    if let Some((listen, address)) = of_mode(Mode::Forward) {
        forward(&mut text, settings, &url(listen, *address));
    }
    if let Some((listen, address)) = of_mode(Mode::Reverse) {
        reverse(&mut text, settings, listen, *address);
    }
    text
}

fn whereabouts(
    text: &mut String,
    settings: &Settings,
    admin: Option<&AdminAddress>,
    statuses: &[DiskStatus],
) {
    let is_out = |disk: &Disk| {
        let path = disk.path.to_string_lossy();
        statuses.iter().any(|status| status.path == path && !status.is_in_service())
    };
    let place = |disk: &Disk| {
        let folder = std::path::absolute(&disk.path).unwrap_or_else(|_| disk.path.clone());
        let out = if is_out(disk) { " OUT OF SERVICE: shoal status says why" } else { "" };
        format!("{} disk in {}{out}", disk.bytes, folder.display())
    };
    let disks: Vec<_> = settings.store.all_disks().iter().map(place).collect();
    let disks = if disks.is_empty() { "no disk".to_owned() } else { disks.join(", ") };
    let _ = writeln!(text, "  cache    {} RAM, {disks}", settings.cache.ram);
    let _ = match admin {
        Some(address @ AdminAddress::Tcp(socket)) => {
            let scheme = if settings.admin.tls.is_empty() { "http" } else { "https" };
            let options = admin_options(settings, address);
            writeln!(text, "  admin    dashboard at {scheme}://{socket}/; shoal status {options}")
        }
        Some(address) => writeln!(text, "  admin    shoal status {}", admin_options(settings, address)),
        None => writeln!(text, "  admin    none"),
    };
    cluster(text, settings, admin);
    if settings.intercept.is_on() {
        let hosts = settings.intercept.hosts.join(", ");
        let folder = settings.intercept.authority.display();
        let _ = writeln!(text, "  https    of {hosts} is INTERCEPTED; shoal ca lines --folder {folder}");
    }
    let format = if settings.log.template.is_empty() { settings.log.format.name() } else { "template" };
    let access = match LogTarget::parse(&settings.log.access) {
        Ok(LogTarget::None) => "no access log (log.access names one)".to_owned(),
        Ok(LogTarget::Stdout) => format!("access log on stdout ({format})"),
        Ok(LogTarget::Syslog(_) | LogTarget::Journal(_)) => {
            format!("access log to {} ({format})", settings.log.access)
        }
        Ok(LogTarget::File(_)) | Err(_) => format!("access log in {} ({format})", settings.log.access),
    };
    let _ = writeln!(text, "  logs     errors on stderr; {access}");
}

/// Returns the options by which a command asks this node.
fn admin_options(settings: &Settings, admin: &AdminAddress) -> String {
    let mut options = match settings.admin.tls.first() {
        Some(pair) => {
            let certificate = show::quoted(&pair.certificate.to_string_lossy());
            format!("--admin https://{admin} --admin-ca {certificate}")
        }
        None => format!("--admin {admin}"),
    };
    if let Some(user) = settings.admin.users.first() {
        let _ = write!(options, " --user {} --password-file FILE", show::quoted(&user.name));
    }
    options
}

/// Names the cluster and the address for its nodes.
fn cluster(text: &mut String, settings: &Settings, admin: Option<&AdminAddress>) {
    let cluster = &settings.cluster;
    let Some(peer) = cluster.peer.filter(|_| !cluster.name.is_empty()) else { return };
    let key = match &cluster.key_file {
        Some(path) => format!("keys in {}", path.display()),
        None => "no key".into(),
    };
    let _ = write!(text, "  cluster  {}, nodes reach this one at {peer}, {key}", cluster.name);
    let _ = match admin {
        Some(admin) => writeln!(text, "; shoal cluster status {}", admin_options(settings, admin)),
        None => writeln!(text),
    };
}

/// Names the clients of a listener that other machines can reach. In forward mode only this machine
/// may use it, unless the settings allow more.
fn served(text: &mut String, settings: &Settings, listen: &Listen) {
    let Some(networks) = listen.clients(&settings.forward) else { return };
    let networks: Vec<String> = networks.iter().map(ToString::to_string).collect();
    let setting = match listen.allow_clients {
        Some(_) => "allow_clients of the [[listen]]",
        None => "forward.allow_clients",
    };
    let networks = networks.join(", ");
    let _ = writeln!(text, "           clients of {networks}; others get 403 (--allow-clients, {setting})");
}

/// Prints one shell line a client. No line but apt's has a lasting effect.
fn forward(text: &mut String, settings: &Settings, proxy: &str) {
    let proxy = match settings.forward.users_file {
        Some(_) => proxy.replacen("://", "://USER:PASSWORD@", 1),
        None => proxy.to_owned(),
    };
    let _ = write!(
        text,
        "
Point clients at it:
  apt      echo 'Acquire::http::Proxy \"{proxy}\";' | sudo tee /etc/apt/apt.conf.d/80shoal
  curl     curl --proxy {proxy} http://example.com/

These use https:// unless told otherwise, which passes through as a tunnel and is NOT cached:
  pip      export PIP_PROXY={proxy}
  npm      export npm_config_proxy={proxy} npm_config_https_proxy={proxy}
  cargo    export CARGO_HTTP_PROXY={proxy}
  git      git config --global http.proxy {proxy}

What comes from http:// origins is cached: apt's mirrors, and http:// mirrors of the others. To cache an https
origin, serve it in reverse mode and name Shoal's address to the client instead: shoal run --to https://ORIGIN
"
    );
    if settings.forward.allow_private_destinations.is_empty() {
        text.push_str(
            "Origins on loopback and private networks are refused; --allow-private HOST|NET serves one.\n",
        );
    }
}

fn reverse(text: &mut String, settings: &Settings, listen: &Listen, address: SocketAddr) {
    if !settings.mirror.is_empty() {
        text.push_str("\nLines for the clients of the mirrors; shoal mirror lines prints them again:\n");
        text.push_str(&lines::text(settings, &url(listen, address)));
    }
    if settings.site.is_empty() {
        return;
    }
    text.push_str("\nTry it:\n");
    for site in settings.site.iter().take(SITES_SHOWN) {
        let Some(host) = site.hosts.first() else { continue };
        let path = &site.path_prefix;
        let reachable = reachable(address);
        // Host name in place of a wildcard for subdomains.
        let name = host.replacen('*', "www", 1);
        let _ = match (host.as_str(), listen.is_tls()) {
            ("*", false) => writeln!(text, "  curl http://{reachable}{path}"),
            ("*", true) => writeln!(text, "  curl https://{reachable}{path}"),
            (_, false) => writeln!(text, "  curl -H 'Host: {name}' http://{reachable}{path}"),
            (_, true) => {
                let port = address.port();
                writeln!(text, "  curl --connect-to ::{reachable} https://{name}:{port}{path}")
            }
        };
    }
    if settings.site.len() > SITES_SHOWN {
        let _ = writeln!(text, "  and {} more sites", settings.site.len() - SITES_SHOWN);
    }
}

const SITES_SHOWN: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_settings::{Override, SettingsSource};

    #[test]
    fn the_defaults_point_clients_at_the_forward_proxy() {
        let settings = Settings::default();
        let shown = text(&settings, &[([127, 0, 0, 1], 3128).into()], settings.admin.listen.as_ref(), &[]);
        for line in [
            "  forward  http://127.0.0.1:3128",
            "  admin    dashboard at http://127.0.0.1:3129/; shoal status --admin 127.0.0.1:3129",
            "  logs     errors on stderr; no access log (log.access names one)",
            "  pip      export PIP_PROXY=http://127.0.0.1:3128",
            "  curl     curl --proxy http://127.0.0.1:3128 http://example.com/",
        ] {
            assert!(shown.lines().any(|found| found == line), "{line} is not in\n{shown}");
        }
        assert!(
            shown.contains("256 MiB RAM, 10 GB disk in /") && shown.contains("/shoal-cache\n"),
            "{shown}"
        );
    }

    #[test]
    fn a_reverse_proxy_is_tried_with_curl() {
        let overrides = vec![
            Override::site("--to", "http://a"),
            Override::listen("--to", ([0, 0, 0, 0], 0).into(), true),
        ];
        let source =
            SettingsSource { file: "", text: "", overrides, readable: &|_| Ok(()), further: &|_| Vec::new() };
        let mut settings = source.read().expect("valid");
        let shown = text(&settings, &[([0, 0, 0, 0], 8080).into()], None, &[]);
        assert!(shown.ends_with("\nTry it:\n  curl http://127.0.0.1:8080/\n"), "{shown}");
        settings.site[0].hosts = vec!["*.example.org".into()];
        let shown = text(&settings, &[([0, 0, 0, 0], 8080).into()], None, &[]);
        assert!(shown.ends_with("  curl -H 'Host: www.example.org' http://127.0.0.1:8080/\n"), "{shown}");
    }

    #[test]
    fn banner_names_the_cluster() {
        let mut settings = Settings::default();
        let admin = settings.admin.listen.clone();
        let shown =
            |settings: &Settings| text(settings, &[([127, 0, 0, 1], 3128).into()], admin.as_ref(), &[]);
        assert!(!shown(&settings).contains("cluster"));
        settings.cluster.name = "trial".into();
        settings.cluster.peer = Some(([127, 0, 0, 1], 3131).into());
        let line = "  cluster  trial, nodes reach this one at 127.0.0.1:3131, no key; shoal cluster status --admin \
                    127.0.0.1:3129";
        assert!(shown(&settings).lines().any(|found| found == line), "{}", shown(&settings));
    }

    #[test]
    fn banner_names_intercepted_hosts() {
        let mut settings = Settings::default();
        let shown = |settings: &Settings| text(settings, &[([127, 0, 0, 1], 3128).into()], None, &[]);
        assert!(!shown(&settings).contains("INTERCEPTED"));
        settings.intercept.hosts = vec!["a.test".into(), "mirrors".into()];
        let line = "  https    of a.test, mirrors is INTERCEPTED; shoal ca lines --folder shoal-ca";
        assert!(shown(&settings).lines().any(|found| found == line), "{}", shown(&settings));
    }

    #[test]
    fn banner_names_disk_out_of_service() {
        let settings = Settings::default();
        let status = |service: &str| DiskStatus {
            path: "shoal-cache".into(),
            service: service.into(),
            ..DiskStatus::default()
        };
        let shown = |service| text(&settings, &[([127, 0, 0, 1], 3128).into()], None, &[status(service)]);
        assert!(shown("unopened").contains("/shoal-cache OUT OF SERVICE: "), "{}", shown("unopened"));
        assert!(!shown("in_service").contains("OUT OF SERVICE"), "{}", shown("in_service"));
    }

    /// Without this line an operator would not know why other machines are refused.
    #[test]
    fn banner_names_clients_of_open_proxy() {
        let settings = Settings::default();
        let shown = |ip: [u8; 4]| text(&settings, &[(ip, 3128).into()], None, &[]);
        assert!(
            shown([0; 4]).contains("\n           clients of 127.0.0.0/8, ::1/128; others get 403 "),
            "{}",
            shown([0; 4])
        );
        assert!(!shown([127, 0, 0, 1]).contains("others get 403"));
        let all = "  forward  http://127.0.0.1:3128, and port 3128 of all IPv4 addresses\n";
        assert!(shown([0; 4]).contains(all), "{}", shown([0; 4]));
    }

    #[test]
    fn authentication_shows_in_the_address() {
        let mut settings = Settings::default();
        settings.forward.users_file = Some("users".into());
        let shown = text(&settings, &[([127, 0, 0, 1], 3128).into()], None, &[]);
        assert!(shown.contains("PIP_PROXY=http://USER:PASSWORD@127.0.0.1:3128\n"), "{shown}");
    }
}
