//! Compilers and build systems with a build cache: one machine builds, and another one finds it.
//! ccache runs always; the others are installed by hand ([testing](../../../docs/TESTING.md)).

use crate::rounds::note_mirrored;
use crate::workshop::{Workshop, installed, line, run};
use shoal_testkit::{Setup, Shoal};
use std::process::Command;

fn start() -> (Shoal, String) {
    let shoal = Setup::bare().listen("reverse", "mode = 'reverse'").mirror("kind = 'buildcache'").start();
    let url = format!("http://{}/buildcache", shoal.address("reverse"));
    (shoal, url)
}

/// Notes that a second machine has built from the cache.
fn note(client: &str, task: &str) {
    note_mirrored((client, task), [0; 3]);
}

/// Hits of the build cache that clients have had so far.
fn hits(shoal: &Shoal) -> u64 {
    let mirrors = shoal.ask_admin(&shoal_testkit::Request::get("/mirrors")).text();
    let rows: serde_json::Value = serde_json::from_str(&mirrors).expect("rows");
    rows[0]["hits"].as_u64().expect("a number")
}

fn source(shop: &Workshop) {
    shop.write("one.c", "#include <stdio.h>\nint main(void) { puts(\"one\"); return 0; }\n");
}

#[test]
fn ccache_finds_objects_of_another_machine() {
    if !installed("ccache") || !installed("cc") {
        return;
    }
    let (shop, (shoal, url)) = (Workshop::new(), start());
    source(&shop);
    let compile = |machine: &str| {
        let ccache = || {
            let mut ccache = shop.command("ccache", None);
            ccache.env("CCACHE_DIR", shop.folder(machine)).env("CCACHE_REMOTE_STORAGE", &url);
            // The name of before version 4.7.
            ccache.env("CCACHE_SECONDARY_STORAGE", &url);
            ccache
        };
        run(ccache().args(["cc", "-c", "one.c", "-o", &format!("{machine}.o")]));
        line(ccache().arg("--print-stats"))
    };
    compile("first");
    assert_eq!(hits(&shoal), 0);
    let told = compile("second");
    assert!(hits(&shoal) > 0, "{told}");
    assert!(std::fs::read(shop.path("first.o")).ok() == std::fs::read(shop.path("second.o")).ok());
    note("ccache", "compile, then again on another machine");
}

#[test]
#[ignore = "needs a client that is installed by hand"]
fn sccache_finds_objects_of_another_machine() {
    if !installed("sccache") || !installed("cc") {
        return;
    }
    let (shop, (shoal, url)) = (Workshop::new(), start());
    source(&shop);
    for machine in ["first", "second"] {
        let port = shoal_testkit::address::free_port(std::net::Ipv4Addr::LOCALHOST.into()).port();
        let sccache = || {
            let mut sccache = shop.command("sccache", None);
            sccache.env("SCCACHE_DIR", shop.folder(machine)).env("SCCACHE_WEBDAV_ENDPOINT", &url);
            sccache.env("SCCACHE_SERVER_PORT", port.to_string()).env("SCCACHE_IDLE_TIMEOUT", "20");
            sccache
        };
        run(sccache().args(["cc", "-c", "one.c", "-o", &format!("{machine}.o")]));
        // Versions before 0.5 know no WebDAV.
        assert!(line(sccache().arg("--show-stats")).contains("ebdav"), "sccache 0.5 or later");
        run(sccache().arg("--stop-server"));
        assert_eq!(hits(&shoal) > 0, machine == "second", "{machine}");
    }
    note("sccache", "compile, then again with a new server");
}

#[test]
#[ignore = "needs a client that is installed by hand"]
fn bazel_finds_actions_of_another_machine() {
    if !installed("bazel") {
        return;
    }
    let (shop, (shoal, url)) = (Workshop::new(), start());
    shop.write("app/WORKSPACE", "");
    let rule = "genrule(name = 'one', outs = ['one.txt'], cmd = 'date +%N > $@')\n";
    shop.write("app/BUILD", rule);
    let build = |machine: &str| {
        let mut bazel = shop.command("bazel", None);
        bazel.current_dir(shop.path("app")).env("USER", "builder");
        bazel.arg(format!("--output_user_root={}", shop.folder(machine).display())).arg("--batch");
        run(bazel.args(["build", "//:one", &format!("--remote_cache={url}")]));
        std::fs::read_to_string(shop.path("app/bazel-bin/one.txt")).expect("built")
    };
    let first = build("first");
    let before = hits(&shoal);
    assert_eq!(build("second"), first, "the output of the first machine");
    assert!(hits(&shoal) > before);
    note("Bazel", "a rule, then again on another machine");
}

#[test]
#[ignore = "needs a client that is installed by hand"]
fn gradle_finds_tasks_of_another_machine() {
    if !installed("gradle") {
        return;
    }
    let (shop, (shoal, url)) = (Workshop::new(), start());
    let cache = format!("remote(HttpBuildCache) {{ url = '{url}/'; push = true }}");
    for machine in ["first", "second"] {
        let settings =
            format!("buildCache {{ local(DirectoryBuildCache) {{ enabled = false }}\n{cache} }}\n");
        shop.write(&format!("{machine}/settings.gradle"), &settings);
        shop.write(&format!("{machine}/in.txt"), "one");
        shop.write(&format!("{machine}/build.gradle"), GRADLE_TASK);
        let mut gradle = shop.command("gradle", None);
        gradle.current_dir(shop.path(machine)).arg("-g").arg(shop.folder(&format!("{machine}-home")));
        let told = line(gradle.args(["--build-cache", "--no-daemon", "--console=plain", "one"]));
        assert_eq!(told.contains("FROM-CACHE"), machine == "second", "{told}");
    }
    assert!(hits(&shoal) > 0);
    note("Gradle", "a cacheable task, then again on another machine");
}

/// A cacheable task.
const GRADLE_TASK: &str = "
@CacheableTask
class One extends DefaultTask {
    @InputFile @PathSensitive(PathSensitivity.NONE) File from = project.file('in.txt')
    @OutputFile File to = new File(project.buildDir, 'out.txt')
    @TaskAction void make() { to.parentFile.mkdirs(); to.text = from.text * 2 }
}
task one(type: One)
";

#[test]
#[ignore = "needs a client that is installed by hand"]
fn turborepo_finds_tasks_of_another_machine() {
    if !installed("turbo") || !installed("npm") {
        return;
    }
    let (shop, (shoal, url)) = (Workshop::new(), start());
    for machine in ["first", "second"] {
        let npm = Command::new("npm").arg("--version").output().expect("npm is installed");
        let npm = String::from_utf8_lossy(&npm.stdout).trim().to_owned();
        let root = format!("{{\"name\":\"app\",\"packageManager\":\"npm@{npm}\",\"workspaces\":[\"one\"]}}");
        shop.write(&format!("{machine}/package.json"), &root);
        let one = "{\"name\":\"one\",\"version\":\"1.0.0\",\"scripts\":{\"build\":\"date +%N > out.txt\"}}";
        shop.write(&format!("{machine}/one/package.json"), one);
        let task = "{\"tasks\":{\"build\":{\"outputs\":[\"out.txt\"]}}}";
        shop.write(&format!("{machine}/turbo.json"), task);
        let lock =
            format!("{{\"name\":\"app\",\"lockfileVersion\":3,\"packages\":{{\"\":{root},\"one\":{one}}}}}");
        shop.write(&format!("{machine}/package-lock.json"), &lock);
        let mut turbo = shop.command("turbo", None);
        turbo.current_dir(shop.path(machine)).env("TURBO_TELEMETRY_DISABLED", "1").env("TURBO_API", &url);
        turbo.env("TURBO_TOKEN", "x").env("TURBO_TEAM", "team");
        run(turbo.args(["run", "build", "--cache=remote:rw", "--no-daemon"]));
    }
    let out = |machine: &str| std::fs::read_to_string(shop.path(&format!("{machine}/one/out.txt")));
    assert_eq!(out("first").expect("built"), out("second").expect("restored"));
    assert!(hits(&shoal) > 0);
    note("Turborepo", "a task, then again on another machine");
}
