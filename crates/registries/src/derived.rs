//! The form of a document for one client, derived from the stored one while it streams.

use super::inflated::{DocumentCoding, Inflater};
use crate::message::{BodyError, StreamBody};
use bytes::Bytes;
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use shoal_core::Fields;
use shoal_mirrors::{BadDocument, Facts, Place, Promise, Promises, Rewriter, Survey};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// A document that is decoded and rewritten as it streams. It holds one frame of the stored
/// document and about [`FRAME`] bytes of the new one.
pub struct DerivedBody {
    source: StreamBody,
    input: Bytes,
    inflater: Inflater,
    rewriter: Option<Box<dyn Rewriter + Send>>,
    is_ended: bool,
}

impl DerivedBody {
    /// Derives from a document with these fields. Without a rewriter it is decoded only. `None` if
    /// its coding is not known.
    pub fn new(
        source: StreamBody,
        fields: &impl Fields,
        rewriter: Option<Box<dyn Rewriter + Send>>,
    ) -> Option<Self> {
        let inflater = Inflater::of(DocumentCoding::of(fields))?;
        Some(Self { source, input: Bytes::new(), inflater, rewriter, is_ended: false })
    }

    /// Takes pieces of the input until a frame is full.
    fn work(&mut self, output: &mut Vec<u8>) -> Result<(), BodyError> {
        let Self { input, inflater, rewriter, .. } = self;
        while !input.is_empty() && output.len() < FRAME {
            let step = if matches!(inflater, Inflater::Plain(_)) { FRAME } else { CODED_STEP };
            let piece = input.split_to(step.min(input.len()));
            debug_assert!(!piece.is_empty(), "each turn takes something");
            inflater.push(&piece, |plain| rewrite(rewriter, plain, output))?;
        }
        Ok(())
    }

    fn end(&mut self, output: &mut Vec<u8>) -> Result<(), BodyError> {
        debug_assert!(self.input.is_empty() && !self.is_ended, "the end comes once, after all bytes");
        self.is_ended = true;
        let Self { inflater, rewriter, .. } = self;
        inflater.finish(|plain| rewrite(rewriter, plain, output))?;
        rewriter.as_mut().map_or(Ok(()), |rewriter| rewriter.finish(output)).map_err(malformed)
    }
}

impl Body for DerivedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let mut output = Vec::new();
        while !self.is_ended && output.is_empty() {
            if self.input.is_empty() {
                match ready!(Pin::new(&mut self.source).poll_frame(context)) {
                    Some(Ok(frame)) => self.input = frame.into_data().unwrap_or_default(),
                    Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                    None => {
                        if let Err(error) = self.end(&mut output) {
                            return Poll::Ready(Some(Err(error)));
                        }
                    }
                }
            }
            if let Err(error) = self.work(&mut output) {
                self.is_ended = true;
                return Poll::Ready(Some(Err(error)));
            }
        }
        Poll::Ready((!output.is_empty()).then(|| Ok(Frame::data(output.into()))))
    }
}

fn rewrite(
    rewriter: &mut Option<Box<dyn Rewriter + Send>>,
    plain: &[u8],
    output: &mut Vec<u8>,
) -> Result<(), BodyError> {
    match rewriter {
        Some(rewriter) => rewriter.push(plain, output).map_err(malformed),
        None => {
            output.extend_from_slice(plain);
            Ok(())
        }
    }
}

/// Reads a document with these fields to its end, for a promise in it.
///
/// # Errors
/// If the document is cut or malformed.
pub async fn read_promise(
    mut body: StreamBody,
    fields: &impl Fields,
    mut promises: Box<dyn Promises + Send>,
) -> Result<(Option<Promise>, Option<Place>), BodyError> {
    let mut inflater = Inflater::of(DocumentCoding::of(fields)).ok_or(BodyError::Malformed(CODING))?;
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            inflater.push(&data, |plain| promises.push(plain).map_err(malformed))?;
        }
    }
    inflater.finish(|plain| promises.push(plain).map_err(malformed))?;
    let promise = promises.finish().map_err(malformed)?;
    Ok((promise, promises.place()))
}

/// Reads the versions and times of a document with these fields.
///
/// # Errors
/// If the document is cut or malformed.
pub async fn read_survey(
    mut body: StreamBody,
    fields: &impl Fields,
    mut survey: Box<dyn Survey + Send>,
) -> Result<Facts, BodyError> {
    let coding = DocumentCoding::of(fields);
    let mut inflater = Inflater::of(coding).ok_or(BodyError::Malformed(CODING))?;
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            inflater.push(&data, |plain| survey.push(plain).map_err(malformed))?;
        }
    }
    inflater.finish(|plain| survey.push(plain).map_err(malformed))?;
    survey.finish().map_err(malformed)
}

pub(super) fn malformed(bad: BadDocument) -> BodyError {
    BodyError::Malformed(bad.why)
}

/// Bytes of a frame, about.
const FRAME: usize = 32 << 10;
/// Coded bytes taken at a time.
const CODED_STEP: usize = 1000;
const CODING: &str = "a document in a coding that was not asked for";
