//! Files of users: those with passwords that Shoal can check, and the reason for others.

use crate::Files;

/// Returns nothing if Shoal can check every password of this file.
///
/// # Errors
/// The reason why it cannot.
pub fn check(files: &dyn Files, path: &str) -> Result<(), &'static str> {
    if !path.starts_with('/') {
        return Err("its file of users is not named by a whole path");
    }
    let found = files.read(path).map_err(|_| ABSENT)?;
    let [file] = found.as_slice() else { return Err(ABSENT) };
    let lines = file.text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let mut names = Vec::new();
    for line in lines {
        let Some((name, password)) = line.split_once(':') else { return Err(NO_USER) };
        if name.is_empty() || names.contains(&name) {
            return Err(NO_USER);
        }
        if !is_readable(password) {
            return Err(HASHED);
        }
        names.push(name);
    }
    if names.is_empty() { Err(NO_USER) } else { Ok(()) }
}

/// Returns `true` for a password in a form of `users_file` that says which form it is.
///
/// A bare text is the output of `crypt` for the old caches, and would be the password itself here.
fn is_readable(password: &str) -> bool {
    let Some((salt, hex)) = password.strip_prefix("$sha256$").and_then(|rest| rest.rsplit_once('$')) else {
        return false;
    };
    !salt.is_empty() && hex.len() == 64 && hex.bytes().all(|digit| digit.is_ascii_hexdigit())
}

const ABSENT: &str = "its file of users cannot be read here";
const NO_USER: &str = "its file of users has a line that is not user:password, or no user";
const HASHED: &str = "its file of users has hashes that Shoal cannot check: write each password anew, as \
                      docs/CONFIG.md says below forward.users_file, and name the new file in users_file";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SourceText;

    struct One(&'static str);

    impl Files for One {
        fn read(&self, pattern: &str) -> Result<Vec<SourceText>, String> {
            Ok(vec![SourceText { name: pattern.into(), text: self.0.into() }])
        }

        fn is_readable(&self, _path: &str) -> bool {
            true
        }
    }

    #[test]
    fn only_known_hashes_are_taken() {
        let hashed = "ann:$sha256$pepper$1a62cb3bb3ecfcd0e49236c037d100f64ec07a1a3c5964db8d0bfb8a31a221fa\n";
        assert_eq!(check(&One(hashed), "/users"), Ok(()));
        for text in [
            "",
            "ann",
            "ann:$apr1$x$y",
            "ann:rl6nUCBgSMn2E",
            "ann:{SHA}x",
            "ann:$sha256$x$12",
            "ann:$sha256$pepper$1a62cb3bb3ecfcd0e49236c037d100f64ec07a1a3c5964db8d0bfb8a31a221fa\nbob:$6$a$b",
        ] {
            assert!(check(&One(text), "/users").is_err(), "{text}");
        }
    }
}
