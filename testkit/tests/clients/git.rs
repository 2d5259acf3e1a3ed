//! `git clone` over smart HTTP, which must not be cached, and over dumb HTTP, which may.

use crate::rounds::twice;
use crate::workshop::{Workshop, installed, line, run};
use shoal_testkit::origin::Cgi;
use shoal_testkit::seeded::body;
use shoal_testkit::{Origin, Setup, Shoal, missing};
use std::path::Path;
use std::process::Command;

fn git(shop: &Workshop, shoal: Option<&Shoal>) -> Command {
    let mut git = shop.command("git", shoal);
    git.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_TERMINAL_PROMPT", "0");
    for role in ["AUTHOR", "COMMITTER"] {
        git.env(format!("GIT_{role}_NAME"), "Test").env(format!("GIT_{role}_EMAIL"), "test@example.org");
    }
    git
}

/// A bare repository `repositories/demo.git` with twelve commits, loose objects as they are.
fn repository(shop: &Workshop) {
    let work = shop.folder("work");
    run(git(shop, None).args(["init", "--quiet", "--initial-branch=main"]).arg(&work));
    for number in 0..12 {
        commit(shop, &work, number);
    }
    let bare = shop.folder("repositories").join("demo.git");
    run(git(shop, None).args(["clone", "--quiet", "--bare", "--no-hardlinks"]).args([&work, &bare]));
    run(git(shop, None).arg("-C").arg(&bare).arg("update-server-info"));
    std::fs::write(bare.join("git-daemon-export-ok"), "").expect("writable");
}

fn commit(shop: &Workshop, work: &Path, number: usize) {
    std::fs::write(work.join(format!("file-{number}")), body(&format!("file-{number}"), 8_000))
        .expect("writable");
    run(git(shop, None).arg("-C").arg(work).args(["add", "."]));
    run(git(shop, None).arg("-C").arg(work).args(["commit", "--quiet", "-m", &format!("commit {number}")]));
}

fn clone(shop: &Workshop, shoal: &Shoal, url: &str, to: &str) -> String {
    let into = shop.path(to);
    run(git(shop, Some(shoal)).args(["clone", "--quiet", url]).arg(&into));
    line(git(shop, None).arg("-C").arg(&into).args(["log", "--format=%s", "-1"]))
}

#[test]
fn smart_http_is_never_served_from_the_cache() {
    if !installed("git") {
        return;
    }
    let (shop, origin) = (Workshop::new(), Origin::start());
    repository(&shop);
    let program = Path::new(&line(git(&shop, None).arg("--exec-path"))).join("git-http-backend");
    if !program.exists() {
        return missing::skip("git http-backend");
    }
    let variable = |name: &str, value: &str| (name.to_string(), value.to_string());
    let root = shop.path("repositories").to_string_lossy().into_owned();
    let home = shop.folder("home").to_string_lossy().into_owned();
    let environment = vec![
        variable("GIT_PROJECT_ROOT", &root),
        variable("HOME", &home),
        variable("GIT_CONFIG_NOSYSTEM", "1"),
        variable("GIT_HTTP_EXPORT_ALL", "1"),
    ];
    origin.serve_cgi("/git/", Cgi { program, environment });
    let shoal = Setup::bare().start();
    let url = format!("{}/git/demo.git", origin.url());
    let [first, second] = twice("git", "clone, smart HTTP (not cacheable)", &origin, |round| {
        assert_eq!(clone(&shop, &shoal, &url, &format!("smart-{round}")), "commit 11");
    });
    assert_eq!(first.requests, second.requests, "every request must reach the origin");
    assert!(origin.count_of("POST", "/git/demo.git/git-upload-pack") >= 2);

    // what is pushed meanwhile is seen at once
    commit(&shop, &shop.path("work"), 12);
    let bare = shop.path("repositories/demo.git");
    run(git(&shop, None).arg("-C").arg(shop.path("work")).args(["push", "--quiet"]).arg(&bare).arg("main"));
    assert_eq!(clone(&shop, &shoal, &url, "smart-3"), "commit 12");
}

#[test]
fn dumb_http_is_cached() {
    if !installed("git") {
        return;
    }
    let (shop, origin) = (Workshop::new(), Origin::start());
    repository(&shop);
    origin.serve_folder("/dumb/", shop.path("repositories"), &[("Cache-Control", "max-age=600")]);
    let shoal = Setup::bare().start();
    let url = format!("{}/dumb/demo.git", origin.url());
    let [first, second] = twice("git", "clone, dumb HTTP", &origin, |round| {
        assert_eq!(clone(&shop, &shoal, &url, &format!("dumb-{round}")), "commit 11");
    });
    assert!(first.requests > 3, "{first:?}");
    // what is not there may be asked for again
    assert!(second.requests <= first.requests / 4 && second.bytes < first.bytes / 10, "{first:?} {second:?}");
}
