//! Reasons for which requests went to origins: a fixed list, so that labels are bounded.
//!
//! Most are the reasons of Cache-Status, with their tokens: the reason for forwarding a request
//! (RFC 9211, section 2.2), or for not storing its response. Three more are for requests that have
//! neither.

use shoal_semantics::status_fields::{ForwardReason, Reason};

/// Reason for which a request went to its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissReason {
    /// The reason for forwarding the request.
    Forward(ForwardReason),
    /// The reason for not storing the response.
    Storing(Reason),
    /// The request switched protocols.
    Upgrade,
    /// The origin gave no usable response.
    Error,
    /// Another reason.
    Other,
}

impl MissReason {
    /// Number of reasons.
    pub const COUNT: usize = FORWARDS + DETAILS + OWN.len();

    /// Returns every reason, in the order of their numbers.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).map(Self::from_number)
    }

    /// Returns the number of the reason, below [`MissReason::COUNT`].
    pub const fn number(self) -> usize {
        let number = match self {
            Self::Forward(reason) => reason as usize,
            Self::Storing(reason) => FORWARDS + reason as usize,
            Self::Upgrade => FORWARDS + DETAILS,
            Self::Error => FORWARDS + DETAILS + 1,
            Self::Other => FORWARDS + DETAILS + 2,
        };
        assert!(number < Self::COUNT, "numbers are dense");
        number
    }

    /// Returns the reason with this number, [`MissReason::Other`] for an unknown one.
    pub fn from_number(number: usize) -> Self {
        if let Some(reason) = ForwardReason::ALL.get(number) {
            return Self::Forward(*reason);
        }
        let number = number - FORWARDS;
        match Reason::ALL.get(number) {
            Some(reason) => Self::Storing(*reason),
            None => OWN.get(number - DETAILS).copied().unwrap_or(Self::Other),
        }
    }

    /// Returns the token for labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Forward(reason) => reason.as_str(),
            Self::Storing(reason) => reason.as_str(),
            Self::Upgrade => "upgrade",
            Self::Error => "error",
            Self::Other => "other",
        }
    }

    /// Returns the meaning in a sentence.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Forward(reason) => reason.meaning(),
            Self::Storing(reason) => reason.meaning(),
            Self::Upgrade => "The request switched protocols.",
            Self::Error => "The origin gave no usable response.",
            Self::Other => "Another reason.",
        }
    }

    /// Returns the settings that would change the outcome; empty if there are none.
    pub const fn settings(self) -> &'static [&'static str] {
        match self {
            Self::Forward(reason) => reason.settings(),
            Self::Storing(reason) => reason.settings(),
            Self::Upgrade | Self::Error | Self::Other => &[],
        }
    }
}

impl From<Reason> for MissReason {
    fn from(reason: Reason) -> Self {
        match reason {
            // One token has one reason, so that it is one label.
            Reason::Method => Self::Forward(ForwardReason::Method),
            Reason::Request => Self::Forward(ForwardReason::Request),
            reason => Self::Storing(reason),
        }
    }
}

impl From<ForwardReason> for MissReason {
    fn from(reason: ForwardReason) -> Self {
        Self::Forward(reason)
    }
}

/// Reasons without a reason of Cache-Status, in the order of their numbers.
const OWN: [MissReason; 3] = [MissReason::Upgrade, MissReason::Error, MissReason::Other];
const FORWARDS: usize = ForwardReason::ALL.len();
const DETAILS: usize = Reason::ALL.len();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_back() {
        for (number, reason) in MissReason::all().enumerate() {
            assert_eq!(reason.number(), number, "{reason:?}");
        }
        assert_eq!(MissReason::from_number(MissReason::COUNT), MissReason::Other);
        assert_eq!(MissReason::from_number(255), MissReason::Other);
    }

    #[test]
    fn tokens_of_reasons_differ() {
        let forwards = ForwardReason::ALL.iter().map(|reason| MissReason::from(*reason));
        let details = Reason::ALL.iter().map(|reason| MissReason::from(*reason));
        let all: Vec<_> = forwards.chain(details).chain(OWN).collect();
        for (one, other) in all.iter().flat_map(|one| all.iter().map(move |other| (one, other))) {
            assert_eq!(one == other, one.as_str() == other.as_str(), "{one:?}, {other:?}");
        }
    }

    #[test]
    fn reasons_of_cache_status_keep_their_token() {
        for reason in Reason::ALL {
            assert_eq!(MissReason::from(*reason).as_str(), reason.as_str(), "{reason:?}");
        }
        for reason in ForwardReason::ALL {
            assert_eq!(MissReason::from(*reason).as_str(), reason.as_str(), "{reason:?}");
        }
    }

    #[test]
    fn own_reasons_stand_in_the_docs() {
        let docs = include_str!("../../../../docs/OPERATING.md");
        for reason in OWN {
            assert!(docs.contains(&format!("`{}`: {}", reason.as_str(), reason.meaning())), "{reason:?}");
        }
    }
}
