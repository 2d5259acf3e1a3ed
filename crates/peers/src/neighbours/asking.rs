//! Questions to neighbours that are under way: one round each, first hit wins.

use super::NeighbourEntry;
use shoal_neighbours::waiting::AnswerTimes;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Question of a worker.
pub(super) struct Question {
    pub url: Arc<str>,
    /// Indices of the neighbours to ask.
    pub targets: Vec<usize>,
    pub answer: oneshot::Sender<Findings>,
}

/// Order to tell neighbours that a URL was purged.
pub(super) struct PurgeNotice {
    pub url: Arc<str>,
}

/// Outcome of a round of questions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Neighbour that holds the URL.
    pub hit: Option<usize>,
    /// Neighbour that answered first that it does not.
    pub first_miss: Option<usize>,
}

/// Answer of one neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The neighbour holds the URL.
    Hit,
    /// The neighbour lacks the URL, and may be asked as a parent.
    Miss,
    /// The neighbour does not want to be asked.
    Refused,
}

/// Questions under way, by their numbers.
pub(super) struct Rounds {
    rounds: HashMap<u32, Round>,
    times: Vec<AnswerTimes>,
    /// Neighbours that fell silent (`true`) or answer again, until the log has told of them.
    turns: Vec<(usize, bool)>,
    limit: Duration,
}

struct Round {
    question: Question,
    began: Duration,
    ends: Duration,
    /// Neighbours that have not answered.
    open: Vec<usize>,
    first_miss: Option<usize>,
}

/// Judgement on an answer that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerUse {
    /// The answer was waited for.
    Counted,
    /// The question is over, or was never asked.
    Late,
    /// The answer is about another URL.
    OtherUrl,
}

impl Rounds {
    /// Makes an empty table for this number of neighbours.
    pub fn new(neighbours: usize, limit: Duration) -> Self {
        debug_assert!(!limit.is_zero(), "settings have a least wait");
        Self {
            rounds: HashMap::new(),
            times: vec![AnswerTimes::default(); neighbours],
            turns: Vec::new(),
            limit,
        }
    }

    /// Returns `true` if another question finds a place.
    pub fn has_room(&self) -> bool {
        self.rounds.len() < ROUNDS_MAX
    }

    /// Begins a round under this number. Returns the neighbours to send it to.
    pub fn begin(&mut self, number: u32, mut question: Question, now: Duration) -> Vec<usize> {
        question.targets.retain(|target| self.times[*target].may_ask(now));
        // Nobody waits for neighbours that are down; their answers bring them back.
        let up = question.targets.iter().copied().filter(|target| !self.times[*target].is_down());
        let open: Vec<usize> = up.collect();
        let targets = question.targets.clone();
        let wait = open.iter().map(|target| self.times[*target].wait(self.limit)).max();
        let ends = now + wait.unwrap_or(self.limit);
        if open.is_empty() {
            let (answer, _) = oneshot::channel();
            let _ = std::mem::replace(&mut question.answer, answer).send(Findings::default());
        }
        debug_assert!(!self.rounds.contains_key(&number), "each number once");
        self.rounds.insert(number, Round { question, began: now, ends, open, first_miss: None });
        targets
    }

    /// Returns `true` if a question has this number.
    pub fn is_taken(&self, number: u32) -> bool {
        self.rounds.contains_key(&number)
    }

    /// Takes the answer of the neighbour `from`. `url` is the URL in the answer, if it has one.
    pub fn answered(
        &mut self,
        number: u32,
        from: usize,
        url: Option<&str>,
        verdict: Verdict,
        now: Duration,
    ) -> AnswerUse {
        let Some(round) = self.rounds.get_mut(&number) else { return AnswerUse::Late };
        if url.is_some_and(|url| url != &*round.question.url) {
            return AnswerUse::OtherUrl;
        }
        if !round.question.targets.contains(&from) {
            return AnswerUse::Late;
        }
        debug_assert!(from < self.times.len(), "neighbours are numbered from 0");
        if self.times[from].is_down() {
            self.turns.push((from, false));
        }
        self.times[from].answered(now.saturating_sub(round.began));
        round.question.targets.retain(|target| *target != from);
        round.open.retain(|target| *target != from);
        let findings = Findings {
            hit: (verdict == Verdict::Hit).then_some(from),
            first_miss: round.first_miss.or((verdict == Verdict::Miss).then_some(from)),
        };
        round.first_miss = findings.first_miss;
        if findings.hit.is_some() || round.open.is_empty() {
            let round = self.rounds.remove(&number).expect("it was found");
            let _ = round.question.answer.send(findings);
        }
        AnswerUse::Counted
    }

    /// Ends the rounds with a time that is over. Returns the number of neighbours that were silent.
    pub fn expire(&mut self, now: Duration) -> usize {
        let over: Vec<u32> =
            self.rounds.iter().filter(|(_, round)| now >= round.ends).map(|(number, _)| *number).collect();
        let mut silent = 0;
        for number in over {
            let round = self.rounds.remove(&number).expect("it is in the table");
            for target in &round.question.targets {
                let was_down = self.times[*target].is_down();
                self.times[*target].missed();
                if !was_down && self.times[*target].is_down() {
                    self.turns.push((*target, true));
                }
                silent += 1;
            }
            let _ = round.question.answer.send(Findings { hit: None, first_miss: round.first_miss });
        }
        silent
    }

    /// Returns the neighbours that fell silent (`true`) or answer again, since the last call.
    pub fn take_turns(&mut self) -> Vec<(usize, bool)> {
        debug_assert!(self.turns.iter().all(|(at, _)| *at < self.times.len()), "known neighbours");
        std::mem::take(&mut self.turns)
    }

    /// Returns the time at which the next round ends.
    pub fn next_end(&self) -> Option<Duration> {
        self.rounds.values().map(|round| round.ends).min()
    }
}

/// Returns the neighbour that answers from this address and port.
pub(super) fn sender(
    entries: &[Arc<NeighbourEntry>],
    from: std::net::SocketAddr,
    port: impl Fn(&NeighbourEntry) -> Option<u16>,
) -> Option<usize> {
    entries.iter().position(|entry| entry.is_at(from.ip()) && port(entry) == Some(from.port()))
}

/// Most questions under way.
const ROUNDS_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(2);

    fn ask(
        rounds: &mut Rounds,
        number: u32,
        targets: &[usize],
        now: Duration,
    ) -> oneshot::Receiver<Findings> {
        let (answer, answered) = oneshot::channel();
        let question = Question { url: "http://a/".into(), targets: targets.to_vec(), answer };
        rounds.begin(number, question, now);
        answered
    }

    #[test]
    fn first_hit_ends_the_round() {
        let mut rounds = Rounds::new(3, LIMIT);
        let at = Duration::from_millis;
        let mut findings = ask(&mut rounds, 1, &[0, 1, 2], at(0));
        assert_eq!(rounds.answered(1, 1, Some("http://a/"), Verdict::Miss, at(1)), AnswerUse::Counted);
        assert!(findings.try_recv().is_err());
        assert_eq!(rounds.answered(1, 2, None, Verdict::Hit, at(2)), AnswerUse::Counted);
        assert_eq!(findings.try_recv(), Ok(Findings { hit: Some(2), first_miss: Some(1) }));
        assert_eq!(rounds.answered(1, 0, None, Verdict::Hit, at(3)), AnswerUse::Late);
    }

    #[test]
    fn forged_answers_count_nothing() {
        let mut rounds = Rounds::new(3, LIMIT);
        let mut findings = ask(&mut rounds, 1, &[0, 1], Duration::ZERO);
        let now = Duration::from_millis(1);
        assert_eq!(rounds.answered(2, 0, None, Verdict::Hit, now), AnswerUse::Late, "another number");
        assert_eq!(rounds.answered(1, 2, None, Verdict::Hit, now), AnswerUse::Late, "not asked");
        assert_eq!(rounds.answered(1, 0, Some("http://b/"), Verdict::Hit, now), AnswerUse::OtherUrl);
        assert!(findings.try_recv().is_err());
        rounds.answered(1, 0, None, Verdict::Miss, now);
        assert_eq!(rounds.answered(1, 0, None, Verdict::Hit, now), AnswerUse::Late, "twice");
        rounds.answered(1, 1, None, Verdict::Refused, now);
        assert_eq!(findings.try_recv(), Ok(Findings { hit: None, first_miss: Some(0) }));
    }

    #[test]
    fn silent_neighbours_are_waited_for_no_longer() {
        let mut rounds = Rounds::new(1, LIMIT);
        let mut now = Duration::ZERO;
        for number in 0..8 {
            let mut findings = ask(&mut rounds, number, &[0], now);
            assert!(findings.try_recv().is_err());
            now = rounds.next_end().expect("a round is under way");
            assert_eq!(rounds.expire(now), 1);
            assert_eq!(findings.try_recv(), Ok(Findings::default()));
        }
        assert_eq!(rounds.take_turns(), [(0, true)]);
        let mut findings = ask(&mut rounds, 100, &[0], now);
        assert_eq!(findings.try_recv(), Ok(Findings::default()), "it is down");
        rounds.answered(100, 0, None, Verdict::Miss, now + Duration::from_millis(1));
        assert_eq!(rounds.take_turns(), [(0, false)]);
        let mut findings = ask(&mut rounds, 101, &[0], now + Duration::from_millis(2));
        assert!(findings.try_recv().is_err(), "its answer brought it back");
    }
}
