//! `cargo fetch` and `cargo build` from a sparse registry.

use crate::rounds::{Says, twice};
use crate::workshop::{Workshop, line, run, sha256};
use serde_json::json;
use shoal_testkit::{Origin, missing};
use std::path::PathBuf;
use std::process::Command;

pub(crate) const CRATES: usize = 8;

/// The toolchain's own programs, not shims that need the user's home.
pub(crate) fn toolchain() -> Option<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let found = |program: &std::ffi::OsString| {
        Command::new(program).arg("--version").output().is_ok_and(|out| out.status.success())
    };
    if !(found(&cargo) && found(&rustc)) {
        missing::skip("cargo");
        return None;
    }
    Some(PathBuf::from(line(Command::new(rustc).args(["--print", "sysroot"]))).join("bin"))
}

#[test]
fn cargo_builds_twice() {
    build_twice(Says::Lifetimes);
}

#[test]
fn cargo_builds_from_a_silent_registry() {
    build_twice(Says::Nothing);
}

/// Builds twice; the second time the origin has nothing to do.
fn build_twice(says: Says) {
    let Some(toolchain) = toolchain() else { return };
    let (shop, origin) = (Workshop::new(), Origin::start());
    publish_all(&shop, &origin.url());
    says.serve(&origin, "/index/", shop.path("index"), "max-age=600");
    says.serve(&origin, "/crates/", shop.path("crates"), "max-age=31536000, immutable");
    let shoal = says.start();
    let task = says.task("cargo build with 8 crates, sparse index");
    let [first, second] = twice("cargo", &task, &origin, |round| {
        let config = format!("[registries.local]\nindex = 'sparse+{}/index/'\n", origin.url());
        let needs = "version = '1', registry = 'local'";
        let command = |program: &str| shop.command(toolchain.join(program), Some(&shoal));
        build_app(&shop, command, &format!("app-{round}"), &config, needs);
    });
    assert!(first.requests > 2 * CRATES, "{first:?}");
    assert_eq!(second.requests, 0);
}

/// Builds and runs a program that needs the first crate, by the lock that stands in its folder if
/// there is one. Gives its lock. `command` makes the command of a program of the toolchain.
pub(crate) fn build_app(
    shop: &Workshop,
    command: impl Fn(&str) -> Command,
    app: &str,
    config: &str,
    needs: &str,
) -> String {
    let first = "[package]\nname = 'app'\nversion = '1.0.0'\nedition = '2021'\n[workspace]\n[dependencies]\n";
    shop.write(&format!("{app}/Cargo.toml"), &format!("{first}shoal-demo-0 = {{ {needs} }}\n"));
    shop.write(&format!("{app}/src/main.rs"), "fn main() { println!(\"{}\", shoal_demo_0::depth()); }\n");
    let home = shop.folder(&format!("cargo-home-{app}"));
    std::fs::write(home.join("config.toml"), config).expect("writable");
    let cargo = |arguments: &[&str]| {
        let mut cargo = command("cargo");
        cargo.args(arguments).current_dir(shop.path(app)).env("CARGO_HOME", &home);
        cargo.env("RUSTC", command("rustc").get_program()).env("CARGO_NET_RETRY", "0");
        line(&mut cargo)
    };
    let locked = shop.path(&format!("{app}/Cargo.lock")).exists().then_some("--locked");
    cargo(&["fetch"].into_iter().chain(locked).collect::<Vec<_>>());
    assert_eq!(cargo(&["run", "--quiet", "--offline"]), CRATES.to_string());
    std::fs::read_to_string(shop.path(&format!("{app}/Cargo.lock"))).expect("cargo writes a lock")
}

/// Makes all crates with their index.
/// `files` is the URL of the host of crate files.
pub(crate) fn publish_all(shop: &Workshop, files: &str) {
    for number in 0..CRATES {
        publish(shop, number);
    }
    let config = json!({ "dl": format!("{files}/crates/{{crate}}-{{version}}.crate") });
    shop.write("index/config.json", &config.to_string());
}

/// Makes crate `number`, which depends on the next, with its line in the index.
fn publish(shop: &Workshop, number: usize) {
    let name = format!("shoal-demo-{number}");
    let package = format!("[package]\nname = '{name}'\nversion = '1.0.0'\nedition = '2021'\n");
    let next = number + 1 < CRATES;
    let (needs, source, depends) = match next {
        true => (
            format!(
                "[dependencies]\nshoal-demo-{} = {{ version = '1', registry-index = 'unused' }}\n",
                number + 1
            ),
            format!("pub fn depth() -> u32 {{ 1 + shoal_demo_{}::depth() }}\n", number + 1),
            vec![json!({
                "name": format!("shoal-demo-{}", number + 1), "req": "^1", "features": [], "optional": false,
                "default_features": true, "target": null, "kind": "normal"
            })],
        ),
        false => (String::new(), "pub fn depth() -> u32 { 1 }\n".to_string(), Vec::new()),
    };
    let needs = needs.replace(", registry-index = 'unused'", "");
    let folder = format!("{name}-1.0.0");
    shop.write(&format!("crates-src/{folder}/Cargo.toml"), &format!("{package}{needs}"));
    shop.write(&format!("crates-src/{folder}/src/lib.rs"), &source);
    let archive = shop.folder("crates").join(format!("{folder}.crate"));
    run(shop
        .command("tar", None)
        .arg("-C")
        .arg(shop.path("crates-src"))
        .arg("-czf")
        .arg(&archive)
        .arg(&folder));
    let entry = json!({
        "name": name, "vers": "1.0.0", "deps": depends, "cksum": sha256(&archive), "features": {}, "yanked": false
    });
    shop.write(&format!("index/sh/oa/{name}"), &format!("{entry}\n"));
}
