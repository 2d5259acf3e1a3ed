//! Users of Squid: `auth_param basic` with a file, and the clients that need a user.

use crate::Files;
use crate::document::{Document, Section};
use crate::ledger::{Ledger, LineId};
use crate::networks;
use crate::squid_lines::Line;
use crate::value::Value;
use ipnet::IpNet;

/// File of users with its realm.
#[derive(Clone, Debug)]
pub struct Users {
    file: String,
    realm: Option<String>,
    from: Vec<LineId>,
}

/// Clients that need a user, and those that Squid has asked for one already.
#[derive(Debug, Default)]
pub struct UserClients {
    /// Networks that are served with a user.
    pub nets: Vec<IpNet>,
    /// Networks that a line has asked for a user: Squid challenges them there, so that a later line
    /// lets them in with a user alone.
    asked: Vec<IpNet>,
    /// Lines.
    pub from: Vec<LineId>,
}

/// Reads every `auth_param`.
///
/// # Errors
/// The reason why no user can be asked for.
pub fn read(lines: &[Line], files: &dyn Files, ledger: &mut Ledger) -> Result<Users, &'static str> {
    let (mut program, mut realm, mut from): (Option<Vec<String>>, _, _) = (None, None, Vec::new());
    for line in lines.iter().filter(|line| line.name == "auth_param") {
        match (line.word(0), line.word(1)) {
            ("basic", "program") => {
                program = Some(line.words[2..].to_vec());
                from.push(line.id);
            }
            ("basic", "realm") => {
                let text = line.words[2..].join(" ");
                let text = text.trim_matches('"').to_owned();
                let is_plain = |c: char| c == ' ' || c.is_ascii_graphic();
                realm = Some(text).filter(|text| !text.is_empty() && text.chars().all(is_plain));
                from.push(line.id);
            }
            ("basic", _) => ledger.needless(line.id, "Shoal reads the file itself, without helpers"),
            _ => ledger.left_out(line.id, "users authenticate with the Basic scheme alone"),
        }
    }
    let known = match program.as_deref() {
        Some([helper, .., file]) if helper.ends_with("ncsa_auth") => {
            crate::users::check(files, file.trim_matches('"')).map(|()| file.trim_matches('"').to_owned())
        }
        Some(_) => Err("its helper is none that reads a file (basic_ncsa_auth)"),
        None => Err("no auth_param basic names a file of users"),
    };
    let file = known.inspect_err(|why| from.iter().for_each(|line| ledger.left_out(*line, *why)))?;
    from.iter().for_each(|line| ledger.carried(*line));
    Ok(Users { file, realm, from })
}

impl UserClients {
    /// Notes that a line asks these clients for a user.
    pub fn ask(&mut self, nets: &[IpNet]) {
        self.asked.extend(nets);
    }

    /// Adds clients that are served with a user.
    pub fn add(&mut self, nets: &[IpNet], line: LineId) {
        self.nets = IpNet::aggregate(&[self.nets.clone(), nets.to_vec()].concat());
        self.from.push(line);
    }

    /// Returns those of these networks that need no user; `None` if they are too many.
    pub fn unasked(&self, nets: &[IpNet]) -> Option<Vec<IpNet>> {
        match self.asked.is_empty() {
            true => Some(nets.to_vec()),
            false => networks::subtract(nets, &self.asked),
        }
    }
}

/// Writes the file of users: for all clients, or for those outside of `free`.
pub fn write(users: &Users, (free, from): (&[IpNet], &[LineId]), has_reverse: bool, document: &mut Document) {
    if free.is_empty() && !has_reverse {
        let forward = document.table("forward");
        forward.set("users_file", users.file.as_str(), &users.from);
        if let Some(realm) = &users.realm {
            forward.set("realm", realm.as_str(), &[]);
        }
        return;
    }
    assert!(!users.file.is_empty(), "a file was read");
    let mut rule = Section::of(&users.from);
    rule.set("users_file", users.file.as_str(), from);
    if let Some(realm) = &users.realm {
        rule.set("realm", realm.as_str(), &[]);
    }
    if !free.is_empty() {
        rule.set("allow_clients", Value::texts(free.iter().map(ToString::to_string)), &[]);
        rule.set("satisfy", "any", &[]);
        rule.note("These clients need no password, others need one.");
    }
    document.rules.insert(0, rule.guard());
}
