//! Lines for the error log about nodes that come, change and go.

use shoal_cooperation::{Member, MemberState, NodeId, View};

/// Line about a change of members.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChangeLine {
    /// Normal event.
    Info(String),
    /// Event that an operator may want to look into.
    Warning(String),
}

impl ChangeLine {
    /// Writes the line to the log.
    pub(super) fn log(&self) {
        match self {
            Self::Info(line) => tracing::info!("{line}"),
            Self::Warning(line) => tracing::warn!("{line}"),
        }
    }
}

/// Returns the lines for the changes from one view to the next, some at most.
pub(super) fn lines(before: &View, after: &View, own: NodeId) -> Vec<ChangeLine> {
    let here = |view: &View| view.members().iter().filter(|member| is_here(member)).count();
    let came = after.members().iter().filter_map(|now| came(before.member(now.id), now, own));
    let gone = |was: &&Member| is_here(was) && after.member(was.id).is_none_or(|now| !is_here(now));
    let went = before.members().iter().filter(gone).filter(|was| was.id != own).map(|was| match was.state {
        // A node that is stopped in order drains first.
        MemberState::Draining => ChangeLine::Info(format!("node {} at {} has left", was.name, was.address)),
        _ => ChangeLine::Warning(format!(
            "node {} at {} is out: it stopped or is not reached",
            was.name, was.address
        )),
    });
    let mut lines: Vec<_> = came.chain(went).collect();
    if lines.len() > LINES_MAX {
        let more = lines.len() - LINES_MAX;
        lines.truncate(LINES_MAX);
        lines.push(ChangeLine::Info(format!(
            "and {more} more changes: `shoal cluster status` lists the members"
        )));
    }
    let is_alone = here(after) == 1 && after.member(own).is_some_and(is_here);
    if here(before) > 1 && is_alone {
        let line =
            "no other node of the cluster is reached: this node serves alone, and asks cluster.join again";
        lines.push(ChangeLine::Warning(line.into()));
    }
    lines
}

/// Returns the line about a member that came or has another state.
fn came(was: Option<&Member>, now: &Member, own: NodeId) -> Option<ChangeLine> {
    let was = was.filter(|was| is_here(was));
    if !is_here(now) || was.is_some_and(|was| (was.state, was.life) == (now.state, now.life)) {
        return None;
    }
    let mut line = match now.id == own {
        true => "this node is ".to_owned(),
        false => format!("node {} at {} is ", now.name, now.address),
    };
    match (now.state, was) {
        (MemberState::Draining, _) => line.push_str("draining: home of no object"),
        (MemberState::Joining, _) => line.push_str("joining"),
        // The first view has this node in it.
        (MemberState::In, Some(was)) if now.id == own && was.state == MemberState::In => return None,
        (MemberState::In, Some(was)) if was.life != now.life => {
            line.push_str("in the cluster after a new start")
        }
        (MemberState::In, _) => line.push_str("in the cluster"),
        (MemberState::Out, _) => return None,
    }
    Some(ChangeLine::Info(line))
}

fn is_here(member: &Member) -> bool {
    member.state != MemberState::Out
}

/// Most lines about one change of the view.
const LINES_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_core::KeySecret;

    fn view(members: &[(&str, MemberState, u64)]) -> View {
        let member = |&(name, state, life): &(&str, MemberState, u64)| Member {
            id: NodeId::named(name),
            name: name.into(),
            address: ([127, 0, 0, 1], 3131).into(),
            weight: 1.0,
            state,
            life,
            level: 0,
        };
        View::new(members.iter().map(member).collect(), KeySecret::NONE)
    }

    fn texts(before: &[(&str, MemberState, u64)], after: &[(&str, MemberState, u64)]) -> Vec<String> {
        let lines = lines(&view(before), &view(after), NodeId::named("own"));
        let text = |line: ChangeLine| match line {
            ChangeLine::Info(line) => format!("INFO {line}"),
            ChangeLine::Warning(line) => format!("WARN {line}"),
        };
        lines.into_iter().map(text).collect()
    }

    #[test]
    fn coming_and_going_has_a_line_each() {
        use MemberState::{Draining, In, Out};
        let (own, b) = (("own", In, 1), ("b", In, 1));
        assert_eq!(texts(&[own], &[own, b]), ["INFO node b at 127.0.0.1:3131 is in the cluster"]);
        assert_eq!(texts(&[own, b], &[own, b]), [""; 0]);
        let again = texts(&[own, b], &[own, ("b", In, 2)]);
        assert_eq!(again, ["INFO node b at 127.0.0.1:3131 is in the cluster after a new start"]);
        let drained = texts(&[own, b], &[("own", Draining, 1), b]);
        assert_eq!(drained, ["INFO this node is draining: home of no object"]);
        for gone in [texts(&[own, b], &[own]), texts(&[own, b], &[own, ("b", Out, 1)])] {
            assert_eq!(gone.len(), 2, "{gone:?}");
            assert!(gone[0].starts_with("WARN node b at 127.0.0.1:3131 is out"), "{gone:?}");
            assert!(gone[1].contains("serves alone"), "{gone:?}");
        }
        let left = texts(&[own, ("b", Draining, 1), ("c", In, 1)], &[own, ("c", In, 1)]);
        assert_eq!(left, ["INFO node b at 127.0.0.1:3131 has left"], "it had been drained");
        assert_eq!(texts(&[own, b], &[("own", In, 2), b]), [""; 0], "a new life of this node is no news");
    }

    #[test]
    fn many_changes_make_few_lines() {
        let names: Vec<String> = (0..100).map(|number| format!("n{number}")).collect();
        let all: Vec<_> = names.iter().map(|name| (name.as_str(), MemberState::In, 1)).collect();
        let lines = texts(&[], &all);
        assert_eq!(lines.len(), LINES_MAX + 1);
        assert!(lines[LINES_MAX].contains("92 more"), "{lines:?}");
    }
}
