//! `shoal migrate`: reads the settings of another cache and writes those of Shoal.

use crate::failure::Failure;
use crate::show::{count, print};
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use shoal_migrate::{Error, FILES_MAX, Files, Migration, Peer, SourceText, Summary, TEXT_BYTES_MAX, migrate};
use shoal_settings::{Settings, SettingsSource};
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

/// Write the settings of Squid, nginx, Varnish or Traffic Server as those of Shoal
///
/// Reads squid.conf, nginx.conf with its includes, a VCL file, or remap.config with the files
/// beside it, and prints shoal.toml. Above each setting stands the line that it comes from. At the
/// end stand the lines that are not carried over, with the reason. Access never grows: a refusal
/// that cannot be carried over becomes a wider one, and a notice at the top. Exits with code 4 when
/// something is not carried over.
#[derive(clap::Args)]
pub struct MigrationOptions {
    /// Settings files: the main one, and for Traffic Server others that are not beside it
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Program that the settings belong to; told by name or contents otherwise
    #[arg(long, value_name = "PROGRAM", value_parser = PossibleValuesParser::new(PROGRAMS).try_map(|name| name.parse::<Peer>()))]
    from: Option<Peer>,
    /// Write to this file, which must not exist
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite the file of --output
    #[arg(long, requires = "output")]
    force: bool,
}

/// Programs that `--from` names.
const PROGRAMS: [&str; 4] = ["squid", "nginx", "varnish", "trafficserver"];

impl MigrationOptions {
    pub fn perform(self) -> Result<(), Failure> {
        let main = &self.files[0];
        let text = read(main, false)?;
        let name = main.file_name().map_or("settings".into(), |name| name.to_string_lossy().into_owned());
        let peer = match self.from.or_else(|| Peer::detect(&name, &text)) {
            Some(peer) => peer,
            None => {
                let why = "tell with --from if it belongs to squid, nginx, varnish or trafficserver";
                return Err(Failure::Usage(format!("{}: {why}", main.display())));
            }
        };
        if self.files.len() > 1 && peer != Peer::TrafficServer {
            return Err(Failure::Usage(
                "give the main file alone; the files that it names are read too".into(),
            ));
        }
        let others = self.files[1..].iter().map(|path| Ok((path.clone(), read(path, false)?)));
        let beside = Beside {
            folder: main.parent().map_or(PathBuf::new(), Path::to_path_buf),
            others: others.collect::<Result<_, Failure>>()?,
        };
        let made =
            migrate(peer, SourceText { name, text }, &beside).map_err(|error| failure(main, &error))?;
        check(&made)?;
        match &self.output {
            Some(output) => write(output, &made.toml, self.force)?,
            None => print(&made.toml)?,
        }
        report(made.summary)
    }
}

/// Folder of the main file, and files that the command line names.
struct Beside {
    folder: PathBuf,
    others: Vec<(PathBuf, String)>,
}

impl Files for Beside {
    fn read(&self, pattern: &str) -> Result<Vec<SourceText>, String> {
        let named = self.others.iter().find(|(path, _)| path.file_name().is_some_and(|name| name == pattern));
        if let Some((_, text)) = named {
            return Ok(vec![SourceText { name: pattern.into(), text: text.clone() }]);
        }
        let mut paths = vec![PathBuf::new()];
        for part in self.folder.join(pattern).components() {
            let part = part.as_os_str().to_string_lossy().into_owned();
            if !part.contains(['*', '?']) {
                paths.iter_mut().for_each(|path| path.push(&part));
                continue;
            }
            let mut found = Vec::new();
            for entry in paths.iter().filter_map(|path| std::fs::read_dir(path).ok()).flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                if !name.starts_with('.') && fits(part.as_bytes(), name.as_bytes()) && found.len() < FILES_MAX
                {
                    found.push(entry.path());
                }
            }
            found.sort();
            paths = found;
        }
        let one = |path: PathBuf| {
            let name = path.file_name().map_or(pattern.into(), |name| name.to_string_lossy().into_owned());
            let text = read(&path, true).map_err(|failure| failure.lines().join(" "))?;
            Ok(SourceText { name, text })
        };
        paths.into_iter().filter(|path| !path.is_dir()).map(one).collect()
    }

    fn is_readable(&self, path: &str) -> bool {
        File::open(path).and_then(|file| file.metadata()).is_ok_and(|data| data.is_file())
    }
}

/// Returns `true` if a name fits a pattern with `*` and `?`.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut place) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while place < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                retry = Some((at + 1, place));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[place] => {
                at += 1;
                place += 1;
            }
            _ => {
                // The last star takes one byte more. Earlier ones need not be tried again.
                let Some((after_star, from)) = retry else { return false };
                retry = Some((after_star, from + 1));
                (at, place) = (after_star, from + 1);
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// Reads a file of settings. A file that an include names must be one: a pipe or device may never
/// end.
fn read(path: &Path, is_included: bool) -> Result<String, Failure> {
    let failed = |why: String| Failure::Usage(format!("cannot read {}: {why}", path.display()));
    let data = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?;
    if is_included && !data.is_file() {
        return Err(failed("it is no file".into()));
    }
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    let mut bytes = Vec::new();
    let read = file.take(TEXT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| failed(error.to_string()))?;
    match bytes.len() > TEXT_BYTES_MAX {
        true => Err(failed(format!("it has more than {TEXT_BYTES_MAX} bytes"))),
        false => Ok(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

fn failure(main: &Path, error: &Error) -> Failure {
    match error {
        Error::Syntax(file, line, why) => Failure::Usage(format!("{file}:{line}: {why}")),
        Error::Nothing(why) => Failure::Usage(why.clone()),
        other => Failure::Usage(format!("{}: {other}", main.display())),
    }
}

/// Checks the settings that came out, as `shoal check` does.
fn check(made: &Migration) -> Result<(), Failure> {
    let source = SettingsSource {
        file: "shoal.toml",
        text: &made.toml,
        overrides: Vec::new(),
        readable: &|path| File::open(path).map(|_| ()).map_err(|error| error.to_string()),
        further: &shoal_rules::mistakes,
    };
    let settings: Settings = source.read().map_err(|mistakes| {
        let lines: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
        Failure::Runtime(format!("{FAULT}:\n{}", lines.join("\n")))
    })?;
    match shoal_proxy::node::check(&settings) {
        errors if errors.is_empty() => Ok(()),
        errors => {
            let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
            Err(Failure::Runtime(format!("a file that the settings name is unsound:\n{}", lines.join("\n"))))
        }
    }
}

fn write(output: &Path, text: &str, force: bool) -> Result<(), Failure> {
    let failed =
        |error: std::io::Error| Failure::Usage(format!("cannot write {}: {error}", output.display()));
    let mut options = OpenOptions::new();
    options.write(true);
    match force {
        true => options.create(true).truncate(true),
        false => options.create_new(true),
    };
    let mut file = options.open(output).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            Failure::Usage(format!("{} exists; --force overwrites it", output.display()))
        }
        _ => failed(error),
    })?;
    file.write_all(text.as_bytes()).map_err(failed)
}

/// Says how much was carried over, on stderr.
fn report(summary: Summary) -> Result<(), Failure> {
    let numbers =
        [summary.carried, summary.approximated, summary.left_out].map(|number| count(number as u64));
    let [carried, approximated, left_out] = numbers;
    let line = format!("{carried} lines carried, {approximated} approximated, {left_out} not carried");
    if summary.left_out == 0 {
        // A caller without stderr still has the file and the exit code.
        let _ = writeln!(std::io::stderr(), "shoal: {line}");
        return Ok(());
    }
    let notices = summary.notices.iter().map(|notice| format!("ATTENTION {notice}"));
    Err(Failure::LeftOut(notices.chain([line]).collect()))
}

const FAULT: &str = "the settings that came out do not pass the check, which is a fault of this command; \
please report it with the file";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_patterns() {
        for (pattern, name, is_fit) in
            [("*.conf", "a.conf", true), ("*", "", true), ("a?c", "abc", true), ("*.conf", "a.bak", false)]
        {
            assert_eq!(fits(pattern.as_bytes(), name.as_bytes()), is_fit, "{pattern} {name}");
        }
        let (pattern, name) = ("*a".repeat(60) + "*b", "a".repeat(255));
        assert!(!fits(pattern.as_bytes(), name.as_bytes()), "within a short time");
    }
}
