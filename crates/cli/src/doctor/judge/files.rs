//! Permissions of configured files and folders: the node's user must have them, and nobody else may
//! read keys or change anything.

use crate::doctor::facts::{CERTIFICATE_DAYS, CertificateState, FileFact, FileState, Need, User};
use crate::finding::Finding;

/// Judges each file; one line for all that are in order.
pub(super) fn files(files: &[FileFact], user: &User) -> Vec<Finding> {
    let mut findings: Vec<Finding> = files.iter().filter_map(|file| one(file, user)).collect();
    debug_assert!(findings.len() <= files.len(), "a file has one finding");
    let sound = files.len() - findings.len();
    if sound > 0 {
        findings.push(Finding::ok(format!("files: {sound} of {} are in order", files.len())));
    }
    findings
}

/// Returns the first thing that is wrong with a file.
fn one(file: &FileFact, user: &User) -> Option<Finding> {
    let (setting, path) = (&file.setting, file.path.display());
    let whose = if user.is_nodes { "the node's user" } else { "this user" };
    let (mode, is_folder) = match &file.state {
        FileState::There { mode, is_folder, .. } => (*mode, *is_folder),
        FileState::Absent if file.need == Need::Ordered => {
            return Some(Finding::warn(
                format!("{setting}: no certificate has come yet"),
                "`shoal status` tells the state of the order",
            ));
        }
        FileState::Absent => {
            return Some(Finding::bad(
                format!("{setting}: {path} is not there"),
                "make it, or correct the setting; a relative path begins at the node's working directory",
            ));
        }
        FileState::Hidden(why) => {
            return Some(Finding::warn(
                format!("{setting}: {path} cannot be looked at: {why}"),
                "run this as root, or as the node's user: `sudo -u shoal shoal doctor`",
            ));
        }
    };
    if is_folder != (file.need == Need::WriteIn) {
        let kind = if is_folder { "a folder, where a file belongs" } else { "no folder" };
        return Some(Finding::bad(format!("{setting}: {path} is {kind}"), "correct the setting"));
    }
    if matches!(file.need, Need::Secret | Need::Ordered) && mode & 0o007 != 0 {
        return Some(Finding::bad(
            format!("{setting}: every user of this machine may use {path} (mode {:03o})", mode & 0o777),
            format!("`chmod o-rwx {path}`; then make a new key or password, since it may be known"),
        ));
    }
    // A sticky folder keeps others from the files in it, though not from making some.
    if mode & 0o002 != 0 && (!is_folder || mode & 0o1000 == 0) {
        return Some(Finding::bad(
            format!("{setting}: every user of this machine may change {path} (mode {:03o})", mode & 0o777),
            format!("`chmod o-w {path}`"),
        ));
    }
    if !has_rights(file, user) {
        let verb = if file.need == Need::WriteIn { "write in" } else { "read" };
        let fix = match file.need {
            Need::WriteIn => format!("`chown shoal: {path}`, or the user that the node has"),
            _ => format!("`chown root:shoal {path} && chmod 640 {path}`, or the group that the node has"),
        };
        let text = format!("{setting}: {whose} may not {verb} {path} (mode {:03o})", mode & 0o777);
        return Some(if user.is_nodes { Finding::bad(text, fix) } else { Finding::warn(text, fix) });
    }
    certificate(file)
}

/// Returns `true` if the bits of the mode give the user the rights that the node needs.
fn has_rights(file: &FileFact, user: &User) -> bool {
    let FileState::There { mode, uid, gid, .. } = &file.state else { return false };
    let wanted = if file.need == Need::WriteIn { 0o3 } else { 0o4 };
    let shift = match () {
        () if user.uid == 0 => return true,
        () if user.uid == *uid => 6,
        () if user.gids.contains(gid) => 3,
        () => 0,
    };
    debug_assert!(shift <= 6, "three classes of users");
    mode >> shift & wanted == wanted
}

fn certificate(file: &FileFact) -> Option<Finding> {
    let (setting, path) = (&file.setting, file.path.display());
    let fix = "renew it; Shoal reads changed files again by itself";
    match file.certificate {
        CertificateState::Sound => None,
        CertificateState::Ended => {
            Some(Finding::bad(format!("{setting}: the certificate in {path} has ended"), fix))
        }
        CertificateState::NotYet => Some(Finding::bad(
            format!("{setting}: the certificate in {path} is not valid yet"),
            "look at the clock, or use an older certificate until then",
        )),
        CertificateState::EndsSoon => Some(Finding::warn(
            format!("{setting}: the certificate in {path} ends within {CERTIFICATE_DAYS} days"),
            fix,
        )),
    }
}
