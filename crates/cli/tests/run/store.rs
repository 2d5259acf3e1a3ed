//! `shoal store` on disks of a running node, and after its end.

use super::*;
use serde_json::Value;
use std::net::{SocketAddr, TcpListener};

pub const DISKS: &str = "\
workers = 1
[[listen]]
address = \"127.0.0.1:0\"
mode = \"forward\"
[forward]
allow_private_destinations = [\"127.0.0.1\"]
[cache]
ram = \"8 MiB\"
[store]
directory = \"purges\"
[[store.disks]]
path = \"d1\"
bytes = \"20 MB\"
[[store.disks]]
path = \"d2\"
bytes = \"20 MB\"
[log]
access = \"access.log\"
[admin]
listen = \"unix:admin.sock\"
";

const OBJECTS: usize = 40;
const LARGE_BYTES: usize = 300_000;

/// Starts an origin with objects that repeat their own names. `/large` is long and `/vary` differs
/// by Accept.
fn origin() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.expect("a connection"));
            std::thread::spawn(move || while answer(&mut stream).is_some() {});
        }
    });
    address
}

/// Answers one request. Returns `None` at the end of the connection.
fn answer(stream: &mut BufReader<TcpStream>) -> Option<()> {
    let mut line = String::new();
    stream.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let path = line.split(' ').nth(1)?.to_owned();
    while line != "\r\n" {
        line.clear();
        stream.read_line(&mut line).ok().filter(|read| *read > 0)?;
    }
    let (body, vary) = (body_of(&path), if path == "/vary" { "Vary: Accept\r\n" } else { "" });
    let length = body.len();
    let head =
        format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=9999\r\n{vary}Content-Length: {length}\r\n\r\n");
    stream.get_mut().write_all(&[head.as_bytes(), &body].concat()).ok()
}

fn body_of(path: &str) -> Vec<u8> {
    let length = if path == "/large" { LARGE_BYTES } else { 3000 };
    path.bytes().cycle().take(length).collect()
}

/// Returns the whole response to a request through the node.
fn fetched(node: &Node, url: &str) -> Vec<u8> {
    let mut client = TcpStream::connect(node.address()).expect("connected");
    client.set_read_timeout(Some(PATIENCE)).expect("set");
    let host = url.split('/').nth(2).expect("a host");
    write!(client, "GET {url} HTTP/1.1\r\nHost: {host}\r\nAccept: text/a\r\nConnection: close\r\n\r\n")
        .expect("sent");
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).expect("readable");
    answer
}

fn paths() -> Vec<String> {
    let numbered = (0..OBJECTS).map(|number| format!("/object/{number}"));
    numbered.chain(["/large".into(), "/vary".into()]).collect()
}

/// Starts a node with everything fetched and on its disks. Returns the node and the origin's
/// address.
fn filled() -> (Node, SocketAddr) {
    filled_with(DISKS)
}

/// Starts such a node with other disks.
pub fn filled_with(configuration: &str) -> (Node, SocketAddr) {
    let (node, origin) = (Node::start_with(configuration), origin());
    for path in paths() {
        let answer = fetched(&node, &format!("http://{origin}{path}"));
        assert!(answer.ends_with(&body_of(&path)), "{}", String::from_utf8_lossy(&answer[..200]));
    }
    let until = Instant::now() + PATIENCE;
    while lines(&node.command(&["store", "ls", "--config", "shoal.toml"])).len() < paths().len() {
        assert!(Instant::now() < until, "everything is on disk");
        std::thread::sleep(Duration::from_millis(50));
    }
    (node, origin)
}

/// Returns the screen of `shoal status`, of any verdict.
fn screen(node: &Node) -> String {
    String::from_utf8_lossy(&node.command(&["status", ADMIN[0], ADMIN[1]]).stdout).into_owned()
}

fn lines(output: &Output) -> Vec<String> {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

fn of_json(output: &Output) -> Vec<Value> {
    lines(output).iter().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn sum(values: &[Value], name: &str) -> u64 {
    values.iter().filter_map(|value| value[name].as_u64()).sum()
}

/// The commands print the same facts of a live store and of a stopped one.
pub fn check(node: &Node, origin: SocketAddr, is_live: bool) {
    let store = |arguments: &[&str]| {
        let command = [&["store", arguments[0], "--config", "shoal.toml"], &arguments[1..]].concat();
        node.command(&command)
    };
    let info = of_json(&store(&["info", "--json"]));
    assert_eq!(info.len(), 2);
    // The note of the variants is an object too.
    assert_eq!(sum(&info, "objects"), paths().len() as u64 + 1);
    for disk in &info {
        assert!(disk["objects"].as_u64() > Some(5), "{disk}: each disk has a share");
        assert_eq!((&disk["live"], &disk["closed_in_order"]), (&is_live.into(), &(!is_live).into()));
        assert!(disk["newest"].as_str() >= disk["oldest"].as_str() && disk["oldest"].is_string());
    }
    let text = lines(&store(&["info"])).join("\n");
    assert!(text.contains("d1: volume, ") && text.contains("cursor   stripe "), "{text}");

    let verified = of_json(&store(&["verify", "--json"]));
    assert_eq!((sum(&verified, "objects"), sum(&verified, "damaged")), (paths().len() as u64 + 1, 0));

    let listed = of_json(&store(&["ls", "--json"]));
    let mut urls: Vec<_> =
        listed.iter().map(|line| line["url"].as_str().expect("a URL").to_owned()).collect();
    let mut wanted: Vec<_> = paths().iter().map(|path| format!("http://{origin}{path}")).collect();
    urls.sort();
    wanted.sort();
    assert_eq!(urls, wanted);
    assert!(listed.iter().all(|line| line["status"] == 200 && line["fresh"] == true), "{listed:?}");
    let large = of_json(&store(&["ls", "--json", "--larger", "100 KB"]));
    assert_eq!((large.len(), sum(&large, "body_bytes")), (1, LARGE_BYTES as u64));
    assert_eq!(lines(&store(&["ls", "/object/1"])).len(), 11, "1 and 10 to 19");
    assert_eq!(lines(&store(&["ls", "--all"])).len(), paths().len() + 1);
    assert_eq!(lines(&store(&["ls", "--stale"])), [""; 0]);
    assert_eq!(lines(&store(&["ls", "--limit", "2", "--newest"])).len(), 4, "two of each disk");

    for path in ["/object/7", "/large", "/vary"] {
        let got = store(&["get", &format!("http://{origin}{path}")]);
        assert!(got.status.success() && got.stdout == body_of(path), "{path}");
    }
    let got = store(&["get", "--head", &format!("http://{origin}/object/7")]).stdout;
    let text = String::from_utf8_lossy(&got);
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.contains("max-age=9999\r\n"), "{text}");
    let absent = store(&["get", &format!("http://{origin}/absent")]);
    assert_eq!(absent.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&absent.stderr).contains("nothing is stored for"));
    assert_eq!(store(&["get", "ftp://a/"]).status.code(), Some(2));
}

#[test]
fn store_is_inspected_live_and_closed() {
    let (mut node, origin) = filled();
    check(&node, origin, true);
    node.signal(Signal::TERM);
    assert_eq!(exit_code(&mut node.child), Some(0), "{}", node.error_log());
    check(&node, origin, false);

    for command in [["store", "info"], ["store", "verify"], ["store", "ls"]] {
        let told = |stores: &[&str]| node.command(&[&command[..], stores].concat());
        let (one, both) = (told(&["--store", "d1"]), told(&["--store", "absent", "--store", "d1"]));
        assert_eq!(both.stdout, one.stdout, "a disk that is gone hides none of the others");
        let why = String::from_utf8_lossy(&both.stderr);
        assert_eq!((both.status.code(), why.contains("absent: No such file")), (Some(1), true), "{why}");
    }

    let listed = of_json(&node.command(&["store", "ls", "--json", "--store", "d1"]));
    let at = listed[0]["position"].as_u64().expect("a position") + 400;
    let file =
        std::fs::File::options().write(true).open(node.folder.path().join("d1/volume")).expect("there");
    std::os::unix::fs::FileExt::write_all_at(&file, b"damage", at).expect("written");
    let verified = node.command(&["store", "verify", "--store", "d1", "--store", "d2"]);
    let (told, why) = (String::from_utf8_lossy(&verified.stdout), String::from_utf8_lossy(&verified.stderr));
    assert_eq!(verified.status.code(), Some(1), "{told}{why}");
    assert!(
        told.contains("1 damaged") && told.contains("0 damaged") && why.contains("1 place damaged"),
        "{told}{why}"
    );
    assert!(told.contains(&format!("{} body", listed[0]["position"])), "{told}");
    assert!(told.contains("outdated index entries: 0, "), "{told}");
}

#[test]
fn disk_goes_offline_and_back_online() {
    let (node, origin) = filled();
    let set = |word: &str, path: &str| node.command(&["store", word, path, ADMIN[0], ADMIN[1]]);
    assert_eq!(lines(&set("offline", "d1")), ["d1 is out of service"]);
    assert_eq!(lines(&set("offline", "d1")), ["d1 was out of service already"]);
    let status = screen(&node);
    assert!(status.contains("  d1 out of service, offline: an operator took it out"), "{status}");
    assert!(status.starts_with("degraded shoal") && status.contains("`shoal store online d1`"), "{status}");
    let info = of_json(&node.command(&["store", "info", "--json", "--store", "d1"]));
    assert_eq!((&info[0]["live"], &info[0]["closed_in_order"]), (&false.into(), &true.into()));
    for path in paths() {
        assert!(fetched(&node, &format!("http://{origin}{path}")).ends_with(&body_of(&path)));
    }
    let gone = format!("http://{origin}/object/3");
    let purged = node.command(&["purge", &gone, ADMIN[0], ADMIN[1]]);
    let why = String::from_utf8_lossy(&purged.stderr);
    assert_eq!((purged.status.code(), why.contains("out of service")), (Some(1), true), "{why}");
    assert_eq!(lines(&set("online", "d1")), ["d1 is in service"]);
    let answer = String::from_utf8_lossy(&fetched(&node, &gone)).into_owned();
    assert!(answer.contains("fwd="), "what was purged meanwhile is fetched again: {answer}");
    let unknown = set("offline", "d3");
    assert_eq!(unknown.status.code(), Some(1));
    let why = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(why.contains("no disk of the store is called \"d3\"; there are: d1, d2"), "{why}");
}

#[test]
fn unopened_disk_is_reported_once_others_serve() {
    let taken = TempDir::new().expect("a folder");
    let file = taken.path().join("a-file");
    std::fs::write(&file, "no folder").expect("written");
    let node = Node::start_with(&DISKS.replace("\"d2\"", &format!("{file:?}")));
    let origin = origin();
    let url = format!("http://{origin}/object/1");
    (0..2).for_each(|_| assert!(fetched(&node, &url).ends_with(&body_of("/object/1"))));
    assert_eq!(node.error_log().matches("this disk cannot be used").count(), 1, "{}", node.error_log());
    let status = screen(&node);
    assert!(status.contains("a-file out of service, unopened: "), "{status}");
    assert!(status.contains("  d1 "), "{status}");
}

/// RAM alone serves then, and every command reports this. An unusable store must not look like an
/// empty one.
#[test]
fn unopened_store_is_reported_until_it_serves() {
    let taken = TempDir::new().expect("a folder");
    let file = taken.path().join("a-file");
    std::fs::write(&file, "no folder").expect("written");
    let ours = format!(
        "[forward]\nallow_private_destinations = [\"127.0.0.1\"]\n[store]\nrequired = false\ndirectory = {file:?}\n"
    );
    let node = Node::start_with(&CONFIGURATION.replace("[store]\n", &ours));
    assert!(node.greeting.contains("/a-file OUT OF SERVICE: "), "{}", node.greeting);
    let status = screen(&node);
    assert!(status.contains("disk     out of service: RAM serves alone"), "{status}");
    assert!(status.contains("/a-file out of service, unopened: "), "{status}");
    let metrics = node.metrics();
    let served = format!("shoal_store_disk_in_service{{disk=\"{}\"}} 0", file.display());
    assert!(metrics.lines().any(|line| line == served), "{metrics}");
    let online = || node.command(&["store", "online", file.to_str().expect("UTF-8"), ADMIN[0], ADMIN[1]]);
    let purge = || node.command(&["purge", "--tag", "news", ADMIN[0], ADMIN[1]]);
    for refused in [online(), purge()] {
        let why = String::from_utf8_lossy(&refused.stderr);
        assert_eq!((refused.status.code(), why.contains("(os error ")), (Some(1), true), "{why}");
    }
    std::fs::remove_file(&file).expect("it was there");
    // The node retries the disk itself, and may be first.
    assert!(lines(&online())[0].starts_with(&format!("{} ", file.display())));
    assert_eq!(purge().status.code(), Some(0), "it is written down");
    let status = screen(&node);
    assert!(!status.contains("out of service"), "{status}");
    let origin = origin();
    fetched(&node, &format!("http://{origin}/object/1"));
    let served = format!("shoal_store_disk_objects{{disk=\"{}\"}} 1", file.display());
    let begun = std::time::Instant::now();
    while !node.metrics().lines().any(|line| line == served) {
        assert!(begun.elapsed() < Duration::from_secs(10), "{}", node.metrics());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn folder_without_store_is_reported() {
    let folder = TempDir::new().expect("a folder");
    let run = |arguments: &[&str]| {
        let output = shoal(folder.path(), arguments).output().expect("the binary runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for command in
        [&["store", "info"][..], &["store", "verify"], &["store", "ls"], &["store", "get", "http://a/"]]
    {
        let (code, why) = run(&[command, &["--store", "absent"]].concat());
        assert_eq!(code, Some(1), "{why}");
        assert!(why.contains("absent: No such file"), "{why}");
        let (code, why) = run(&[command, &["--store", "."]].concat());
        assert_eq!(code, Some(1), "{why}");
        assert!(why.contains("there is no store of Shoal here"), "{why}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("there").count(), 0, "nothing was made");
}
