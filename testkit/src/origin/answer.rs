//! What the origin answers, as data: proper responses and improper ones.

use super::gate::Gate;
use crate::fields::Fields;
use std::time::Duration;

/// One thing the origin does while it answers.
#[derive(Clone)]
pub enum Step {
    /// Sends these bytes: of the body, or of a raw answer.
    Send(Vec<u8>),
    /// Waits so long.
    Pause(Duration),
    /// Waits until the gate opens (at most half a minute).
    Await(Gate),
    /// Opens a gate, to tell the test that this point was reached.
    Open(Gate),
    /// Sends back what it receives, until the peer ends.
    Echo,
}

/// How the body's end is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Content-Length, true to the body.
    Length,
    /// Content-Length with this number, true or not.
    Claimed(u64),
    /// Chunked; each sent piece is a chunk.
    Chunked,
    /// By closing the connection.
    Close,
    /// Nothing is added: no head, no Date; the steps are all that is sent.
    Raw,
}

/// How the connection goes on after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// It takes the next request.
    Keep,
    /// It is closed.
    Close,
    /// It is reset.
    Reset,
    /// It stays open, silent, until the peer closes it.
    Stall,
}

/// An answer.
#[derive(Clone)]
pub struct Answer {
    /// Steps before the first byte.
    pub before: Vec<Step>,
    /// Interim responses.
    pub interim: Vec<(u16, Fields)>,
    /// The status.
    pub status: u16,
    /// The fields; `Date` is added unless given or [`Answer::undated`].
    pub fields: Fields,
    /// The body's pieces and the waits between them.
    pub steps: Vec<Step>,
    /// How the body's end is marked.
    pub framing: Framing,
    /// Trailer fields, for chunked bodies.
    pub trailers: Fields,
    /// How the connection goes on.
    pub after: After,
    /// Whether `Date` is added.
    pub dated: bool,
}

impl Answer {
    /// A response with this status and an empty body.
    pub fn new(status: u16) -> Self {
        Self {
            before: Vec::new(),
            interim: Vec::new(),
            status,
            fields: Fields::default(),
            steps: Vec::new(),
            framing: Framing::Length,
            trailers: Fields::default(),
            after: After::Keep,
            dated: true,
        }
    }

    /// 200 with this body.
    pub fn ok(body: impl Into<Vec<u8>>) -> Self {
        Self::new(200).piece(body)
    }

    /// 200 with this body, fresh for so many seconds.
    pub fn fresh(body: impl Into<Vec<u8>>, seconds: u64) -> Self {
        Self::ok(body).field("Cache-Control", &format!("max-age={seconds}"))
    }

    /// Exactly these bytes, then the connection is closed.
    pub fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        let answer = Self { framing: Framing::Raw, after: After::Close, ..Self::new(200) };
        answer.piece(bytes)
    }

    /// Adds a field.
    pub fn field(mut self, name: &str, value: &str) -> Self {
        self.fields.push(name, value);
        self
    }

    /// Adds a piece of the body.
    pub fn piece(self, bytes: impl Into<Vec<u8>>) -> Self {
        self.step(Step::Send(bytes.into()))
    }

    /// Adds a step within the body.
    pub fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// Waits within the body.
    pub fn pause(self, pause: Duration) -> Self {
        self.step(Step::Pause(pause))
    }

    /// Waits within the body until the gate opens.
    pub fn wait_for(self, gate: &Gate) -> Self {
        self.step(Step::Await(gate.clone()))
    }

    /// Waits before the first byte.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.before.push(Step::Pause(delay));
        self
    }

    /// Waits before the first byte until the gate opens.
    pub fn held_by(mut self, gate: &Gate) -> Self {
        self.before.push(Step::Await(gate.clone()));
        self
    }

    /// Sends an interim response first.
    pub fn interim(mut self, status: u16, fields: &[(&str, &str)]) -> Self {
        let fields = fields.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        self.interim.push((status, Fields(fields)));
        self
    }

    /// Marks the body's end so.
    pub fn framed(mut self, framing: Framing) -> Self {
        self.framing = framing;
        self
    }

    /// Adds a trailer field and sends the body chunked.
    pub fn trailer(mut self, name: &str, value: &str) -> Self {
        self.trailers.push(name, value);
        self.framed(Framing::Chunked)
    }

    /// Goes on so after the answer.
    pub fn then(mut self, after: After) -> Self {
        self.after = after;
        self
    }

    /// Leaves `Date` out.
    pub fn undated(mut self) -> Self {
        self.dated = false;
        self
    }

    /// The body, all pieces together.
    pub fn body(&self) -> Vec<u8> {
        let pieces = self.steps.iter().filter_map(|step| match step {
            Step::Send(bytes) => Some(bytes.as_slice()),
            _ => None,
        });
        pieces.collect::<Vec<_>>().concat()
    }
}
