//! Lines of `squid.conf` that stand for one setting each.

use crate::document::{Document, Section};
use crate::ledger::Ledger;
use crate::nginx::LOG_TO_STDOUT;
use crate::nginx_cache::STORE_FOLDER;
use crate::squid_lines::Line;
use crate::value::Value;

/// Reads the lines that stand for themselves.
pub fn settings(lines: &[Line], ledger: &mut Ledger, document: &mut Document) {
    document.table("cache").set("negative_ttl", "0 s", &[]);
    for line in lines {
        one(line, ledger, document);
    }
    folders(lines, ledger, document);
}

fn one(line: &Line, ledger: &mut Ledger, document: &mut Document) {
    let id = line.id;
    let mut set = |table: &'static str, key: &'static str, value: Option<Value>| match value {
        Some(value) => {
            ledger.carried(id);
            document.table(table).set(key, value, &[id]);
        }
        None => ledger.left_out(id, "its value cannot be read"),
    };
    let time = || seconds(&line.words).map(|seconds| Value::seconds(seconds.clamp(1, 86_400)));
    match line.name.as_str() {
        "cache_mem" => {
            set("cache", "ram", bytes(&line.words).map(|size| Value::bytes(size.clamp(4 << 20, 1 << 44))))
        }
        "maximum_object_size_in_memory" => {
            set("cache", "ram_object_max", bytes(&line.words).map(Value::bytes))
        }
        "maximum_object_size" => set("store", "object_max", bytes(&line.words).map(Value::bytes)),
        "negative_ttl" => {
            set("cache", "negative_ttl", seconds(&line.words).map(|time| Value::seconds(time.min(3600))));
        }
        "max_stale" => {
            set("cache", "stale_if_error", seconds(&line.words).map(Value::seconds));
        }
        "collapsed_forwarding" => set("cache", "collapse", Some((line.word(0) == "on").into())),
        "visible_hostname" | "unique_hostname" => set("cache", "name", Some(line.word(0).into())),
        "memory_replacement_policy" => {
            let policy = match line.words.join(" ").as_str() {
                "heap GDSF" => "gdsf",
                "heap LFUDA" => "lfu_da",
                _ => "lru",
            };
            set("cache", "ram_policy", Some(policy.into()));
        }
        "connect_timeout" => set("upstream", "connect_timeout", time()),
        "read_timeout" => set("upstream", "idle_timeout", time()),
        "server_idle_pconn_timeout" | "pconn_timeout" => set("upstream", "keep_alive", time()),
        "request_timeout" | "request_start_timeout" => set("client", "head_timeout", time()),
        "client_idle_pconn_timeout" | "persistent_request_timeout" => set("client", "keep_alive", time()),
        "workers" => match line.word(0).parse::<u64>() {
            Ok(number) if (1..=1024).contains(&number) => {
                ledger.carried(id);
                document.top.set("workers", number, &[id]);
            }
            _ => ledger.left_out(id, "its value cannot be read"),
        },
        "shutdown_lifetime" => match time() {
            Some(value) => {
                ledger.carried(id);
                document.top.set("drain_timeout", value, &[id]);
            }
            None => ledger.left_out(id, "its value cannot be read"),
        },
        "access_log" | "cache_access_log" => access_log(line, ledger, document),
        "request_header_access" | "reply_header_access" | "header_access" => {
            header_access(line, ledger, document)
        }
        "request_header_replace" | "header_replace" => {
            edit(line, "request_set", ledger, document);
        }
        "request_header_add" => edit(line, "request_set", ledger, document),
        "reply_header_add" => edit(line, "response_add", ledger, document),
        _ => rare(line, ledger, document),
    }
}

/// Reads lines that set nothing in a table, or nothing at all.
fn rare(line: &Line, ledger: &mut Ledger, document: &mut Document) {
    let id = line.id;
    match line.name.as_str() {
        "follow_x_forwarded_for" | "auth_param" => {}
        "error_directory" => match line.word(0).starts_with("/usr/share/squid") {
            true => ledger.needless(id, "Shoal has pages of its own"),
            false => ledger.left_out(
                id,
                "`error_page` of a rule takes a page, as it stands: Squid's codes (%U) are not filled",
            ),
        },
        "client_ip_max_connections" => match line.word(0).parse::<i64>() {
            Ok(number) if number > 0 => {
                ledger.carried(id);
                let number = number.unsigned_abs().min(10_000_000);
                for listen in &mut document.listen {
                    listen.set("client_connections", number, &[id]);
                }
            }
            Ok(_) => ledger.needless(id, "connections of a client have no limit"),
            Err(_) => ledger.left_out(id, "its value cannot be read"),
        },
        name => {
            if let Some((_, why)) = NEEDLESS.iter().find(|(names, _)| names.contains(&name)) {
                ledger.needless(id, *why);
            } else if let Some((_, why)) = LEFT_OUT.iter().find(|(names, _)| names.contains(&name)) {
                ledger.left_out(id, *why);
            }
        }
    }
}

fn access_log(line: &Line, ledger: &mut Ledger, document: &mut Document) {
    if line.word(0) == "none" {
        ledger.needless(line.id, "there is no access log unless one is named");
        return;
    }
    let format = if line.words.iter().any(|word| word.contains("combined")) { "combined" } else { "squid" };
    let log = document.table("log");
    log.set("access", "stdout", &[line.id]);
    log.set("format", format, &[line.id]);
    ledger.approximated(line.id, LOG_TO_STDOUT);
}

fn header_access(line: &Line, ledger: &mut Ledger, document: &mut Document) {
    let (name, action, acl) = (line.word(0), line.word(1), line.word(2));
    if action == "allow" && acl == "all" {
        ledger.needless(line.id, "fields pass unless a rule removes them");
        return;
    }
    let is_special = ["all", "other"].contains(&name.to_ascii_lowercase().as_str());
    if action != "deny" || acl != "all" || line.words.len() != 3 || is_special {
        ledger.left_out(line.id, "fields are removed by name, for all clients");
        return;
    }
    if ["via", "x-forwarded-for", "forwarded"].contains(&name.to_ascii_lowercase().as_str()) {
        ledger.left_out(line.id, "Shoal makes this field itself");
        return;
    }
    ledger.carried(line.id);
    let key = if line.name.starts_with("reply") { "response_remove" } else { "request_remove" };
    document.rules.push(Section::default().with(key, Value::texts([name])));
    if let Some(rule) = document.rules.last_mut() {
        rule.from.push(line.id);
    }
}

fn edit(line: &Line, key: &'static str, ledger: &mut Ledger, document: &mut Document) {
    let value = line.word(1).trim_matches('"').replace('$', "$$");
    let has_more = line.words.iter().skip(2).any(|word| word != "all") && line.name.ends_with("_add");
    if value.contains('%') || has_more {
        ledger.left_out(line.id, "rules have neither its variables nor its conditions");
        return;
    }
    let value = match line.name.ends_with("_add") {
        true => value,
        false => line.words[1.min(line.words.len())..].join(" ").trim_matches('"').replace('$', "$$"),
    };
    ledger.carried(line.id);
    let mut rule = Section::of(&[line.id]);
    rule.set(key, Value::texts([format!("{}: {value}", line.word(0))]), &[]);
    document.rules.push(rule);
}

/// Reads every `cache_dir`. One disk gets the store's folder, several get a folder on each.
fn folders(lines: &[Line], ledger: &mut Ledger, document: &mut Document) {
    let mut found = Vec::new();
    for line in lines.iter().filter(|line| line.name == "cache_dir") {
        if line.word(0) == "null" {
            ledger.needless(line.id, "there is no disk");
            continue;
        }
        match line.word(2).parse::<u64>() {
            Ok(megabytes) => {
                let size = megabytes.saturating_mul(1 << 20).clamp(1_000_000, 4 << 40);
                found.push((line.word(1).to_owned(), size, line.id));
                let why =
                    "the store has a folder of its own, one file of this size; Squid's objects are not read";
                ledger.approximated(line.id, why);
            }
            Err(_) => ledger.left_out(line.id, "it names no size"),
        }
    }
    let store = document.table("store");
    match found.as_slice() {
        [] => {
            store.note("Squid without a cache_dir caches in memory alone.");
            store.set("directory", "none", &[]);
            store.entries.retain(|entry| entry.key != "object_max");
            for line in lines.iter().filter(|line| line.name == "maximum_object_size") {
                ledger.needless(line.id, "without a disk, cache.ram_object_max counts");
            }
        }
        [(_, size, id)] => {
            store.set("directory", STORE_FOLDER, &[*id]);
            store.set("disk", Value::bytes(*size), &[]);
        }
        several => {
            store.set("directory", STORE_FOLDER, &[]);
            for (path, size, id) in several {
                let path = ("path", Value::Text(format!("{}/shoal", path.trim_end_matches('/'))));
                store.extend("disks", [Value::Inline(vec![path, ("bytes", Value::bytes(*size))])], &[*id]);
            }
        }
    }
}

/// Reads `256 MB`.
pub fn bytes(words: &[String]) -> Option<u64> {
    let number: f64 = words.first()?.parse().ok()?;
    let scale = match words.get(1).map_or("bytes", String::as_str).to_ascii_lowercase().as_str() {
        "bytes" => 1.0,
        "kb" => 1024.0,
        "mb" => 1_048_576.0,
        "gb" => 1_073_741_824.0,
        _ => return None,
    };
    Some(number * scale).filter(|value| (0.0..1e15).contains(value)).map(|value| value as u64)
}

/// Reads `5 minutes`.
pub fn seconds(words: &[String]) -> Option<u64> {
    let number: f64 = words.first()?.parse().ok()?;
    let scale = match words.get(1).map_or("seconds", String::as_str).trim_end_matches('s') {
        "second" => 1.0,
        "minute" => 60.0,
        "hour" => 3600.0,
        "day" => 86_400.0,
        "week" => 604_800.0,
        "millisecond" => 0.001,
        _ => return None,
    };
    Some(number * scale).filter(|value| (0.0..1e12).contains(value)).map(|value| value.ceil() as u64)
}

const NEEDLESS: &[(&[&str], &str)] = &[
    (
        &[
            "coredump_dir",
            "pid_filename",
            "cache_effective_user",
            "cache_effective_group",
            "max_filedescriptors",
            "chroot",
            "cpu_affinity_map",
            "cache_mgr",
            "mail_program",
            "err_html_text",
            "httpd_suppress_version_string",
            "hopeless_kid_revival_delay",
        ],
        "the service that starts Shoal decides this",
    ),
    (
        &[
            "cache_log",
            "debug_options",
            "cache_store_log",
            "logfile_rotate",
            "buffered_logs",
            "logfile_daemon",
            "log_mime_hdrs",
        ],
        "the error log goes to stderr",
    ),
    (
        &["quick_abort_min", "quick_abort_max", "quick_abort_pct", "read_ahead_gap", "range_offset_limit"],
        "a part of the abandoned fetches goes on to fill the cache; ranges are stored",
    ),
    (
        &[
            "cache_replacement_policy",
            "cache_swap_low",
            "cache_swap_high",
            "store_dir_select_algorithm",
            "minimum_object_size",
            "max_open_disk_fds",
            "memory_pools",
            "memory_pools_limit",
            "memory_cache_mode",
            "memory_cache_shared",
            "store_avg_object_size",
            "store_objects_per_bucket",
        ],
        "the store replaces objects by itself",
    ),
    (
        &[
            "positive_dns_ttl",
            "negative_dns_ttl",
            "dns_timeout",
            "dns_v4_first",
            "ipcache_size",
            "ipcache_low",
            "ipcache_high",
            "fqdncache_size",
            "hosts_file",
            "dns_defnames",
            "append_domain",
        ],
        "the system resolves names",
    ),
    (&["icp_query_timeout", "digest_generation"], "Shoal has no siblings to speak with"),
    (
        &["snmp_port", "snmp_access", "snmp_incoming_address", "cachemgr_passwd"],
        "the admin listener has metrics for Prometheus",
    ),
    (
        &["logformat", "strip_query_terms", "log_fqdn", "client_netmask"],
        "the access log has formats of its own and shows whole URLs",
    ),
    (
        &[
            "forwarded_for",
            "pipeline_prefetch",
            "client_persistent_connections",
            "server_persistent_connections",
            "half_closed_clients",
            "detect_broken_pconn",
            "refresh_all_ims",
            "reload_into_ims",
            "vary_ignore_expire",
            "balance_on_multiple_ip",
            "error_default_language",
            "error_log_languages",
            "email_err_data",
            "ftp_user",
            "ftp_passive",
            "client_db",
            "check_hostnames",
            "request_entities",
            "uri_whitespace",
            "tcp_recv_bufsize",
            "connect_retries",
            "forward_max_tries",
            "dead_peer_timeout",
            "prefer_direct",
            "nonhierarchical_direct",
            "always_direct",
        ],
        "Shoal decides this by itself",
    ),
    (
        &["authenticate_ttl", "authenticate_ip_ttl", "authenticate_cache_garbage_interval"],
        "each request names its user",
    ),
];

const LEFT_OUT: &[(&[&str], &str)] = &[
    (
        &["never_direct", "hierarchy_stoplist"],
        "Shoal asks origins itself; hold it back with a firewall if it must not",
    ),
    (&["offline_mode"], "stale answers are served for a time (stale_if_error), not for ever"),
    (&["via"], "Shoal names itself in Via, so that loops are detected"),
    (
        &["delay_pools", "delay_class", "delay_parameters", "delay_access", "client_delay_pools"],
        "there are no limits of bandwidth",
    ),
    (
        &["tcp_outgoing_address", "tcp_outgoing_tos", "udp_outgoing_address", "clientside_tos", "qos_flows"],
        "the system chooses outgoing addresses",
    ),
    (&["dns_nameservers"], "the system resolves names"),
    (
        &["reply_body_max_size", "request_body_max_size", "reply_header_max_size", "request_header_max_size"],
        "bodies have no limit; client.head_max bounds heads",
    ),
    (
        &["deny_info"],
        "a rule with statuses = [\"403\"] and `error_page` has a page in place of refusals; codes (%U) are not filled",
    ),
    (
        &[
            "sslcrtd_program",
            "sslproxy_cert_error",
            "ssl_bump",
            "sslproxy_flags",
            "tls_outgoing_options",
            "sslcrtd_children",
        ],
        "tunnels pass unread",
    ),
    (&["client_lifetime", "forward_timeout"], "each pause has a limit, the whole has none"),
    (&["storeid_access", "store_id_children"], "keys follow from rules"),
];
