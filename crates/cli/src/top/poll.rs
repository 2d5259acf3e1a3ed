//! Documents of a node, asked for by a thread of their own, so that keys never wait.

use super::order_name;
use super::state::{Document, NodeFacts, Question, TopAnswer, View};
use crate::admin_client::{AdminNode, push_encoded};
use crate::failure::Failure;
use serde::de::DeserializeOwned;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// A thread that asks again and again, until this value is dropped.
pub struct Poller {
    questions: Sender<Option<Question>>,
    answers: Receiver<Result<TopAnswer, String>>,
    thread: JoinHandle<()>,
}

impl Poller {
    /// Starts to ask `first`, and again after each `interval`.
    pub fn start(node: AdminNode, first: Question, interval: Duration) -> Result<Self, Failure> {
        let (questions, asked) = channel();
        let (told, answers) = channel();
        let work = move || poll(&node, first, interval, &asked, &told);
        let spawned = std::thread::Builder::new().name("poll".into()).spawn(work);
        let thread = spawned.map_err(|error| Failure::Runtime(format!("no thread: {error}")))?;
        Ok(Self { questions, answers, thread })
    }

    /// Returns `true` if the thread has ended, which a fault alone makes it do.
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Asks this from now on, at once; `None` asks nothing.
    pub fn ask(&self, question: Option<Question>) {
        // The thread ends with this value alone.
        let _ = self.questions.send(question);
    }

    /// Returns the last answer that has come since the last call.
    pub fn take(&self) -> Option<Result<TopAnswer, String>> {
        self.answers.try_iter().last()
    }
}

fn poll(
    node: &AdminNode,
    first: Question,
    interval: Duration,
    questions: &Receiver<Option<Question>>,
    told: &Sender<Result<TopAnswer, String>>,
) {
    let mut question = Some(first);
    loop {
        if let Some(question) = &question {
            let answer = ask(node, question).map_err(|failure| failure.lines().join("; "));
            if told.send(answer).is_err() {
                return;
            }
        }
        match questions.recv_timeout(interval) {
            // Of several the last one counts.
            Ok(next) => question = questions.try_iter().last().unwrap_or(next),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Asks once.
pub fn ask(node: &AdminNode, question: &Question) -> Result<TopAnswer, Failure> {
    let body = body(node, question)?;
    parsed(question.view, &body).map_err(|error| Failure::Runtime(format!("{node}: {error}")))
}

/// Returns the document as the node sends it.
pub fn body(node: &AdminNode, question: &Question) -> Result<String, Failure> {
    let answer = node.ask("GET", &path(question), "")?;
    match answer.status {
        200 => Ok(answer.body),
        404 => Err(Failure::Runtime(format!("{node} has no dashboard: is it an older shoal?"))),
        status => Err(Failure::Runtime(format!("{node} answers {status}: {}", answer.body.trim()))),
    }
}

fn path(question: &Question) -> String {
    let mut path = format!("/ui/data/{}?by=", question.view.page());
    path.push_str(match question.view {
        View::Objects => order_name(question.sorting),
        _ => "requests",
    });
    if let Some(site) = &question.site {
        path.push_str("&site=");
        push_encoded(&mut path, site);
    }
    debug_assert!(path.bytes().all(|byte| byte.is_ascii_graphic()), "{path:?} is a path");
    path
}

fn parsed(view: View, body: &str) -> Result<TopAnswer, serde_json::Error> {
    fn of<D: DeserializeOwned>(body: &str) -> Result<D, serde_json::Error> {
        serde_json::from_str(body)
    }
    let document = match view {
        View::Now => Document::Now(of(body)?),
        View::Reasons => Document::Reasons(of(body)?),
        View::Origins => Document::Origins(of(body)?),
        View::Objects => Document::Objects(of(body)?),
    };
    Ok(TopAnswer { facts: of::<NodeFacts>(body)?, document })
}

#[cfg(test)]
mod tests {
    use super::super::state::RowOrder;
    use super::*;

    #[test]
    fn questions_are_paths_of_the_dashboard() {
        let question =
            |view, sorting, site: Option<&str>| Question { view, sorting, site: site.map(str::to_owned) };
        assert_eq!(path(&question(View::Now, RowOrder::Bytes, None)), "/ui/data/now?by=requests");
        let objects = question(View::Objects, RowOrder::Time, Some("a.test/"));
        assert_eq!(path(&objects), "/ui/data/objects?by=cost&site=a%2Etest%2F");
    }

    #[test]
    fn documents_are_read_with_their_facts() {
        let body = r#"{"node":"n","version":"1","uptime_s":7,"state":"ready","may_change":true,"unix_ms":5,"origins":[],"others":0}"#;
        let answer = parsed(View::Origins, body).expect("a document");
        assert_eq!(
            (answer.facts.node.as_str(), answer.facts.uptime_s, answer.document.view()),
            ("n", 7, View::Origins)
        );
        for body in ["", "{}", "[1]", "{\"origins\":7}"] {
            assert!(parsed(View::Origins, body).is_err(), "{body}");
        }
    }
}
