//! The thread that orders certificates: one order at a time, at its time.

use super::folder::Folder;
use super::http::{AuthorityClient, tidy};
use super::order::{Authority, OrderError, suggestion};
use super::{AcmeParts, OrderDesk, OrderPlan, OrderState};
use shoal_acme::{Attempts, CertificateFacts, Failure, Window, renewal_at};
use shoal_core::{Key, mixed};
use shoal_settings::AcmeCertificate;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, SystemTime};

/// State of the thread.
pub(super) struct Driver {
    /// Settings in force. An order under way keeps them to its end.
    plan: Arc<OrderPlan>,
    parts: AcmeParts,
    shared: Arc<OrderDesk>,
    /// Folder of the orders, once this process holds it.
    folder: Option<Folder>,
    /// Reason for which the folder is not held, as told last.
    told: String,
    /// Wishes of the authority, by the certificate's file.
    wishes: HashMap<PathBuf, Wish>,
}

/// Wish of the authority about a certificate.
struct Wish {
    /// Serial number of the certificate.
    serial: Vec<u8>,
    window: Option<Window>,
    /// Time of the next question.
    ask_at: u64,
}

impl Driver {
    pub fn new(parts: AcmeParts, shared: Arc<OrderDesk>) -> Self {
        let plan = Arc::clone(&shared.plan.lock());
        Self { plan, parts, shared, folder: None, told: String::new(), wishes: HashMap::new() }
    }

    /// Orders certificates until the node stops.
    pub async fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        while !shared.is_stopping.load(SeqCst) {
            let next = tokio::select! {
                next = self.step() => next,
                () = shared.stopped() => break,
            };
            let pause = next.saturating_sub(unix_now()).clamp(1, PAUSE_MAX);
            assert!(pause > 0, "the thread does not spin");
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs(pause)) => {}
                () = shared.changed.notified() => {}
            }
        }
        self.parts.challenges.close();
    }

    /// Makes the order that is due, if one is. Returns the time of the next look.
    async fn step(&mut self) -> u64 {
        self.take_up();
        let plan = Arc::clone(&self.plan);
        self.forget_others(&plan.wanted);
        if plan.wanted.is_empty() {
            return u64::MAX;
        }
        let client = match self.ready() {
            Ok(client) => client,
            Err(why) => {
                if self.told != why {
                    tracing::warn!(why, "certificates are not ordered yet");
                }
                self.told = why;
                return unix_now() + FOLDER_WAIT;
            }
        };
        let mut next = u64::MAX;
        for certificate in &plan.wanted {
            next = next.min(self.tend(certificate, &client).await);
            if self.folder.is_none() {
                return unix_now() + FOLDER_WAIT;
            }
        }
        next
    }

    /// Takes up the settings of the last reload.
    fn take_up(&mut self) {
        let plan = Arc::clone(&self.shared.plan.lock());
        if Arc::ptr_eq(&plan, &self.plan) {
            return;
        }
        let (old, new) = (&self.plan.acme, &plan.acme);
        if new.directory != old.directory {
            // Another authority has wishes of its own.
            self.wishes.clear();
        }
        if new.folder != old.folder || plan.wanted.is_empty() {
            // Another process may take it.
            self.folder = None;
        }
        self.told.clear();
        self.plan = plan;
    }

    /// Forgets the states of certificates that are not wanted any more.
    fn forget_others(&mut self, wanted: &[AcmeCertificate]) {
        let files: Vec<PathBuf> = wanted.iter().map(|it| it.file(&self.plan.acme.folder)).collect();
        self.shared.states.lock().retain(|file, _| files.contains(file));
        self.wishes.retain(|file, _| files.contains(file));
    }

    /// Takes the folder, and returns a client of the authority.
    fn ready(&mut self) -> Result<AuthorityClient, String> {
        if self.folder.is_none() {
            let path = &self.plan.acme.folder;
            let folder = Folder::take(path).map_err(|error| match error.kind() {
                std::io::ErrorKind::WouldBlock => format!("another process holds {}", path.display()),
                _ => format!("acme.folder {}: {error}", path.display()),
            })?;
            self.folder = Some(folder);
        }
        AuthorityClient::new(&self.plan.acme.directory, &self.plan.upstreams)
    }

    /// Orders or renews a certificate if it is time. Returns the time of the next look.
    async fn tend(&mut self, certificate: &AcmeCertificate, client: &AuthorityClient) -> u64 {
        let file = certificate.file(&self.plan.acme.folder);
        // One of another authority serves until this authority's is there.
        let is_ours = self.attempts(certificate).is_some();
        let facts = self.folder().certificate(certificate).filter(|_| is_ours);
        let asked_again = match &facts {
            Some(facts) => self.ask_wish(&file, facts, client).await,
            None => u64::MAX,
        };
        let due = self.due(certificate, facts.as_ref());
        if due > unix_now() {
            let mut states = self.shared.states.lock();
            let state = states.entry(file).or_default();
            (state.next_at, state.failures) = (due, self.attempts(certificate).unwrap_or_default().failures);
            return due.min(asked_again);
        }
        self.order(certificate, facts.as_ref(), client).await;
        // The next look tells the time, and asks for the wish about the new certificate.
        unix_now()
    }

    fn folder(&self) -> &Folder {
        self.folder.as_ref().expect("taken before a certificate is tended")
    }

    /// Returns the times of earlier attempts; `None` if the last one was at another authority: its
    /// waits do not count at this one.
    fn attempts(&self, certificate: &AcmeCertificate) -> Option<Attempts> {
        self.folder().attempts(certificate, &self.plan.acme.directory)
    }

    /// Returns the time of the next order.
    fn due(&self, certificate: &AcmeCertificate, facts: Option<&CertificateFacts>) -> u64 {
        let attempts = self.attempts(certificate).unwrap_or_default();
        let file = certificate.file(&self.plan.acme.folder);
        let window = self.wishes.get(&file).and_then(|wish| wish.window);
        let renewal = facts.map(|facts| {
            let seed = self.seed(&facts.serial);
            renewal_at((facts.not_before, facts.not_after), window, seed)
        });
        attempts.due_at(renewal, unix_now())
    }

    /// Returns a number of this node and these bytes.
    fn seed(&self, bytes: &[u8]) -> u64 {
        mixed(self.parts.identity ^ Key::unkeyed(bytes).low())
    }

    /// Asks for the authority's wish, if it is time. Returns the time of the next question.
    async fn ask_wish(&mut self, file: &PathBuf, facts: &CertificateFacts, client: &AuthorityClient) -> u64 {
        let known = self.wishes.get(file).filter(|wish| wish.serial == facts.serial);
        if let Some(wish) = known.filter(|wish| wish.ask_at > unix_now()) {
            return wish.ask_at;
        }
        let before = known.and_then(|wish| wish.window);
        let plan = Arc::clone(&self.plan);
        let authority = Authority { acme: &plan.acme, client, challenges: &self.parts.challenges };
        let wished = suggestion(&authority, self.folder(), facts).await;
        let (window, wait) = match wished {
            Some((window, again)) => (Some(window), again.clamp(WISH_MIN, WISH_MAX)),
            None => (before, WISH_FAILED),
        };
        let ask_at = unix_now() + wait;
        debug_assert!((WISH_MIN..=WISH_MAX).contains(&wait));
        self.wishes.insert(file.clone(), Wish { serial: facts.serial.clone(), window, ask_at });
        ask_at
    }

    /// Makes an order, and keeps its outcome.
    async fn order(
        &mut self,
        certificate: &AcmeCertificate,
        facts: Option<&CertificateFacts>,
        client: &AuthorityClient,
    ) {
        let plan = Arc::clone(&self.plan);
        let acme = &plan.acme;
        let (names, now, retry) = (certificate.names.join(", "), unix_now(), acme.retry.as_secs());
        let mut attempts = self.attempts(certificate).unwrap_or_default();
        // A process that is killed in the middle counts as a failure: it may be killed each time.
        let mut killed = attempts;
        killed.failed(Failure::Refused, now, (retry, None), self.parts.identity ^ now);
        if let Err(error) = self.folder().put_attempts(certificate, &acme.directory, killed) {
            tracing::error!(%error, folder = %acme.folder.display(), "no certificate is ordered: the folder takes no file");
            self.note(certificate, |state| state.why = format!("acme.folder: {error}"));
            // The folder may be back on another disk.
            self.folder = None;
            return;
        }
        tracing::info!(names, "a certificate is ordered");
        let authority = Authority { acme, client, challenges: &self.parts.challenges };
        let has_wish = self.wishes.get(&certificate.file(&acme.folder)).is_some_and(|it| it.window.is_some());
        let replaced = facts.filter(|_| has_wish && attempts.failures == 0);
        let outcome = authority.order(self.folder(), &certificate.names, replaced, now).await;
        let kept = outcome.and_then(|issued| {
            let unkept = |error: std::io::Error| OrderError::unkept(&error);
            self.folder().put_certificate(certificate, &issued.pem).map_err(unkept)?;
            Ok(issued.facts)
        });
        let why = match kept {
            Ok(facts) => {
                attempts.succeeded(unix_now(), retry, facts.lifetime());
                self.parts.metrics.acme_made.increment();
                tracing::info!(names, not_after = facts.not_after, "a certificate has come");
                String::new()
            }
            Err(error) => {
                let waits = (retry, client.retry_after());
                attempts.failed(error.failure, unix_now(), waits, self.parts.identity ^ now);
                self.parts.metrics.acme_failed.increment();
                let wait_s = attempts.wait_until.saturating_sub(unix_now());
                tracing::error!(names, why = error.why, wait_s, "no certificate has come; the old one stays");
                if error.is_account_gone {
                    self.folder().drop_account(&acme.directory);
                }
                tidy(&error.why)
            }
        };
        debug_assert!(attempts.wait_until >= now, "an order is followed by a wait");
        // The wait is kept before anybody is told of it.
        if let Err(error) = self.folder().put_attempts(certificate, &acme.directory, attempts) {
            tracing::error!(%error, "the time of the next order cannot be kept");
        }
        self.note(certificate, |state| (state.why, state.failures) = (why, attempts.failures));
    }

    /// Changes the state that is told of a certificate.
    fn note(&self, certificate: &AcmeCertificate, change: impl FnOnce(&mut OrderState)) {
        let mut states = self.shared.states.lock();
        let state = states.entry(certificate.file(&self.plan.acme.folder)).or_default();
        change(state);
    }
}

/// Returns the seconds since 1970.
fn unix_now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Longest pause in seconds: the clock may be set meanwhile.
const PAUSE_MAX: u64 = 600;
/// Seconds until the folder is tried again.
const FOLDER_WAIT: u64 = 5;
/// Bounds of the seconds between two questions for the authority's wish (RFC 9773, section 4.3.2).
const WISH_MIN: u64 = 600;
const WISH_MAX: u64 = 86_400;
/// Seconds until a question that was not answered is put again: six hours.
const WISH_FAILED: u64 = 21_600;
