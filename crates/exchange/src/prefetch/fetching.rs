//! One prefetch: from the hint to an answer in the cache.

use super::hint::{Hint, HintPlace, UNKNOWN_READER, part_number};
use super::remote::{self, FetchPlace};
use super::state::FetchEnd;
use super::{Prefetcher, now_seconds, observe};
use crate::CacheEngine;
use crate::admit::{AdmitOutcome, may_look_up};
use crate::lookup::Lookup;
use crate::message::{CacheResult, Client, Reply, ReplyHead, Request, StreamBody};
use crate::mirrored::{body_frames, own_client, prefetch_context};
use crate::request::RequestContext;
use crate::settings::ExchangeSettings;
use crate::stored_use::StoredUse;
use crate::upstream::Background;
use http::{Method, StatusCode, Version, header};
use http_body_util::BodyExt;
use shoal_core::{FieldLines, Fields};
use shoal_wire::RequestParts;
use std::sync::Arc;
use std::time::Instant;

/// Reports the end of a fetch, also if its task ends early.
struct EndReport<'a> {
    prefetcher: &'a Prefetcher,
    live: &'a ExchangeSettings,
    hint: Hint,
    end: FetchEnd,
    /// Key that clients may join.
    running: Option<u64>,
}

impl Drop for EndReport<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.running {
            self.prefetcher.running.lock().remove(&key);
            if !matches!(self.end, FetchEnd::Kept { .. }) {
                self.prefetcher.watched.remove(key);
            }
        }
        let end = std::mem::replace(&mut self.end, FetchEnd::Held);
        let settings = &self.live.prefetch;
        self.prefetcher.state.lock().ended(
            &self.hint,
            end,
            settings,
            now_seconds(),
            &self.prefetcher.watched,
        );
        self.prefetcher.wake.notify_one();
    }
}

/// Fetches a hinted answer of at most `allowance` bytes.
pub(super) async fn fetch(engine: &Arc<CacheEngine>, live: &ExchangeSettings, hint: Hint, allowance: u64) {
    debug_assert!(allowance > 0, "nothing is fetched for nothing");
    let prefetcher = &*engine.prefetcher;
    let background = Arc::new(Background::default());
    // From here on the end is reported, also if this task ends early.
    let mut report = EndReport { prefetcher, live, hint, end: FetchEnd::Useless { bytes: 0 }, running: None };
    let Some(ask) = context(engine, &report.hint, &background) else { return };
    if is_held(engine, &ask).await {
        report.end = FetchEnd::Held;
        return;
    }
    // Also after it waited here: the home may give memory by now.
    if let FetchPlace::AtHome = remote::place(engine, &ask, &report.hint).await {
        report.end = FetchEnd::Placed;
        return;
    }
    if engine.fetcher.is_pass(&ask) || engine.fetcher.waits_in_vain(&ask, &ask.primary) {
        return;
    }
    if engine.fetcher.is_resting(&ask) {
        report.end = FetchEnd::Refused { retry_after_seconds: None };
        return;
    }
    if !prefetcher.state.lock().begin_at_origin(&mut report.hint, now_seconds()) {
        report.end = FetchEnd::Waits;
        return;
    }
    let key = watch_key(&ask);
    report.running = Some(key);
    prefetcher.running.lock().insert(key, Arc::clone(&background));
    prefetcher.watched.add(key);
    let began = Instant::now();
    let reply = tokio::select! {
        biased;
        reply = engine.serve(&ask) => reply,
        () = background.given_way() => {
            report.end = FetchEnd::GaveWay { bytes: 0, was_asked: !background.was_turned_away() };
            return;
        }
    };
    let seconds = began.elapsed().as_secs_f64();
    report.end = match judge(&reply, allowance) {
        Judgement::End(end) if background.was_turned_away() => gave_way_instead(end),
        Judgement::End(end) => end,
        Judgement::Keep => {
            if !observe::is_from_peer(&ask, &reply) {
                prefetcher.state.lock().origins.prefetched(report.hint.origin(), seconds, now_seconds());
            }
            // The client that uses the answer becomes their reader, once it is known.
            let reader = report.hint.reader.unwrap_or(UNKNOWN_READER);
            let next = observe::links_of(live, &ask, &reply).into_iter().map(|it| it.read_by(reader));
            let next = next.collect();
            let body = body_frames(reply.body);
            match read(prefetcher, &report.hint, body, allowance, &background).await {
                Ok(bytes) => FetchEnd::Kept { key, bytes, is_wanted: !background.is_unwanted(), next },
                Err(end) => end,
            }
        }
    };
}

/// Outcome of a look at the head.
enum Judgement {
    Keep,
    End(FetchEnd),
}

/// Judges a reply by its head. Only an answer for all clients is kept.
fn judge(reply: &Reply, allowance: u64) -> Judgement {
    let status = reply.head.status();
    if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() {
        let said = retry_after(reply);
        return Judgement::End(FetchEnd::Refused { retry_after_seconds: said });
    }
    let is_shared = matches!(reply.head, ReplyHead::Stored { .. });
    match reply.record.outcome {
        // A client fetches the same already, or has.
        CacheResult::Collapsed | CacheResult::Hit | CacheResult::MemoryHit => Judgement::End(FetchEnd::Held),
        CacheResult::RefreshUnmodified if is_shared => Judgement::Keep,
        _ if is_shared && reply.record.is_stored && length_of(reply).is_none_or(|it| it <= allowance) => {
            Judgement::Keep
        }
        // The origin has sent some of the body before the connection ends.
        _ => Judgement::End(FetchEnd::Useless { bytes: length_of(reply).unwrap_or(SENT_MAX).min(SENT_MAX) }),
    }
}

/// A node without a connection to spare has not heard the origin.
fn gave_way_instead(end: FetchEnd) -> FetchEnd {
    match end {
        FetchEnd::Refused { .. } | FetchEnd::Useless { .. } => {
            FetchEnd::GaveWay { bytes: 0, was_asked: false }
        }
        end => end,
    }
}

/// Bytes that an origin may have sent of a body that nobody reads.
const SENT_MAX: u64 = 128 << 10;

fn length_of(reply: &Reply) -> Option<u64> {
    match &reply.body {
        crate::message::ReplyBody::Stream { length, .. } => *length,
        crate::message::ReplyBody::Memory(bytes) => Some(bytes.len() as u64),
        _ => None,
    }
}

fn retry_after(reply: &Reply) -> Option<f64> {
    let seconds = |value: &[u8]| std::str::from_utf8(value).ok()?.trim().parse::<u32>().ok().map(f64::from);
    match &reply.head {
        ReplyHead::Built(_, fields) => fields.get(header::RETRY_AFTER).and_then(|it| seconds(it.as_bytes())),
        ReplyHead::Relayed(head) => {
            head.lines.to_map().get(header::RETRY_AFTER).and_then(|it| seconds(it.as_bytes()))
        }
        ReplyHead::Stored { stored, .. } => {
            stored.fields().get(header::RETRY_AFTER).and_then(|it| seconds(it.as_bytes()))
        }
    }
}

/// Reads a body to its end, so that it is stored. Returns its length.
async fn read(
    prefetcher: &Prefetcher,
    hint: &Hint,
    mut body: StreamBody,
    allowance: u64,
    background: &Background,
) -> Result<u64, FetchEnd> {
    let mut bytes = 0_u64;
    loop {
        let frame = tokio::select! {
            biased;
            frame = body.frame() => frame,
            () = background.given_way() => return Err(FetchEnd::GaveWay { bytes, was_asked: true }),
        };
        match frame {
            None => return Ok(bytes),
            Some(Err(_)) => return Err(FetchEnd::Useless { bytes }),
            Some(Ok(frame)) => {
                let length = frame.data_ref().map_or(0, |data| data.len() as u64);
                bytes += length;
                prefetcher.state.lock().arrived(hint.account(), length);
                // A body that a client reads too goes on.
                if bytes > allowance && background.give_way() {
                    return Err(FetchEnd::Useless { bytes });
                }
            }
        }
    }
}

/// Returns `true` if a client would get the answer from the cache.
async fn is_held(engine: &Arc<CacheEngine>, ask: &RequestContext) -> bool {
    match engine.cache.lookup(ask).await {
        Lookup::Response { key, stored } => {
            !matches!(engine.fetcher.judge_stored(ask, &key, &stored.head), StoredUse::Forwarded { .. })
        }
        Lookup::Parts { .. } | Lookup::Absent { .. } => false,
    }
}

/// Returns the hash under which clients' requests for the same are recognized.
pub(super) fn watch_key(ask: &RequestContext) -> u64 {
    let whole = ask.primary.hash().low();
    match ask.range().and_then(observe::single_range) {
        Some((first, _)) if !ask.fetches_whole() => part_number(whole, first),
        _ => whole,
    }
}

/// Makes the request of a hint. `None` if this node refuses it: its rules hold for hints too.
pub(super) fn context(
    engine: &Arc<CacheEngine>,
    hint: &Hint,
    background: &Arc<Background>,
) -> Option<Arc<RequestContext>> {
    let mut ask = match &hint.place {
        HintPlace::Mirror { mirror, path } => {
            let accept = hint.fields.iter().find(|(name, _)| &**name == "accept");
            let accept = accept.and_then(|(_, value)| std::str::from_utf8(value).ok());
            prefetch_context(engine, client_of(hint, false), (mirror, path), accept)?
        }
        HintPlace::Url { url, listener, .. } => {
            let head = head(url, hint)?;
            let client = client_of(hint, url.starts_with("https:"));
            let client = Arc::new(Client { listener: *listener, ..client });
            let request = Request { head, body: None, client, interim: None, received: Instant::now() };
            match engine.admit(request) {
                AdmitOutcome::Asked(ask, None, _) => Arc::into_inner(ask)?,
                _ => return None,
            }
        }
    };
    ask.background = Some(Arc::clone(background));
    may_look_up(&ask, || false).then(|| Arc::new(ask))
}

/// Returns the client that a hint is fetched for: its reader, or this node for the operator.
fn client_of(hint: &Hint, tls: bool) -> Client {
    let own = own_client(tls);
    let address = hint.reader.map_or(own.address, |reader| (reader, 0).into());
    debug_assert!(address.port() == 0, "no client's own request");
    Client { address, ..own }
}

fn head(url: &str, hint: &Hint) -> Option<RequestParts> {
    let mut fields = vec![
        (b"host".to_vec(), hint.origin().as_bytes().to_vec()),
        (b"user-agent".to_vec(), concat!("shoal/", env!("CARGO_PKG_VERSION")).as_bytes().to_vec()),
        // Resource Hints: an origin may refuse a request that no user has made.
        (b"sec-purpose".to_vec(), b"prefetch".to_vec()),
    ];
    for (name, value) in &hint.fields {
        fields.retain(|(other, _)| **other != *name.as_bytes());
        fields.push((name.as_bytes().to_vec(), value.to_vec()));
    }
    if let Some((first, last)) = hint.range {
        fields.push((b"range".to_vec(), format!("bytes={first}-{last}").into_bytes()));
    }
    let fields: FieldLines = fields.into_iter().collect();
    debug_assert!(!fields.has(&header::COOKIE) && !fields.has(&header::AUTHORIZATION), "no credentials");
    Some(RequestParts { method: Method::GET, uri: url.parse().ok()?, version: Version::HTTP_11, fields })
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_cooperation::prefetch::HintSource;
    use shoal_settings::{Listen, Settings};

    /// A listener that serves this machine alone.
    #[tokio::test]
    async fn fetch_has_the_rights_of_its_reader() {
        let mut settings = Settings::default();
        settings.log.access = "none".into();
        let allow_clients = Some(vec!["127.0.0.0/8".parse().expect("a network")]);
        settings.listen = vec![Listen { allow_clients, ..Listen::forward(([127, 0, 0, 1], 0).into()) }];
        let engine = crate::tests::exchange(&settings);
        let place = HintPlace::Url { url: "http://a.test/".into(), listener: 0, key: 1, is_site: false };
        let asked = |reader: Option<[u8; 4]>| {
            let reader = reader.map(std::net::IpAddr::from);
            let hint = Hint { reader, ..Hint::new(HintSource::Link, place.clone()) };
            Some(context(&engine, &hint, &Arc::default())?.client.address)
        };
        assert_eq!(asked(None), Some(([127, 0, 0, 1], 0).into()), "the operator's");
        assert_eq!(asked(Some([127, 0, 0, 9])), Some(([127, 0, 0, 9], 0).into()));
        assert_eq!(asked(Some([192, 0, 2, 1])), None, "of a client from elsewhere");
        let of_peer = Hint::new(HintSource::Peer, place.clone()).read_by(UNKNOWN_READER);
        assert!(context(&engine, &of_peer, &Arc::default()).is_none(), "of another node");
    }
}
