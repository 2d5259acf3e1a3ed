//! `shoal top` in a terminal: it is drawn, and given back by a key and by a signal.

use super::*;
use std::sync::{Arc, Mutex};

/// Runs `shoal top` in a pseudo-terminal of script(1), for at most `seconds`. Sends each key once
/// the terminal has got its text. Returns the bytes that the terminal got. They end with the exit
/// code, which is 124 after TERM, and the modes of the terminal.
fn terminal(node: &Node, seconds: u64, keys: &[(&str, &[u8])]) -> String {
    let binary = env!("CARGO_BIN_EXE_shoal");
    let command = format!(
        "stty cols 100 rows 30; timeout --foreground -s TERM {seconds} '{binary}' top --admin unix:admin.sock; \
         echo code=$?; stty -a"
    );
    let mut script = Command::new("script")
        .args(["-q", "-e", "-c", &command, "/dev/null"])
        .current_dir(node.folder.path())
        .env("TERM", "xterm-256color")
        .env_remove("SHOAL_CONFIG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script(1) of util-linux");
    // The end of the input would be a key too, so that it stays open.
    let mut input = script.stdin.take().expect("piped");
    let mut output = script.stdout.take().expect("piped");
    let got = Arc::new(Mutex::new(Vec::new()));
    let reader = std::thread::spawn({
        let got = Arc::clone(&got);
        move || {
            let mut part = [0; 4096];
            while let Ok(read @ 1..) = output.read(&mut part) {
                got.lock().expect("no panic").extend_from_slice(&part[..read]);
            }
        }
    });
    let text = || String::from_utf8_lossy(&got.lock().expect("no panic")).into_owned();
    for (part, key) in keys {
        let until = Instant::now() + PATIENCE;
        while !text().contains(part) {
            assert!(Instant::now() < until, "{part:?} is not in {:?}", text());
            std::thread::sleep(Duration::from_millis(10));
        }
        input.write_all(key).expect("sent");
    }
    reader.join().expect("no panic");
    drop(input);
    script.wait().expect("ours");
    text()
}

/// Returns `true` if script(1) of util-linux is there, and says so if it is not.
fn has_script() -> bool {
    let has = Command::new("script").arg("--version").output().is_ok();
    if !has {
        eprintln!("skipped: script(1) of util-linux is not installed");
    }
    has
}

fn check_end(text: &str, code: &str) {
    let (screen, after) = text.rsplit_once("\u{1b}[?1049l").expect("the first screen is back");
    assert!(screen.contains("\u{1b}[?1049h"), "another screen was taken: {screen:?}");
    assert!(after.contains("\u{1b}[?25h") && after.contains(code), "{after:?}");
    let modes: Vec<&str> = after.split_ascii_whitespace().collect();
    assert!(modes.contains(&"echo") && modes.contains(&"icanon"), "{after:?}");
}

#[test]
fn terminal_is_given_back_by_a_signal() {
    if !has_script() {
        return;
    }
    let node = Node::start();
    let text = terminal(&node, 3, &[("1 Now", b"")]);
    check_end(&text, "code=124");
}

#[test]
fn keys_change_the_view_and_end() {
    if !has_script() {
        return;
    }
    let node = Node::start();
    // Words that no earlier screen has at their place: only changed cells are sent.
    let keys: [(&str, &[u8]); 4] =
        [("Limits", b"3"), ("origins;", b"?"), ("DASHBOARD", b"x"), ("DASHBOARD", b"q")];
    check_end(&terminal(&node, 60, &keys), "code=0");
}
