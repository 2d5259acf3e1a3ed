//! Files of a job: held or missing, then fetched and checked.

use super::job::Job;
use crate::exchange::{CacheHandler, OwnAnswer, OwnFreshness, OwnRequest, own_client};
use crate::message::{Handler, Request};
use http::{Method, StatusCode, Version, header};
use http_body_util::BodyExt;
use shoal_cache::metadata::{PINNED_UNTIL, read_pinned};
use shoal_core::{FieldLines, Fields};
use shoal_mirrors::wanted::{Check, ListCheck, NeededFile};
use shoal_wire::RequestParts;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A file of a job.
pub(super) struct FileTask {
    pub what: String,
    pub place: FilePlace,
    check: Check,
    size: Option<u64>,
    may_lack: bool,
}

/// Place of a file.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum FilePlace {
    /// Path below the mirror of this name.
    Mirror(String, String),
    /// URL, asked for through the listener of this number.
    Url(String, usize),
}

/// End of one try.
enum TryOutcome {
    Fetched(u64),
    Absent,
    Failed(String),
    /// The origin asks for a pause.
    Later(Duration),
}

impl FileTask {
    /// A file below a mirror.
    pub fn at_mirror(what: &str, mirror: &str, file: NeededFile) -> Self {
        let NeededFile { path, check, size, may_lack } = file;
        Self {
            what: what.to_owned(),
            place: FilePlace::Mirror(mirror.to_owned(), path),
            check,
            size,
            may_lack,
        }
    }

    /// A file of a site, or anywhere by forward mode.
    pub fn at_url(what: String, url: String, listener: usize) -> Self {
        let place = FilePlace::Url(url, listener);
        Self { what, place, check: Check::Nothing, size: None, may_lack: false }
    }

    /// Name of the file for the reader.
    fn title(&self) -> String {
        match &self.place {
            FilePlace::Mirror(mirror, path) => format!("{} (/{mirror}{path})", self.what),
            FilePlace::Url(url, _) => url.clone(),
        }
    }

    fn path(&self) -> &str {
        match &self.place {
            FilePlace::Mirror(_, path) | FilePlace::Url(path, _) => path,
        }
    }
}

impl Job {
    /// Counts a file as held or missing.
    pub async fn look_for(&self, file: FileTask) {
        let held = self.ask(&file, OwnFreshness::Stored).await;
        let is_held = held.status == StatusCode::OK;
        if is_held && !self.is_pinned(&held) {
            self.pin(&file).await;
        }
        if is_held && !self.verifies {
            return self.note(|report| report.files.held += 1);
        }
        self.note(|report| match (is_held, file.size) {
            (true, _) => report.files.held += 1,
            (false, size) => {
                report.files.missing += 1;
                report.missing_bytes += size.unwrap_or(0);
                report.missing_unsized += u64::from(size.is_none());
            }
        });
        if is_held {
            return self.verify(file).await;
        }
        self.add_missing(file);
    }

    /// Returns `true` if a held file stays for about the time of the job, or if the job has none.
    fn is_pinned(&self, held: &OwnAnswer) -> bool {
        let Some(until) = self.pinned_until else { return true };
        let own = held.fields.get(PINNED_UNTIL).and_then(|value| read_pinned(value.as_bytes()));
        own.is_some_and(|own| own + PIN_SLACK >= until)
    }

    /// Pins a held file by a validation at the registry.
    async fn pin(&self, file: &FileTask) {
        self.pace.wait().await;
        let answer = self.ask(file, OwnFreshness::Validated).await;
        if answer.status != StatusCode::OK {
            let why = format!("it is held, but not pinned: the answer is {}", answer.status);
            return self.note(|report| report.failures.add(&file.title(), why));
        }
        if let TryOutcome::Failed(why) = self.read(file, answer, |_| ()).await {
            self.note(|report| report.failures.add(&file.title(), why));
        }
    }

    /// Reads a held file and checks it against the list.
    async fn verify(&self, file: FileTask) {
        let answer = self.ask(&file, OwnFreshness::Any).await;
        if let TryOutcome::Failed(why) = self.read(&file, answer, |_| ()).await {
            self.note(|report| report.failures.add(&file.title(), why));
        }
    }

    /// Fetches a missing file.
    pub async fn fetch(&self, file: FileTask) {
        let mut tried = TryOutcome::Failed(String::new());
        for attempt in 0..TRIES {
            self.pace.wait().await;
            let answer = self.ask(&file, OwnFreshness::Any).await;
            tried = self.tried(&file, answer, attempt).await;
            match &tried {
                TryOutcome::Later(pause) => self.pace.pause(*pause),
                _ => break,
            }
        }
        debug_assert!(!matches!(&tried, TryOutcome::Failed(why) if why.is_empty()), "a try has an end");
        let metrics = self.engine.metrics();
        match tried {
            TryOutcome::Fetched(bytes) if self.is_kept(&file).await => {
                metrics.warm_fetched.increment();
                metrics.warm_bytes.add(bytes);
                self.note(|report| report.files.fetched += 1);
            }
            TryOutcome::Absent => self.note(|report| report.files.absent += 1),
            TryOutcome::Fetched(_) => self.fail(&file, NOT_KEPT.to_owned()),
            TryOutcome::Failed(why) => self.fail(&file, why),
            TryOutcome::Later(_) => {
                self.fail(&file, "the registry asks for pauses again and again".to_owned())
            }
        }
    }

    fn fail(&self, file: &FileTask, why: String) {
        self.engine.metrics().warm_failed.increment();
        self.note(|report| {
            report.files.failed += 1;
            report.failures.add(&file.title(), why);
        });
    }

    async fn tried(&self, file: &FileTask, answer: OwnAnswer, attempt: u32) -> TryOutcome {
        match answer.status {
            StatusCode::OK => {
                let count = |bytes| {
                    self.note(|report| report.fetched_bytes += bytes as u64);
                    self.pace.take(bytes);
                };
                self.read(file, answer, count).await
            }
            StatusCode::NOT_FOUND | StatusCode::GONE if file.may_lack => TryOutcome::Absent,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                let said = answer.fields.value(&header::RETRY_AFTER);
                let said = said.and_then(|value| std::str::from_utf8(value).ok()?.trim().parse().ok());
                TryOutcome::Later(Duration::from_secs(said.unwrap_or(1 << attempt)).min(PAUSE_MAX))
            }
            status => TryOutcome::Failed(format!("the answer is {status}")),
        }
    }

    /// Reads a body to its end at the job's pace, and checks it. `count` takes the lengths of its
    /// pieces.
    async fn read(&self, file: &FileTask, answer: OwnAnswer, count: impl Fn(usize) + Send) -> TryOutcome {
        let (mut check, mut bytes, mut body) = (ListCheck::new(&file.check, file.path()), 0_u64, answer.body);
        while let Some(frame) = body.frame().await {
            let frame = match frame {
                Ok(frame) => frame,
                Err(error) => return TryOutcome::Failed(format!("the body broke off: {error}")),
            };
            let Ok(piece) = frame.into_data() else { continue };
            check.push(&piece);
            bytes += piece.len() as u64;
            count(piece.len());
            self.pace.wait().await;
        }
        match check.agrees() {
            true => TryOutcome::Fetched(bytes),
            false => TryOutcome::Failed("its digest is not that of the list".to_owned()),
        }
    }

    /// Returns `true` if the cache has the file. It may come into the index a moment after its last
    /// byte.
    async fn is_kept(&self, file: &FileTask) -> bool {
        for _ in 0..KEPT_TRIES {
            if self.ask(file, OwnFreshness::Stored).await.status == StatusCode::OK {
                return true;
            }
            tokio::time::sleep(KEPT_PAUSE).await;
        }
        false
    }

    async fn ask(&self, file: &FileTask, freshness: OwnFreshness) -> OwnAnswer {
        let pinned_until = self.pinned_until;
        match &file.place {
            FilePlace::Mirror(mirror, path) => {
                self.engine
                    .ask_mirror(OwnRequest { mirror, path, accept: None, freshness, pinned_until })
                    .await
            }
            FilePlace::Url(url, listener) => self.ask_url(url, *listener, freshness).await,
        }
    }

    /// Asks for a URL as a client of this machine.
    async fn ask_url(&self, url: &str, listener: usize, freshness: OwnFreshness) -> OwnAnswer {
        let is_stored = freshness == OwnFreshness::Stored;
        let rest = url.split_once("://").map_or("", |(_, rest)| rest);
        let host = rest.split('/').next().unwrap_or_default();
        let mut fields = vec![
            (b"host".to_vec(), host.as_bytes().to_vec()),
            (b"user-agent".to_vec(), concat!("shoal/", env!("CARGO_PKG_VERSION")).as_bytes().to_vec()),
        ];
        if is_stored {
            fields.push((b"cache-control".to_vec(), b"only-if-cached".to_vec()));
        }
        let fields: FieldLines = fields.into_iter().collect();
        let method = if is_stored { Method::HEAD } else { Method::GET };
        let Ok(uri) = url.parse() else {
            return OwnAnswer::empty(StatusCode::BAD_REQUEST);
        };
        let mut client = own_client(url.starts_with("https:"));
        client.listener = listener;
        let request = Request {
            head: RequestParts { method, uri, version: Version::HTTP_11, fields },
            body: None,
            client: Arc::new(client),
            interim: None,
            received: Instant::now(),
        };
        OwnAnswer::from(CacheHandler(Arc::clone(&self.engine)).handle(request).await)
    }
}

/// Seconds by which a pin may be shorter than that of the job.
const PIN_SLACK: u64 = 3600;
const NOT_KEPT: &str = "it was fetched, but the cache does not keep it";
/// Most requests for one file that is refused for a time.
const TRIES: u32 = 4;
/// Longest pause that a registry gets.
const PAUSE_MAX: Duration = Duration::from_secs(60);
const KEPT_TRIES: u32 = 20;
const KEPT_PAUSE: Duration = Duration::from_millis(50);
