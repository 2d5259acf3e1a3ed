//! Guests' actions from any bytes: one byte for all guests, then steps.
//!
//! The lower three bits of a step's first byte are its kind, the others choose the guest. Every
//! requested response is stored and stays fresh, or is requested only from the cache. Replies
//! therefore do not depend on earlier requests.

use super::origin::{PATHS, TAG};
use crate::server::fuzzing::input::Input;

/// Actions of several guests.
pub(super) struct Row {
    /// Number of guests.
    pub guests: usize,
    /// The kernel takes only few bytes of a reply at once.
    pub has_small_buffers: bool,
    /// Guests end their half after their last bytes.
    pub ends: bool,
    pub steps: Vec<Step>,
}

/// One step of a row.
#[derive(Debug)]
pub(super) enum Step {
    /// A guest gets a request, which it sends at its next turn.
    Ask(usize, Ask),
    /// All guests send their bytes; then the server has its turn.
    Turn,
    /// One guest sends this number of bytes; then the server has its turn.
    Cut(usize, usize),
    /// One guest stops reading, or starts again.
    Deafen(usize),
}

/// Request of a guest.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    method: &'static str,
    target: String,
    host: &'static str,
    fields: String,
}

impl Row {
    /// Decodes a row from bytes.
    pub fn read(data: &[u8]) -> Self {
        let mut input = Input::new(data);
        let manner = input.byte().unwrap_or_default();
        let guests = usize::from(manner & 31) + 1;
        let (has_small_buffers, ends) = (manner & 0x20 != 0, manner & 0x40 != 0);
        let mut row = Self { guests, has_small_buffers, ends, steps: Vec::new() };
        while row.steps.len() < STEPS_MAX && row.read_step(&mut input).is_some() {}
        row
    }

    fn read_step(&mut self, input: &mut Input) -> Option<()> {
        let step = input.byte()?;
        let guest = usize::from(step >> 3) % self.guests;
        match step & 7 {
            0..4 => self.steps.push(Step::Ask(guest, Ask::read(input)?)),
            4 => self.steps.push(Step::Turn),
            5 => self.steps.push(Step::Cut(guest, input.number()? % CUT_MAX)),
            6 => self.steps.push(Step::Deafen(guest)),
            _ => {
                let ask = Ask::read(input)?;
                self.steps.extend((0..self.guests).map(|guest| Step::Ask(guest, ask.clone())));
                self.steps.push(Step::Turn);
            }
        }
        Some(())
    }

    /// Returns the requests of each guest that are answered: none after a request that closes.
    pub fn asked(&self) -> Vec<Vec<&Ask>> {
        let mut asked: Vec<Vec<&Ask>> = vec![Vec::new(); self.guests];
        for step in &self.steps {
            if let Step::Ask(guest, ask) = step
                && asked[*guest].last().is_none_or(|ask| !ask.is_last())
            {
                asked[*guest].push(ask);
            }
        }
        asked
    }
}

impl Ask {
    fn read(input: &mut Input) -> Option<Self> {
        let choice = input.byte()?;
        let path = PATHS[usize::from(choice & 15)].path;
        let mut ask = Self { method: "GET", target: path.into(), host: "a.test", fields: String::new() };
        match usize::from(choice >> 4) {
            0 => {}
            1 => ask.host = "A.test",
            2 => ask.host = "a.test:80",
            3 => ask.method = "HEAD",
            4 => ask.fields = format!("If-None-Match: \"none\", {TAG}\r\n"),
            5 => ask.fields = format!("Range: bytes={}-{}\r\n", input.number()?, input.number()?),
            6 => ask.fields = format!("Range: bytes=0-1, -{}\r\nIf-Range: {TAG}\r\n", input.number()? % 9),
            7 => {
                (ask.target, ask.fields) =
                    (format!("/none{path}"), "Cache-Control: only-if-cached\r\n".into());
            }
            8 => ask.fields = format!("If-None-Match: {}\r\n", text(&input.some())),
            9 => ask.fields = format!("Range: {}\r\n", text(&input.some())),
            10 => ask.fields = format!("User-Agent: {}\r\n", text(&input.some())),
            chosen => ask.fields = FIELDS[chosen - 11].into(),
        }
        Some(ask)
    }

    /// Returns the bytes of the request.
    pub fn words(&self) -> Vec<u8> {
        let Self { method, target, host, fields } = self;
        format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n").into_bytes()
    }

    /// Returns the request for the ordinary path: with an unknown connection option.
    pub fn ordinary_words(&self) -> Vec<u8> {
        let fields = format!("{}Connection: x-nothing\r\n", self.fields);
        Self { fields, ..self.clone() }.words()
    }

    /// Returns `true` if the connection ends with this request's reply.
    pub fn is_last(&self) -> bool {
        self.fields == CLOSE
    }
}

/// Returns text that is valid in a field value.
fn text(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(b' ' + byte % 95)).collect()
}

/// Fields of the requests.
const FIELDS: [&str; 5] = [
    "Accept-Encoding: gzip\r\nReferer: http://r.test/\r\nCookie: a=b\r\n",
    "Connection: keep-alive\r\n",
    "If-Modified-Since: Mon, 01 Jan 2024 00:00:00 GMT\r\n",
    "Cache-Control: max-stale\r\n",
    CLOSE,
];

const CLOSE: &str = "Connection: close\r\n";

/// Maximum number of steps in a row.
const STEPS_MAX: usize = 150;

/// Maximum number of bytes sent by a cut.
const CUT_MAX: usize = 200;
