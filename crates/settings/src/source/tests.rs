//! Files, variables and options as an operator writes them, with every mistake shown.

use super::*;
use crate::{AdminAddress, Balance, LogFormat, Mode};
use proptest::prelude::*;
use shoal_core::ByteCount;
use std::time::Duration;

/// Returns the mistakes in `text`, as shown.
fn shown(text: &str) -> Vec<String> {
    with_overrides(text, &[]).map_or_else(
        |mistakes| mistakes.iter().map(Mistake::to_string).collect(),
        |settings| panic!("taken: {settings:?}"),
    )
}

fn with_overrides(text: &str, variables: &[(&str, &str)]) -> Result<Settings, Vec<Mistake>> {
    let variables = variables.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    let overrides = Override::from_environment(variables);
    SettingsSource { file: "shoal.toml", text, overrides, readable: &|_| Ok(()), further: &|_| Vec::new() }
        .read()
}

#[test]
fn nothing_at_all_is_the_default() {
    assert_eq!(Settings::parse("", "empty"), Ok(Settings::default()));
}

#[test]
fn a_whole_file_is_read() {
    let text = r#"
workers = 2
cache.ram = "1 GiB"
[[listen]]
address = "0.0.0.0:80"
mode = "reverse"
proxy_protocol_from = ["10.0.0.0/8", "192.0.2.1"]
tls = [{ certificate = "a.pem", key = "a.key" }]
[[listen]]
address = "127.0.0.1:3128"
mode = "forward"
[[site]]
hosts = ["*.Example.org"]
upstreams = [{ url = "http://[::1]:8000", weight = 3 }, { url = "https://b.example" }]
balance = "hash"
health = { path = "/up", interval = "500ms" }
heuristic_query = "unsigned"
heuristic_fraction = "none"
set_cookie = "none"
[forward]
users_file = "users"
[cache]
heuristic_fraction = 0
[log]
format = "json"
[admin]
listen = "none"
"#;
    // `cache.ram` before `[cache]` would define the same table twice.
    let settings = Settings::parse(&text.replace("cache.ram = \"1 GiB\"", ""), "file").expect("valid");
    assert_eq!(settings.workers, 2);
    assert_eq!(settings.listen[0].mode, Mode::Reverse);
    assert_eq!(settings.listen[0].proxy_protocol_from[1].to_string(), "192.0.2.1/32");
    assert_eq!(settings.listen[0].tls[0].key, Path::new("a.key"));
    assert_eq!(settings.site[0].hosts, ["*.example.org"]);
    assert_eq!(settings.site[0].upstreams[0].weight, 3);
    assert_eq!(settings.site[0].balance, Balance::Hash);
    assert_eq!(settings.site[0].heuristic_query, Some(crate::HeuristicQuery::Unsigned));
    assert_eq!((settings.site[0].heuristic_fraction, settings.site[0].set_cookie), (None, None));
    let health = settings.site[0].health.as_ref().expect("set");
    assert_eq!((health.interval, health.threshold), (Duration::from_millis(500), 2));
    assert_eq!(settings.forward.users_file.as_deref(), Some(Path::new("users")));
    assert_eq!(settings.cache.heuristic_fraction, 0.0);
    assert_eq!(settings.log.format, LogFormat::Json);
    assert_eq!(settings.admin.listen, None);
}

/// The whole output for a file with a mistake of every kind.
#[test]
fn every_mistake_is_named_with_its_place() {
    let text = r#"wrokers = 4
ram = "1 GB"
max_connections = "many"

[[listen]]
address = "127.0.0.1:3128"
mode = "forwards"

[[listen]]
adress = "127.0.0.1:3128"
mode = "forward"

[[site]]
hosts = ["a.example:80", "a.example"]
path_prefix = "x"
upstreams = [{ url = "ftp://a" }, { url = "https://b", h2c = true, weight = 0 }]

[cache]
ram = "1 MB"
heuristic_fraction = 1.5
heuristic_max = 86400
name = "two words"
collapse = "yes"

[store]
architecture = "squit"
object_max = "20 GB"
io_threads = -1

[forward]
connect_ports = [443, 99999, "https"]
deny_destinations = ["10.0.0.0/40"]

[colour]
red = 1
"#;
    assert_eq!(
        shown(text),
        [
            "shoal.toml:1:1: wrokers: unknown setting `wrokers` (did you mean `workers`?)",
            "shoal.toml:2:1: ram: unknown setting `ram` (it belongs in [cache])",
            "shoal.toml:3:19: max_connections: expected an integer, found a text",
            "shoal.toml:7:8: listen[0].mode: \"forwards\" is not one of `forward`, `reverse` (did you mean `forward`?)",
            "shoal.toml:9:1: listen[1].address: `address` is missing",
            "shoal.toml:10:1: listen[1].adress: unknown setting `adress` (did you mean `address`?)",
            "shoal.toml:14:10: site[0].hosts[0]: \"a.example:80\" has a port; write \"a.example\" alone",
            "shoal.toml:15:15: site[0].path_prefix: \"x\" does not begin with \"/\"",
            "shoal.toml:16:22: site[0].upstreams[0].url: \"ftp://a\" is not an upstream such as \"http://10.0.0.2:8000\": its scheme is http or https",
            "shoal.toml:16:62: site[0].upstreams[1].h2c: h2c is HTTP/2 without TLS, and this upstream is https",
            "shoal.toml:16:77: site[0].upstreams[1].weight: 0 is out of range: 1 to 1000000",
            "shoal.toml:19:7: cache.ram: \"1 MB\" is out of range: \"4 MiB\" to \"16 TiB\"",
            "shoal.toml:20:22: cache.heuristic_fraction: 1.5 is out of range: 0.0 to 1.0",
            "shoal.toml:21:17: cache.heuristic_max: expected a duration with its unit, such as \"30s\" or \"7 days\", found an integer",
            "shoal.toml:22:8: cache.name: \"two words\" is not a token that begins with a letter",
            "shoal.toml:23:12: cache.collapse: expected true or false, found a text (without quotes)",
            "shoal.toml:26:16: store.architecture: unknown architecture \"squit\"; known: volume, cern, squid, squid_monotonic, squid_lowest, squidl, squidm, squidml, squidmla (did you mean `squid`?)",
            "shoal.toml:27:14: store.object_max: 20 GB is more than store.disk, 10 GB",
            "shoal.toml:28:14: store.io_threads: -1 is below 0",
            "shoal.toml:31:23: forward.connect_ports[1]: 99999 is above 65535",
            "shoal.toml:31:30: forward.connect_ports[2]: expected an integer, found a text",
            "shoal.toml:32:22: forward.deny_destinations[0]: \"10.0.0.0/40\" is not a network such as \"10.0.0.0/8\"",
            "shoal.toml:34:2: colour: unknown setting `colour` (`shoal config reference` lists the settings)",
        ]
    );
}

#[test]
fn contradictory_parents_are_refused() {
    let cluster = "[cluster]\nname = \"a\"\npeer = \"127.0.0.1:3131\"\n";
    let levels = format!("{cluster}placement = \"hierarchy\"\nlevel = 1\n");
    for (text, expected) in [
        (
            format!("{cluster}[[cluster.parent]]\nhosts = [\"*\"]\n"),
            "f:4:1: cluster.parent: only a hierarchy has parents (set `cluster.placement = \"hierarchy\"`, or remove \
             the rules)",
        ),
        (
            format!("{levels}[[cluster.parent]]\nhosts = []\n"),
            "f:7:9: cluster.parent[0].hosts: a rule without hosts is for nothing; `*` means all",
        ),
        (
            format!("{levels}[[cluster.parent]]\nhosts = [\"*\"]\nlevel = 1\n"),
            "f:8:9: cluster.parent[0].level: parents are above this node, which is on level 1",
        ),
        (
            format!("{levels}[[cluster.parent]]\nhosts = [\"*\"]\nnodes = [\"a\"]\ndirect = true\n"),
            "f:8:9: cluster.parent[0].nodes: a rule has one of `nodes`, `level` and `direct`",
        ),
    ] {
        let mistakes = Settings::parse(&text, "f").expect_err(&text);
        assert_eq!(mistakes[0].to_string(), expected, "{text}");
    }
}

#[test]
fn contradictory_settings_are_refused() {
    let site = "[[site]]\nhosts = [\"*\"]\nupstreams = [{ url = \"http://a\" }]\n";
    let reverse = "[[listen]]\naddress = \"127.0.0.1:80\"\nmode = \"reverse\"\n";
    for (text, expected) in [
        ("listen = []".to_owned(), "f:1:10: listen: there must be at least one listener"),
        (
            "listen = \"127.0.0.1:80\"".to_owned(),
            "f:1:10: listen: expected a list, found a text (write [[listen]], once for each)",
        ),
        (
            "[listen]\nmode = \"forward\"".to_owned(),
            "f:1:1: listen: expected a list, found a table (write [[listen]], once for each)",
        ),
        (
            "forward.allow_clients = \"10.0.0.0/8\"".to_owned(),
            "f:1:25: forward.allow_clients: expected a list, found a text (write [ and ] around it)",
        ),
        (format!("{reverse}{reverse}{site}"), "f:5:11: listen[1].address: 127.0.0.1:80 is listened on twice"),
        (
            reverse.to_owned(),
            "f:3:8: listen[0].mode: a reverse listener without a site to serve (add a [[site]] or a [[mirror]])",
        ),
        (
            site.to_owned(),
            "f:1:1: site[0]: no listener would serve it (set the mode of a [[listen]] to \"reverse\")",
        ),
        (
            format!("{reverse}{site}{site}"),
            "f:8:10: site[1].hosts[0]: \"*\" with path prefix \"/\" is served already",
        ),
        (
            format!("{reverse}[[site]]\nhosts = []\nupstreams = []\n"),
            "f:5:9: site[0].hosts: a site needs at least one host; \"*\" is any",
        ),
        (
            "admin.listen = \"127.0.0.1:3128\"".to_owned(),
            "f:1:16: admin.listen: 127.0.0.1:3128 is a listener for clients too",
        ),
        (
            "[admin]\nhosts = [\"cache.example.org:3129\"]".to_owned(),
            "f:2:10: admin.hosts[0]: \"cache.example.org:3129\" has a port; write \"cache.example.org\" alone",
        ),
        (
            "[cache]\nram = \"8 MiB\"\nram_object_max = \"9 MiB\"".to_owned(),
            "f:3:18: cache.ram_object_max: 9 MiB is more than cache.ram, 8 MiB",
        ),
    ] {
        let mistakes = Settings::parse(&text, "f").expect_err(&text);
        assert_eq!(mistakes[0].to_string(), expected, "{text}");
    }
}

#[test]
fn object_max_default_is_lowered_setting_refused() {
    let settings = Settings::parse("store.disk = \"1 GB\"", "f").expect("valid");
    assert_eq!(settings.store.object_max, ByteCount(1_000_000_000));
    let both = [("SHOAL_STORE__DISK", "1GB"), ("SHOAL_STORE__OBJECT_MAX", "2GB")];
    let mistakes = with_overrides("", &both).expect_err("more than the disk");
    assert_eq!(
        mistakes[0].to_string(),
        "SHOAL_STORE__OBJECT_MAX: store.object_max: 2 GB is more than store.disk, 1 GB"
    );
}

#[test]
fn a_file_that_is_not_toml_says_where() {
    let mistakes = Settings::parse("workers = 1\n[cache\nram = \n", "f").expect_err("not TOML");
    assert_eq!((mistakes[0].line, mistakes[0].key.as_str()), (Some(2), ""));
    let twice = Settings::parse("workers = 1\nworkers = 2\n", "f").expect_err("a key twice");
    assert_eq!((twice[0].line, twice[0].column), (Some(2), Some(1)));
    assert_eq!(twice.len(), 1);
}

#[test]
fn the_environment_wins_over_the_file() {
    let settings = with_overrides(
        "workers = 1\n[cache]\nram = \"1 GB\"\nname = \"a\"\n",
        &[
            ("SHOAL_CACHE__RAM", "512MB"),
            ("SHOAL_WORKERS", "3"),
            ("SHOAL_CACHE__COLLAPSE", "false"),
            ("SHOAL_FORWARD__CONNECT_PORTS", "443, 8443"),
            ("SHOAL_CACHE__TAG_FIELDS", "[\"a\"]"),
            ("SHOAL_LISTEN", "[{ address = \"127.0.0.1:8080\", mode = \"forward\" }]"),
            ("SHOAL_ADMIN__LISTEN", "unix:/run/shoal.sock"),
            ("SHOAL_LOG__FORMAT", "combined"),
            ("SHOAL_CONFIG", "/elsewhere"),
            ("SHOAL_ADMIN_URL", "https://cache1:3129"),
            ("SHOAL_ADMIN_CA", "/ca.pem"),
            ("SHOAL_ADMIN_USER", "ann"),
            ("SHOAL_ADMIN_PASSWORD_FILE", "/password"),
            ("SHOAL_PORT_3128_TCP", "tcp://10.0.0.1:3128"),
            ("SHOAL_SERVICE_HOST", "10.0.0.1"),
            ("SHOAL_SERVICE_PORT_PROXY", "3128"),
            ("SHOAL_ADMIN_SERVICE_HOST", "10.0.0.1"),
            ("SHOAL_ADMIN_SERVICE_PORT", "3129"),
            ("SHOAL_ADMIN_PORT", "tcp://10.0.0.1:3129"),
            ("SHOAL_ADMIN_PORT_3129_TCP_ADDR", "10.0.0.1"),
            ("PATH", "/bin"),
        ],
    )
    .expect("valid");
    assert_eq!((settings.workers, settings.cache.ram), (3, ByteCount(512_000_000)));
    assert_eq!((settings.cache.name.as_str(), settings.cache.collapse), ("a", false));
    assert_eq!(settings.forward.connect_ports, [443, 8443]);
    assert_eq!(settings.cache.tag_fields, ["a"]);
    assert_eq!(settings.listen, [Listen::forward(([127, 0, 0, 1], 8080).into())]);
    assert_eq!(settings.admin.listen, Some(AdminAddress::Unix("/run/shoal.sock".into())));
    assert_eq!(settings.log.format, LogFormat::Combined);
}

#[test]
fn mistakes_in_the_environment_name_the_variable() {
    let mistakes = with_overrides(
        "",
        &[
            ("SHOAL_CACHE__RAM", "lots"),
            ("SHOAL_CACHE__RUM", "1"),
            ("SHOAL_WORKERS", "two"),
            ("SHOAL_STORE", "x"),
            ("SHOAL_ADMIN_PORT", "3129"),
            ("SHOAL_LISTEN__ADDRESS", "x"),
        ],
    )
    .expect_err("all wrong");
    let shown: Vec<String> = mistakes.iter().map(Mistake::to_string).collect();
    assert_eq!(
        shown,
        [
            "SHOAL_ADMIN_PORT: admin_port: no such setting",
            "SHOAL_CACHE__RUM: cache.rum: no such setting (did you mean `SHOAL_CACHE__RAM`?)",
            "SHOAL_LISTEN__ADDRESS: listen.address: no such setting",
            "SHOAL_STORE: store: a section, not a setting (name one of its settings: SHOAL_STORE__…)",
            "SHOAL_WORKERS: workers: expected an integer, found a text",
            "SHOAL_CACHE__RAM: cache.ram: \"lots\" is not a size such as \"512 MB\" or \"1.5 GiB\"",
        ]
    );
}

#[test]
fn files_that_cannot_be_read_are_mistakes() {
    let text = "[forward]\nusers_file = \"/absent\"\n[upstream]\nca_file = \"/present\"\n";
    let readable = |path: &Path| match path.ends_with("present") {
        true => Ok(()),
        false => Err("No such file or directory".to_owned()),
    };
    let source = SettingsSource {
        file: "f",
        text,
        overrides: Vec::new(),
        readable: &readable,
        further: &|_| Vec::new(),
    };
    let mistakes = source.read().expect_err("one file is absent");
    assert_eq!(mistakes.len(), 1);
    assert_eq!(
        mistakes[0].to_string(),
        "f:2:14: forward.users_file: cannot read /absent: No such file or directory"
    );
}

#[test]
fn options_make_a_reverse_proxy() {
    let overrides = |url: &str| {
        vec![Override::site("--to", url), Override::listen("--listen", ([127, 0, 0, 1], 8080).into(), true)]
    };
    let read = |url: &str| {
        SettingsSource {
            file: "built-in",
            text: "",
            overrides: overrides(url),
            readable: &|_| Ok(()),
            further: &|_| Vec::new(),
        }
        .read()
    };
    let settings = read("http://127.0.0.1:8000").expect("valid");
    assert_eq!(settings.site, [Site::to("http://127.0.0.1:8000")]);
    assert_eq!(settings.listen, [Listen::reverse(([127, 0, 0, 1], 8080).into())]);
    let mistakes = read("127.0.0.1:8000\n\"").expect_err("not a URL");
    assert!(mistakes[0].to_string().starts_with("--to: site[0].upstreams[0].url: "), "{}", mistakes[0]);
}

proptest! {
    /// Parsing never panics on any text, and every mistake lies within the file.
    #[test]
    fn any_text_is_settings_or_mistakes(text in "[a-z\\[\\]{}=.\"'#,0-9 \n\u{e9}-]{0,80}") {
        if let Err(mistakes) = Settings::parse(&text, "f") {
            prop_assert!(!mistakes.is_empty());
            for mistake in mistakes {
                prop_assert!(mistake.line.unwrap_or(1) <= text.lines().count() + 1, "{mistake}");
            }
        }
    }

    /// Any value of any setting, through the environment, is accepted or refused.
    #[test]
    fn any_override_is_taken_or_refused(index in any::<prop::sample::Index>(), value in ".{0,40}") {
        let paths = crate::outline::paths();
        let path = &paths[index.index(paths.len())];
        let entry = Override { origin: "--option".into(), key: path.clone(), value };
        let source = SettingsSource { file: "f", text: "", overrides: vec![entry], readable: &|_| Ok(()), further: &|_| Vec::new() };
        if let Err(mistakes) = source.read() {
            prop_assert!(mistakes.iter().all(|mistake| !mistake.message.is_empty()));
        }
    }
}

#[test]
fn disks_are_read_and_conflicts_named() {
    let disk =
        |path: &str, bytes| crate::Disk { path: path.into(), bytes: ByteCount(bytes), endurance: None };
    let one = Settings::parse("store.directory = \"a\"\nstore.disk = \"2 GB\"", "f").expect("valid").store;
    assert_eq!(one.all_disks(), [disk("a", 2_000_000_000)]);
    for nothing in ["", "none"] {
        let text = format!("store.directory = {nothing:?}");
        assert_eq!(Settings::parse(&text, "f").expect("valid").store.all_disks(), []);
    }
    assert_eq!(
        Settings::parse("store.directory = \"./none\"", "f").expect("valid").store.all_disks().len(),
        1
    );
    let two = "[[store.disks]]\npath = \"/d1\"\nbytes = \"2 GB\"\n[[store.disks]]\npath = \"/d2\"\nbytes = \"1 GB\"\n";
    let several = Settings::parse(two, "f").expect("valid").store;
    assert_eq!(several.all_disks(), [disk("/d1", 2_000_000_000), disk("/d2", 1_000_000_000)]);
    assert_eq!(several.object_max, ByteCount(1_000_000_000), "the smallest disk's");
    let wrong = format!(
        "[store]\ndirectory = \"\"\ndisk = \"5 GB\"\nobject_max = \"3 GB\"\n{}{}",
        two.replace("/d2", "/d1"),
        "[[store.disks]]\npath = \"\"\nbytes = \"1 GB\"\n"
    );
    let mistakes = Settings::parse(&wrong, "f").expect_err("there are mistakes");
    let told: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
    for wanted in [
        "f:9:8: store.disks[1].path: /d1 is a disk already",
        "f:12:8: store.disks[2].path: a disk needs a folder",
        "f:2:13: store.directory: with store.disks it holds the table of purges (name a folder on a disk that lasts)",
        "f:3:8: store.disk: is for one folder; each of store.disks has its own bytes (remove it, or the [[store.disks]])",
        "f:4:14: store.object_max: 3 GB is more than the smallest of store.disks, 1 GB",
    ] {
        assert!(told.iter().any(|mistake| mistake == wanted), "{wanted} is not in {told:#?}");
    }
    assert_eq!(told.len(), 5, "{told:#?}");
}

#[test]
fn a_disk_that_is_named_is_required() {
    let required = |text: &str, variables: &[(&str, &str)]| {
        let store = with_overrides(text, variables).expect("valid").store;
        (store.is_required(), store.names_a_disk())
    };
    for (text, variables, expected) in [
        ("", &[][..], (false, false)),
        ("cache.ram = \"1 GiB\"", &[], (false, false)),
        ("store.directory = \"shoal-cache\"", &[], (false, false)),
        ("store.directory = \"/srv/cache\"", &[], (true, true)),
        ("store.disk = \"1 GB\"", &[], (true, true)),
        ("[[store.disks]]\npath = \"/d\"\nbytes = \"1 GB\"", &[], (true, true)),
        ("store.required = true", &[], (true, true)),
        ("store.required = false\nstore.disk = \"1 GB\"", &[], (false, true)),
        ("store.required = false", &[("SHOAL_STORE__DISK", "1 GB")], (false, true)),
        ("", &[("SHOAL_STORE__DISK", "10 GB")], (true, true)),
        ("", &[("SHOAL_STORE__DIRECTORY", "shoal-cache")], (true, true)),
        ("", &[("SHOAL_STORE__DIRECTORY", "none")], (false, false)),
        ("store.disk = \"1 GB\"\nstore.directory = \"\"", &[], (false, false)),
    ] {
        assert_eq!(required(text, variables), expected, "{text:?} {variables:?}");
    }
    let why = shown("[store]\ndirectory = \"none\"\nrequired = true");
    assert!(why[0].contains("store.required: there is no disk that could be required"), "{why:?}");
}

#[test]
fn reload_keeps_settings_of_the_start() {
    let old = Settings::default();
    let mut new = Settings { workers: 3, drain_timeout: Duration::from_secs(1), ..Settings::default() };
    new.cache.ram = ByteCount::mib(64);
    new.store.object_max = ByteCount::mib(64);
    new.log.json = true;
    assert_eq!(new.keep_until_restart(&old), ["workers", "store.object_max", "log.json"]);
    let mut expected = Settings { drain_timeout: Duration::from_secs(1), ..old };
    expected.cache.ram = ByteCount::mib(64);
    assert_eq!(new, expected);
}

#[test]
fn rules_of_options_come_behind_the_files() {
    let rule = |name: &str| Rule { name: name.into(), store: Some(false), ..Rule::empty() };
    let read = |text: &str| {
        let overrides = vec![Override::rule("--fresh", rule("option"))];
        let source =
            SettingsSource { file: "f", text, overrides, readable: &|_| Ok(()), further: &|_| Vec::new() };
        let rules = source.read().expect("valid").rule;
        rules.into_iter().map(|rule| rule.name).collect::<Vec<_>>()
    };
    assert_eq!(read("[[rule]]\nname = 'file'\nstore = false\n"), ["file", "option"]);
    assert_eq!(read(""), ["option"]);
}

#[test]
fn places_are_those_of_the_nearest_setting() {
    let text = "# ü\n[[rule]]\npaths = [\"/ä\", \"/b\"]\n[[rule]]\nstore = true\n";
    let keys = ["rule[0].paths[1]", "rule[1]", "rule[1].deny", "rule[0]: no key", "cache.ram"];
    let expected = [Some((3, 16)), Some((4, 1)), Some((4, 1)), Some((2, 1)), None];
    assert_eq!(Settings::places_of(text, &keys), expected);
    assert_eq!(Settings::places_of("", &["rule[0]"]), [None]);
}

#[test]
fn lines_of_rules_are_known() {
    let text =
        "workers = 1\n[[site]]\nhosts = [\"a\"]\n[[site.rule]]\nstore = false\n\n[[rule]]\nstore = false\n";
    for (key, line) in [
        ("site[0]", Some(2)),
        ("site[0].rule[0]", Some(4)),
        ("rule[0]", Some(7)),
        ("rule[1]", None),
        ("site[0].rule[7]", None),
        ("rule[x]", None),
        ("", None),
    ] {
        assert_eq!(Settings::line_of(text, key), line, "{key}");
    }
}
