//! `pip install` from a simple index (PEP 503).

use crate::rounds::{Says, Work, twice};
use crate::workshop::{Workshop, installed, line, run, sha256};
use shoal_testkit::{Origin, missing};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The interpreter itself, not a shim that needs the user's home.
pub(crate) fn python() -> Option<PathBuf> {
    if !installed("python3") {
        return None;
    }
    let mut ask = std::process::Command::new("python3");
    let path = PathBuf::from(line(ask.args(["-c", "import sys; print(sys.executable)"])));
    let pip = std::process::Command::new(&path).args(["-m", "pip", "--version"]).output();
    let found = pip.is_ok_and(|output| output.status.success());
    if !found {
        missing::skip("pip");
    }
    found.then_some(path)
}

/// A wheel is a zip archive with a folder of metadata.
const MAKE_WHEEL: &str = "
import sys, zipfile, random
name, requires, path = sys.argv[1:]
info = f'{name}-1.0.dist-info/'
random.seed(name)
files = {
    f'{name}/__init__.py': f'NAME = {name!r}\\n',
    f'{name}/data.bin': random.randbytes(50_000),
    info + 'METADATA': f'Metadata-Version: 2.1\\nName: {name}\\nVersion: 1.0\\n' + (f'Requires-Dist: {requires}\\n' if requires else ''),
    info + 'WHEEL': 'Wheel-Version: 1.0\\nGenerator: hand\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n',
}
record = ''.join(f'{file},,\\n' for file in files) + info + 'RECORD,,\\n'
with zipfile.ZipFile(path, 'w') as wheel:
    for file, content in files.items():
        wheel.writestr(file, content)
    wheel.writestr(info + 'RECORD', record)
with open(path + '.metadata', 'w', newline='') as beside:
    beside.write(files[info + 'METADATA'])
";

#[test]
fn pip_installs_twice() {
    let Some([first, second]) = install(Says::Lifetimes) else { return };
    assert!(first.requests >= 6, "{first:?}");
    // pip asks for index pages with max-age=0, so they are validated; wheels come from the cache
    assert!(second.requests <= 3 && second.bytes < first.bytes / 20, "{first:?} {second:?}");
}

#[test]
fn pip_installs_from_a_silent_index() {
    let Some([first, second]) = install(Says::Nothing) else { return };
    assert!(first.requests >= 6, "{first:?}");
    assert_eq!(second.requests, 0);
}

/// Installs three wheels twice; each is fetched once.
fn install(says: Says) -> Option<[Work; 2]> {
    let python = python()?;
    let (shop, origin) = (Workshop::new(), Origin::start());
    publish(&shop, &python);
    says.serve(&origin, "/simple/", shop.path("simple"), "max-age=600");
    says.serve(&origin, "/packages/", shop.path("packages"), "max-age=31536000, immutable");
    let shoal = says.start();
    let work = twice("pip", &says.task("3 wheels from a simple index"), &origin, |round| {
        let target = shop.path(&format!("target-{round}"));
        let index = format!("{}/simple/", origin.url());
        install_into(shop.command(&python, Some(&shoal)), &index, (&target, None));
    });
    for name in NAMES {
        assert_eq!(origin.count(&format!("/packages/{name}-1.0-py3-none-any.whl")), 1, "{name}");
    }
    Some(work)
}

/// Makes the wheels and the pages of their projects.
pub(crate) fn publish(shop: &Workshop, python: &Path) {
    let packages = shop.folder("packages");
    for (name, requires) in NAMES.iter().zip(["shoal_two", "shoal_three", ""]) {
        let file = format!("{name}-1.0-py3-none-any.whl");
        let wheel = packages.join(&file);
        run(shop.command(python, None).args(["-c", MAKE_WHEEL, name, requires]).arg(&wheel));
        let link = format!(
            "<!DOCTYPE html><a href=\"../../packages/{file}#sha256={}\">{file}</a>\n",
            sha256(&wheel)
        );
        shop.write(&format!("simple/{}/index.html", name.replace('_', "-")), &link);
    }
}

/// Returns a list of the wheels with their digests.
pub(crate) fn requirements(shop: &Workshop) -> String {
    let line = |name: &&str| {
        let wheel = shop.path("packages").join(format!("{name}-1.0-py3-none-any.whl"));
        format!("{name}==1.0 --hash=sha256:{}\n", sha256(&wheel))
    };
    NAMES.iter().map(line).collect()
}

/// Installs the first project, and with it all of them; or those of a list with digests.
pub(crate) fn install_into(mut pip: Command, index: &str, (target, listed): (&Path, Option<&Path>)) {
    pip.args(["-m", "pip", "--disable-pip-version-check", "install", "--no-cache-dir"]);
    pip.args(["--index-url", index, "--target"]).arg(target);
    match listed {
        Some(list) => pip.arg("--require-hashes").arg("-r").arg(list),
        None => pip.arg("shoal-one"),
    };
    run(pip.env("PIP_CONFIG_FILE", "/dev/null"));
    for name in NAMES {
        assert!(target.join(name).join("data.bin").is_file(), "{name} in {}", target.display());
    }
}

/// Projects of the index; each needs the next.
pub(crate) const NAMES: [&str; 3] = ["shoal_one", "shoal_two", "shoal_three"];
