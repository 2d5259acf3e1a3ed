//! Access to the admin listener: loopback and Unix sockets as they are, elsewhere TLS and users.
//!
//! | listener | without `[[admin.users]]` | with them |
//! |---|---|---|
//! | loopback, Unix socket | everything | as the user's role allows |
//! | elsewhere | everything but the dashboard | as the user's role allows, over TLS |
//!
//! The role `look` reads, and explains. The role `change` does everything. `/healthz` needs no
//! user. Passwords come with each request (RFC 7617); guesses are limited by client network.

use crate::server::{self, PrivateTls};
use http::request::Parts;
use http::{HeaderMap, Method, header};
use shoal_access::rate_limit::{RateLimiter, limiter_time};
use shoal_access::{Users, settings_file};
use shoal_rules::ClientRate;
use shoal_settings::{Admin, AdminAddress, AdminRole, AdminUser};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Instant;

/// Rules of access.
pub struct AdminAccess {
    users: Vec<(Users, AdminRole)>,
    tls: Option<PrivateTls>,
    /// Further host names of the listener.
    hosts: Vec<String>,
    /// Wrong passwords that came, by client network.
    failures: RateLimiter,
    /// `true` for the listener of metrics.
    has_metrics_alone: bool,
}

/// Reason why a request is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccessRefusal {
    /// The request names no user, or the wrong password.
    Unauthorized,
    /// Too many wrong passwords came.
    Guessing,
    /// The user's role does not allow the request.
    Role,
    /// The dashboard is not shown to everybody.
    Everybody,
}

impl AdminAccess {
    /// Reads passwords and certificates.
    ///
    /// # Errors
    /// If a file cannot be used, or a hash is none; a line.
    pub fn new(settings: &Admin) -> Result<Arc<Self>, String> {
        let user = |(number, user): (usize, &AdminUser)| {
            let read = users_of(user).map_err(|why| format!("admin.users[{number}]: {why}"))?;
            Ok((read, user.role))
        };
        Ok(Arc::new(Self {
            users: settings.users.iter().enumerate().map(user).collect::<Result<_, String>>()?,
            tls: server::private_tls(&settings.tls).map_err(|error| error.to_string())?,
            hosts: settings.hosts.clone(),
            failures: RateLimiter::new(FAILURES, FAILURE_PLACES),
            has_metrics_alone: false,
        }))
    }

    /// Returns the rules of the listener of metrics: no users, no TLS, and few requests.
    pub fn of_metrics(settings: &Admin) -> Arc<Self> {
        Arc::new(Self {
            users: Vec::new(),
            tls: None,
            hosts: settings.hosts.clone(),
            failures: RateLimiter::new(FAILURES, FAILURE_PLACES),
            has_metrics_alone: true,
        })
    }

    /// Returns `true` if requests for metrics and health alone are answered.
    pub(super) fn has_metrics_alone(&self) -> bool {
        self.has_metrics_alone
    }

    /// Returns the TLS of the listener; `None` for plain HTTP.
    pub(super) fn tls(&self) -> Option<&PrivateTls> {
        self.tls.as_ref()
    }

    /// Returns further host names of the listener.
    pub(super) fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// Returns the role of a request, or the reason to refuse it. `is_dashboard` is set for the
    /// dashboard's paths, `is_local` for a listener that other machines do not reach. `from` is the
    /// client.
    pub(super) fn judge(
        &self,
        head: &Parts,
        is_dashboard: bool,
        (is_local, from): (bool, Option<IpAddr>),
    ) -> Result<AdminRole, AccessRefusal> {
        if self.users.is_empty() {
            let is_open = is_local || !is_dashboard;
            return if is_open { Ok(AdminRole::Change) } else { Err(AccessRefusal::Everybody) };
        }
        let role = self.role_of(&head.headers, from)?;
        let only_looks = head.method.is_safe() || (head.method == Method::POST && head.uri.path() == EXPLAIN);
        match role {
            AdminRole::Look if !only_looks => Err(AccessRefusal::Role),
            role => Ok(role),
        }
    }

    fn role_of(&self, fields: &HeaderMap, from: Option<IpAddr>) -> Result<AdminRole, AccessRefusal> {
        let Some(credentials) = fields.get(header::AUTHORIZATION) else {
            return Err(AccessRefusal::Unauthorized);
        };
        let from = from.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let now = limiter_time(Instant::now());
        if self.failures.check(from, now).is_err() {
            return Err(AccessRefusal::Guessing);
        }
        // All users are asked, so that the time does not tell which one is there.
        let mut roles = self
            .users
            .iter()
            .filter_map(|(user, role)| user.authenticate(credentials.as_bytes()).map(|_| *role));
        let role = roles.next();
        roles.for_each(drop);
        if role.is_none() {
            let _ = self.failures.take(from, now);
        }
        role.ok_or(AccessRefusal::Unauthorized)
    }
}

impl AccessRefusal {
    /// Returns the reason in a sentence.
    pub fn text(self) -> &'static str {
        match self {
            Self::Unauthorized => "name a user of admin.users and the password",
            Self::Guessing => "too many wrong passwords; try again in a while",
            Self::Role => "this user's role is look; it needs change",
            Self::Everybody => {
                "the dashboard is for loopback and Unix sockets; elsewhere set admin.tls and admin.users"
            }
        }
    }
}

/// Returns `true` if other machines cannot reach the address.
pub(super) fn is_local(address: &AdminAddress) -> bool {
    match address {
        AdminAddress::Tcp(address) => address.ip().to_canonical().is_loopback(),
        AdminAddress::Unix(_) => true,
    }
}

fn users_of(user: &AdminUser) -> Result<Users, String> {
    let password = match (&user.password, &user.password_file) {
        (Some(hash), None) => hash.clone(),
        (None, Some(path)) => {
            let bytes = settings_file::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
            let text = String::from_utf8(bytes).map_err(|_| format!("{} is no text", path.display()))?;
            text.trim_end_matches(['\r', '\n']).to_owned()
        }
        _ => return Err("name a password hash, or a file".into()),
    };
    Users::one(&user.name, &password).map_err(str::to_owned)
}

/// Path that changes nothing, though it takes POST.
const EXPLAIN: &str = "/explain";

/// Wrong passwords of a client network: ten at once, then one a second.
const FAILURES: ClientRate = ClientRate { per_second: 1.0, burst: 10 };

/// Networks that are counted; see [`RateLimiter`] for more of them.
const FAILURE_PLACES: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    fn access(users: &[(&str, AdminRole)]) -> Arc<AdminAccess> {
        let folder = tempfile::tempdir().expect("a folder");
        let user = |(name, role): &(&str, AdminRole)| {
            let file = folder.path().join(name);
            std::fs::write(&file, "secret\n").expect("written");
            AdminUser { name: (*name).into(), password: None, password_file: Some(file), role: *role }
        };
        let settings = Admin { users: users.iter().map(user).collect(), ..Admin::default() };
        AdminAccess::new(&settings).expect("sound")
    }

    fn head(method: Method, path: &str, credentials: Option<&str>) -> Parts {
        let mut request = http::Request::builder().method(method).uri(path);
        if let Some(credentials) = credentials {
            request = request.header("Authorization", format!("Basic {}", STANDARD.encode(credentials)));
        }
        request.body(()).expect("a request").into_parts().0
    }

    #[test]
    fn roles_decide_access() {
        let access = access(&[("ann", AdminRole::Look), ("bob", AdminRole::Change)]);
        let judge = |method, path, credentials| {
            access
                .judge(&head(method, path, credentials), false, (true, None))
                .map(|role| role == AdminRole::Change)
        };
        let (ann, bob) = (Some("ann:secret"), Some("bob:secret"));
        assert_eq!(judge(Method::GET, "/status", ann), Ok(false));
        assert_eq!(judge(Method::POST, "/explain", ann), Ok(false));
        assert_eq!(judge(Method::POST, "/purge", ann), Err(AccessRefusal::Role));
        assert_eq!(judge(Method::POST, "/purge", bob), Ok(true));
        for credentials in [None, Some("bob:wrong"), Some("eve:secret"), Some("")] {
            assert_eq!(judge(Method::GET, "/status", credentials), Err(AccessRefusal::Unauthorized));
        }
    }

    #[test]
    fn guesses_are_limited() {
        let access = access(&[("ann", AdminRole::Look)]);
        let judge =
            |credentials| access.judge(&head(Method::GET, "/", Some(credentials)), true, (false, None));
        let refused: Vec<_> = (0..20).map(|_| judge("ann:wrong")).collect();
        assert_eq!(refused[0], Err(AccessRefusal::Unauthorized));
        assert_eq!(refused[19], Err(AccessRefusal::Guessing));
        assert_eq!(judge("ann:secret"), Err(AccessRefusal::Guessing));
        let from = Some(IpAddr::from([10, 0, 0, 1]));
        let other = access.judge(&head(Method::GET, "/", Some("ann:secret")), true, (false, from));
        assert_eq!(other, Ok(AdminRole::Look), "other clients are not locked out");
    }

    #[test]
    fn dashboard_needs_users_elsewhere() {
        let access = access(&[]);
        let judge = |is_dashboard, is_local| {
            access.judge(&head(Method::GET, "/ui/", None), is_dashboard, (is_local, None))
        };
        assert_eq!(judge(true, true), Ok(AdminRole::Change));
        assert_eq!(judge(false, false), Ok(AdminRole::Change));
        assert_eq!(judge(true, false), Err(AccessRefusal::Everybody));
        assert!(is_local(&AdminAddress::Unix("/run/a".into())));
        assert!(!is_local(&AdminAddress::Tcp(([10, 0, 0, 1], 1).into())));
        assert!(!is_local(&AdminAddress::Tcp(([0, 0, 0, 0], 1).into())));
    }
}
