//! Each recipe of docs/RULES.md has a test, and `shoal check` takes it as it stands. Its folder in
//! bench/recipes has the same settings.
//!
//! `TESTED` names the test of each row. A new row fails until it has one.

use shoal_testkit::certificates::Authority;
use shoal_testkit::origin::{Framing, Gate};
use shoal_testkit::shoal::binary;
use shoal_testkit::{Answer, Connection, Origin, Request, Setup, wait};
use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The test of each recipe, as file and function, in the order of the page.
const TESTED: &[(&str, &str)] = &[
    ("the origin says nothing about caching", "rules::default_lifetime_is_for_silent_origins"),
    ("a lifetime whatever the origin says", "rules::lifetime_counts_from_the_arrival"),
    ("at least a minute, at most an hour", "rules::most_and_least_lifetimes_bound_the_origins"),
    ("keep a 404 for ten minutes", "rules::negative_lifetime_is_by_status"),
    ("stale answers for an hour while the origin fails", "rules::stale_windows_are_given"),
    ("stale answers after 5xx and time-outs, no others", "recipes::stale_answers_cover_two_kinds_of_failure"),
    ("stale answers also in place of a 404", "recipes::stale_answers_cover_a_404"),
    ("stale answers at once, validated behind", "rules::stale_answers_come_at_once"),
    ("never store", "rules::store_false_keeps_a_response_out"),
    ("neither look up nor store", "rules_pass::passed_requests_neither_hit_nor_store"),
    ("keep on disk, asked for or not", "pins::pinned_responses_outlast_others_and_a_restart"),
    ("reloads of browsers and pip are hits", "rules::reloads_of_clients_are_ignored"),
    ("the origin's `no-cache` does not count", "rules::directives_of_origins_are_ignored"),
    ("the origin's `private` and `no-store` do not count", "rules::directives_of_origins_are_ignored"),
    ("one object for all browsers", "rules::vary_is_limited"),
    (
        "stale answers although the origin says `must-revalidate` or `s-maxage`",
        "rules::stale_windows_are_given",
    ),
    ("drop tracking parameters", "rules::dropped_parameters_reach_no_origin"),
    ("keep two parameters", "rules::kept_parameters_are_all_that_count"),
    ("parameters in any order are one object", "rules::dropped_parameters_reach_no_origin"),
    ("spellings of a path are one object", "rules::paths_in_other_spellings_are_one_object"),
    ("one object under two hosts", "rules::hosts_are_one_object_by_alias"),
    ("two codings in place of each browser's list", "rules::codings_are_folded"),
    ("two languages", "rules::languages_are_folded"),
    ("cookies do not matter", "rules::no_cookies_make_one_object"),
    ("one cookie selects", "rules::named_cookies_select_and_others_go"),
    ("a field selects", "rules::fields_are_part_of_the_key"),
    ("store answers without their cookies", "rules::cookies_are_stripped"),
    ("tell the origin the client's address", "rules::rules_name_the_client_to_the_origin"),
    ("hide a field from the origin", "rules::fields_change_both_ways"),
    ("hide a field from clients", "rules::fields_change_both_ways"),
    ("add security fields", "rules::fields_change_both_ways"),
    ("refuse a path", "rules::requests_are_denied_and_redirected"),
    ("only from the office", "rules::requests_are_denied_and_redirected"),
    ("to https, on a plain listener", "recipes::plain_requests_go_to_https"),
    ("`/old/a` is at `/new/old/a`", "rules::requests_are_denied_and_redirected"),
    ("a page while the origin is down", "recipes::page_stands_while_the_origin_is_down"),
    (
        "a page in place of every error, the origin's too",
        "error_pages::errors_of_the_origin_keep_status_and_lifetime",
    ),
    ("the upstream is below a path", "upstream_paths::client_paths_go_below_the_upstreams"),
    ("the same from the command line", "upstream_paths::command_line_takes_a_url_with_a_path"),
    ("the origin has it below another path", "rules::upstreams_are_asked_below_another_path"),
    (
        "another Host than the client's or the URL's",
        "upstream_paths::host_and_tls_name_are_the_upstreams_own",
    ),
    ("another name in TLS", "upstream_paths::host_and_tls_name_are_the_upstreams_own"),
    ("log in at the upstream", "upstream_paths::credentials_take_the_place_of_the_clients"),
    ("leave Location as the upstream says it", "upstream_paths::rewriting_can_be_switched"),
    (
        "ten requests a second of one client, twenty at once",
        "client_limits::rate_holds_for_misses_and_hits_in_ram",
    ),
    ("one login in five seconds", "recipes::logins_have_a_rate"),
    ("forty connections of one client", "client_limits::connections_beyond_the_limit_are_closed"),
    ("hundred requests at the origin, fifty that wait", "recipes::queue_has_its_bounds"),
    ("a password for a path", "users_and_certificates::users_are_asked_for_and_share_answers"),
    ("a password for a listener", "users_and_certificates::listeners_have_users_of_their_own"),
    ("from the office without a password", "users_and_certificates::networks_and_users_combine"),
    ("from the office, and with a password", "users_and_certificates::networks_and_users_combine"),
    ("the origin gets the password too", "users_and_certificates::forwarded_credentials_are_not_shared"),
    ("client certificates for all", "users_and_certificates::no_connection_without_a_required_certificate"),
    ("client certificates for a path", "users_and_certificates::rules_choose_among_certificates"),
    ("tell the origin the certificate", "users_and_certificates::rules_choose_among_certificates"),
];

/// A row of the page.
struct Recipe {
    wanted: String,
    /// Settings as they stand there, by their table: `[[rule]]`, `[[site]]` and so on.
    settings: Vec<(String, String)>,
}

impl Recipe {
    /// Returns the lines for one table.
    fn of(&self, table: &str) -> String {
        let own = self.settings.iter().filter(|(place, _)| place == table);
        own.map(|(_, setting)| format!("{setting}\n")).collect()
    }

    fn has(&self, name: &str) -> bool {
        self.settings.iter().any(|(_, setting)| key(setting) == name)
    }
}

fn key(setting: &str) -> &str {
    setting.split(" = ").next().unwrap_or_default()
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// Returns the rows of the page's recipes.
fn recipes() -> Vec<Recipe> {
    let page = read(&repository().join("docs/RULES.md"));
    let (_, tables) = page.split_once("## Recipes\n").expect("the page has recipes");
    let mut recipes: Vec<Recipe> = Vec::new();
    for line in tables.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| wanted")) {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let mut settings = Vec::new();
        if let Some(left_out) = cells[1].strip_prefix("the same without ") {
            let before = &recipes.last().expect("the same as the row before").settings;
            settings.clone_from(before);
            settings.retain(|(_, setting)| key(setting) != left_out.trim_matches('`'));
        }
        let codes = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
        let mut places: Vec<_> = cells[1..].iter().flat_map(|cell| codes(cell)).collect();
        places.retain(|code| code.starts_with("[["));
        let own = codes(cells[1]).into_iter().filter(|code| code.contains(" = "));
        for (at, setting) in own.enumerate() {
            let place = places.get(at).or(places.last()).map_or("[[rule]]", String::as_str);
            settings.push((place.to_owned(), setting));
        }
        recipes.push(Recipe { wanted: cells[0].into(), settings });
    }
    recipes
}

fn recipe(wanted: &str) -> Recipe {
    recipes().into_iter().find(|recipe| recipe.wanted == wanted).expect("a row of the page")
}

/// A reverse proxy for `origin` with this row's rule.
fn ruled(origin: &Origin, wanted: &str) -> Setup {
    let setup = Setup::to(origin);
    let rule: toml::Table = recipe(wanted).of("[[rule]]").parse().expect("a rule in TOML");
    setup.set("rule", vec![toml::Value::from(rule)])
}

#[test]
fn each_recipe_has_a_test() {
    let recipes = recipes();
    let wanted: Vec<_> = recipes.iter().map(|recipe| recipe.wanted.as_str()).collect();
    let tested: Vec<_> = TESTED.iter().map(|(wanted, _)| *wanted).collect();
    assert_eq!(wanted, tested, "a row has no test here, or a test has no row");
    let mut sources = HashMap::new();
    for (recipe, (_, test)) in recipes.iter().zip(TESTED) {
        let (file, name) = test.split_once("::").expect("file::test");
        let source = sources
            .entry(file)
            .or_insert_with(|| read(&repository().join(format!("testkit/tests/guarantees/{file}.rs"))));
        let functions: Vec<_> = source.split("\n}\n").collect();
        let is_own = |text: &&&str| text.contains(&format!("#[test]\nfn {name}() {{"));
        let own = functions.iter().find(is_own).unwrap_or_else(|| panic!("there is no test {test}"));
        // The rule may come from the page itself, or a function without a test may make it.
        let helpers = functions.iter().filter(|text| !text.contains("#[test]"));
        let text = helpers.chain([own]).copied().collect::<String>();
        for (_, setting) in &recipe.settings {
            let is_set = text.contains(&format!("{} =", key(setting)));
            assert!(is_set || own.contains(&recipe.wanted), "{test} does not set {setting}");
        }
    }
}

#[test]
fn recipes_are_taken_as_they_stand() {
    let (setup, authority) = (Setup::bare(), Authority::new());
    authority.issue(&["a.test"]).write(setup.folder(), "a.test");
    setup.file("ca.pem", &authority.pem());
    setup.file("users", "ann:secret\n");
    let key = setup.file("packages.key", "ann:secret\n");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("the file is ours");
    for page in ["down.html", "error.html"] {
        setup.file(page, "<h1>Sorry</h1>");
    }
    for recipe in recipes() {
        let url = if recipe.has("url") { "" } else { "url = 'https://up.test'\n" };
        let rule = recipe.of("[[rule]]");
        let rule = if rule.is_empty() { rule } else { format!("[[rule]]\n{rule}") };
        let text = format!(
            "[[listen]]\naddress = '127.0.0.1:8080'\nmode = 'reverse'\n\
             tls = [{{ certificate = 'a.test.pem', key = 'a.test.key' }}]\n{}{}\n\
             [[site]]\nhosts = ['*']\n{}[[site.upstreams]]\n{url}{}{}",
            recipe.of("[[listen]]"),
            // A certificate is asked for only with an authority.
            if recipe.has("client_certificate") { "client_ca = 'ca.pem'" } else { "" },
            recipe.of("[[site]]"),
            recipe.of("[[site.upstreams]]").replace("/etc/shoal/", ""),
            rule,
        );
        let file = setup.file("recipe.toml", &text);
        let output = Command::new(binary()).arg("check").arg(file).current_dir(setup.folder()).output();
        let output = output.expect("the binary runs");
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert_eq!(output.status.code(), Some(0), "{}: {said}\n{text}", recipe.wanted);
    }
}

#[test]
fn compared_recipes_are_those_of_the_page() {
    let mut compared = 0;
    let recipes = recipes();
    for entry in std::fs::read_dir(repository().join("bench/recipes")).expect("bench/recipes") {
        let folder = entry.expect("an entry").path();
        if folder.ends_with("frames") {
            continue;
        }
        let own = read(&folder.join("shoal.toml"));
        let lines: Vec<_> = own.lines().collect();
        let wanted = lines[0].trim_start_matches("# ");
        let of_page = recipes.iter().find(|recipe| recipe.wanted == wanted);
        let of_page = of_page.unwrap_or_else(|| panic!("{} is no row", folder.display()));
        for (_, setting) in &of_page.settings {
            assert!(lines.contains(&setting.as_str()), "{}: {setting}", folder.display());
        }
        for peer in ["nginx.conf", "squid.conf", "varnish.vcl", "trafficserver.config"] {
            assert!(folder.join(peer).is_file(), "{}: {peer}", folder.display());
        }
        compared += 1;
    }
    assert!(compared >= 40, "{compared} recipes");
}

fn stale(body: &str) -> Answer {
    Answer::ok(body).field("Age", "15").field("Cache-Control", "max-age=10").framed(Framing::Close)
}

#[test]
fn stale_answers_cover_two_kinds_of_failure() {
    let origin = Origin::start();
    for (path, after) in [
        ("/503", Answer::new(503)),
        ("/404", Answer::new(404)),
        ("/429", Answer::new(429)),
        ("/slow", Answer::ok("late").delay(Duration::from_secs(20))),
    ] {
        origin.on_each(path, [stale("old"), after]);
    }
    let setup = ruled(&origin, "stale answers after 5xx and time-outs, no others");
    let setup = setup.set("upstream.first_byte_timeout", "500ms").set("cache.retry_after_max", "0s");
    let shoal = setup.start();
    for (path, status) in [("/503", 200), ("/404", 404), ("/429", 429), ("/slow", 200)] {
        shoal.get(path).expect_body("old");
        assert_eq!(shoal.get(path).status, status, "{path}");
    }
}

#[test]
fn stale_answers_cover_a_404() {
    let origin = Origin::start();
    for status in [404, 429, 500, 403] {
        origin.on_each(&format!("/{status}"), [stale("old"), Answer::new(status)]);
    }
    let shoal = ruled(&origin, "stale answers also in place of a 404").start();
    for (path, status) in [("/404", 200), ("/429", 200), ("/500", 200), ("/403", 403)] {
        shoal.get(path).expect_body("old");
        assert_eq!(shoal.get(path).status, status, "{path}");
    }
}

/// The listener with TLS gets the redirect's own target, which is left out.
#[test]
fn plain_requests_go_to_https() {
    let (origin, authority) = (Origin::start(), Authority::new());
    origin.on("/a", Answer::fresh("a", 60));
    let setup = ruled(&origin, "to https, on a plain listener");
    authority.issue(&["a.test"]).write(setup.folder(), "a.test");
    let file = |name: &str| setup.folder().join(name).to_string_lossy().into_owned();
    let tls = format!(
        "mode = 'reverse'\ntls = [{{ certificate = '{}', key = '{}' }}]",
        file("a.test.pem"),
        file("a.test.key")
    );
    let shoal = setup.listen("tls", &tls).start();
    let moved = shoal.connect().ask(&Request::get("/a"), "a.test");
    assert_eq!(moved.expect_status(308).field("location"), Some("https://a.test/a"));
    let address = shoal.address("tls");
    let mut secure = Connection::open_tls(address, "a.test", authority.client(&[]));
    secure.ask(&Request::get("/a"), "a.test").expect_status(200).expect_body("a");
}

#[test]
fn page_stands_while_the_origin_is_down() {
    let origin = Origin::start();
    origin.on("/missing", Answer::new(404).piece(b"the origin's").framed(Framing::Close));
    let setup = Setup::to(&origin);
    let page = setup.file("down.html", "back soon").to_string_lossy().into_owned();
    let rule = recipe("a page while the origin is down").of("[[rule]]").replace("down.html", &page);
    let rule: toml::Table = rule.parse().expect("a rule in TOML");
    let shoal = setup.set("rule", vec![toml::Value::from(rule)]).start();
    assert_eq!(shoal.get("/missing").expect_status(404).text(), "the origin's");
    drop(origin);
    assert_eq!(shoal.get("/other").expect_status(502).text(), "back soon");
}

#[test]
fn logins_have_a_rate() {
    let origin = Origin::start();
    origin.on("/*", Answer::ok("in").field("Cache-Control", "no-store"));
    let shoal = ruled(&origin, "one login in five seconds").start();
    let login = |path: &str| shoal.ask(&Request::new("POST", path).body(b"ann")).status;
    assert_eq!([login("/login"), login("/%6cogin/again"), login("/other")], [200, 429, 200]);
    shoal.get("/login").expect_status(200);
}

#[test]
fn queue_has_its_bounds() {
    let (origin, gate) = (Origin::start(), Gate::new());
    let holds = gate.clone();
    origin.on_request("/*", move |_| Answer::ok("held").field("Cache-Control", "no-store").held_by(&holds));
    // A busy machine takes its time to send so much.
    let site = recipe("hundred requests at the origin, fifty that wait").of("[[site]]").replace("5s", "60s");
    let site = format!("hosts = ['*']\nupstreams = [{{ url = '{}' }}]\n{site}", origin.url());
    let setup = Setup::to(&origin).without_sites().site(&site);
    let shoal = setup.listen("behind", "mode = 'reverse'\ntrusted_proxies = ['127.0.0.0/8']").start();
    // One client alone may not hold every turn.
    let begin = |number: usize| {
        let mut connection = Connection::open(shoal.address("behind"));
        let request = Request::get(&format!("/{number}"));
        let request = request.field("X-Forwarded-For", &format!("192.0.2.{number}"));
        connection.send(request.to_bytes("site.test"));
        connection
    };
    let mut clients: Vec<_> = (0..100).map(begin).collect();
    wait::until("a hundred are asked for", || origin.total() == 100);
    clients.extend((100..150).map(begin));
    shoal.expect_metric("shoal_site_queue_waits_total", "", 50);
    begin(151).response("GET").expect_status(503);
    assert_eq!(origin.total(), 100);
    gate.open();
    for client in &mut clients {
        client.response("GET").expect_body("held");
    }
}
