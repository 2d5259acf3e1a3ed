//! Aggressive's decision about a victim: the page that goes for a page that is prefetched.
//!
//! Voelker 2000, section 4.2.2: a page on disk is fetched into global memory if it will be needed
//! earlier than a page that is there; the page needed last of all goes for it. A node decides that
//! when it begins a request, not when the request arrives. By then the page may have lost its
//! worth, or the memory its room. A free frame has the value [`Value::NEVER`], so that one
//! comparison covers both. O(1).

use super::Value;

/// Decision of a node about a page that it was asked to fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VictimDecision {
    /// The page takes a free frame.
    Free,
    /// The page takes the place of the node's least valuable page, of this value.
    Replace(Value),
    /// Every page of the node is worth as much, or more: nothing is fetched.
    Refuse,
}

impl VictimDecision {
    /// Decides for a page of value `page`, where the node's least valuable page has the value
    /// `least`; `None` where a frame is free.
    pub fn of(page: Value, least: Option<Value>) -> Self {
        match least {
            None => Self::Free,
            Some(least) if least < page => Self::Replace(least),
            Some(_) => Self::Refuse,
        }
    }

    /// Returns the value that is given up; `None` if the page is refused.
    pub fn given_up(self) -> Option<Value> {
        match self {
            Self::Free => Some(Value::NEVER),
            Self::Replace(least) => Some(least),
            Self::Refuse => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_page_goes_for_sooner_one() {
        let (soon, late) = (Value::until(1.0), Value::until(9.0));
        for (page, least, expected) in [
            (soon, Some(late), VictimDecision::Replace(late)),
            (late, Some(soon), VictimDecision::Refuse),
            (soon, Some(soon), VictimDecision::Refuse),
            (late, None, VictimDecision::Free),
            (Value::NEVER, Some(Value::NEVER), VictimDecision::Refuse),
        ] {
            assert_eq!(VictimDecision::of(page, least), expected, "{page:?} for {least:?}");
        }
        assert_eq!(VictimDecision::Free.given_up(), Some(Value::NEVER));
        assert_eq!(VictimDecision::Refuse.given_up(), None);
    }
}
