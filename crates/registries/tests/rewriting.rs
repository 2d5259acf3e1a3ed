//! Rewriting a document of ten megabytes holds a small part of it, counted in live bytes: at most
//! one megabyte above the window of 32 KiB.

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use shoal_core::FieldLines;
use shoal_message::{BodyError, StreamBody};
use shoal_mirrors::registries::of;
use shoal_mirrors::{Form, Kind, Mirror};
use shoal_registries::{DerivedBody, read_promise};
use std::fmt::Write as _;
use std::io::Write as _;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

const UPSTREAM: &str = "https://registry.example/simple";
const EXTERNAL: &str = "http://cache.test/m";

/// Most live bytes of a rewriting, above the window.
const ROOM: u64 = 1 << 20;
const WINDOW: u64 = 32 << 10;

/// Bytes that are there already, in frames of 64 KiB.
struct Stored(Bytes);

impl Body for Stored {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let length = self.0.len().min(64 << 10);
        let piece = self.0.split_to(length);
        Poll::Ready((length > 0).then(|| Ok(Frame::data(piece))))
    }
}

fn mirror() -> Mirror {
    Mirror { external: EXTERNAL.into(), upstream: UPSTREAM.into() }
}

/// Returns a document with this number of versions or files.
fn document(form: Form, count: usize) -> String {
    let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let mut text = String::new();
    match form {
        Form::PypiJson => text.push_str(r#"{"meta":{"api-version":"1.1"},"name":"a","files":["#),
        Form::PypiHtml => text.push_str("<!DOCTYPE html><html><body>\n"),
        _ => text.push_str(r#"{"name":"a","dist-tags":{"latest":"1.0.0"},"versions":{"#),
    }
    for number in 0..count {
        let comma = if number > 0 && form != Form::PypiHtml { "," } else { "" };
        let file = format!("a-1.0.{number}");
        let _ = match form {
            Form::PypiJson => write!(
                text,
                "{comma}{{\"filename\":\"{file}.whl\",\"url\":\"https://files.example/p/{file}.whl\",\
                 \"hashes\":{{\"sha256\":\"{digest}\"}},\"upload-time\":\"2024-01-01T00:00:00Z\"}}"
            ),
            Form::PypiHtml => {
                writeln!(
                    text,
                    "<a href=\"https://files.example/p/{file}.whl#sha256={digest}\">{file}.whl</a><br/>"
                )
            }
            _ => write!(
                text,
                "{comma}\"1.0.{number}\":{{\"name\":\"a\",\"version\":\"1.0.{number}\",\"dist\":{{\"tarball\":\
                 \"{UPSTREAM}/a/-/{file}.tgz\",\"shasum\":\"a9993e364706816aba3e25717850c26c9cd0d89d\"}}}}"
            ),
        };
    }
    text.push_str(match form {
        Form::PypiJson => "]}",
        Form::PypiHtml => "</body></html>\n",
        _ => r#"},"time":{"1.0.0":"2024-01-01T00:00:00Z"}}"#,
    });
    text
}

fn gzip(text: &str) -> Vec<u8> {
    let mut coded = GzEncoder::new(Vec::new(), Compression::default());
    coded.write_all(text.as_bytes()).and_then(|()| coded.finish()).expect("memory takes bytes")
}

/// Runs a future that waits for nothing.
fn finish<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the bytes are there"),
    }
}

/// Derives a document and drops each frame. Returns the bytes and the most live ones.
fn derive(kind: Kind, form: Form, stored: &[u8], fields: &FieldLines) -> (u64, u64) {
    let body: StreamBody = Stored(Bytes::copy_from_slice(stored)).boxed_unsync();
    let mut length = 0;
    let counts = allocation_counter::measure(|| {
        let rewriter = of(kind).rewriter(&mirror(), form);
        assert!(rewriter.is_some(), "{form:?} is rewritten");
        let mut derived = DerivedBody::new(body, fields, rewriter).expect("a known coding");
        while let Some(frame) = finish(derived.frame()) {
            length += frame.expect("a sound document").into_data().expect("bytes").len() as u64;
        }
    });
    (length, counts.bytes_max)
}

#[test]
fn rewriting_ten_megabytes_stays_in_its_window() {
    for (kind, form, count) in [
        (Kind::Npm, Form::NpmFull, 64_000),
        (Kind::Npm, Form::NpmShort, 64_000),
        (Kind::Pypi, Form::PypiJson, 60_000),
        (Kind::Pypi, Form::PypiHtml, 95_000),
    ] {
        let text = document(form, count);
        assert!(text.len() > 10 << 20, "{form:?}: {}", text.len());
        let coded = gzip(&text);
        let gzip_field: FieldLines = [("content-encoding", "gzip")].into_iter().collect();
        for (stored, fields) in [(text.as_bytes(), FieldLines::default()), (&coded[..], gzip_field)] {
            let (length, most) = derive(kind, form, stored, &fields);
            assert!(length > 8 << 20, "{form:?}: {length}");
            assert!(most <= WINDOW + ROOM, "{form:?}: {most} live bytes");
            println!("{form:?}: {most} live bytes for {}", stored.len());
        }
    }
}

/// A file's promise is looked up in a document of this size too.
#[test]
fn reading_ten_megabytes_stays_in_its_window() {
    let text = document(Form::NpmFull, 64_000);
    let fields = FieldLines::default();
    let place = shoal_mirrors::Place::Below("/a/-/a-1.0.59999.tgz".into());
    let body: StreamBody = Stored(Bytes::copy_from_slice(text.as_bytes())).boxed_unsync();
    let mut found = None;
    let counts = allocation_counter::measure(|| {
        let promises = of(Kind::Npm).promises(&mirror(), Form::NpmFull, &place).expect("npm promises");
        found = finish(read_promise(body, &fields, promises)).expect("a sound document").0;
    });
    assert!(found.is_some_and(|promise| promise.digest.is_some()));
    assert!(counts.bytes_max <= WINDOW + ROOM, "{} live bytes", counts.bytes_max);
}
