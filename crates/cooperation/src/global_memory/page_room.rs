//! Decision of a memory server about a page: the memory that the page replaces, or none.
//!
//! GMS replaces the globally oldest page (Feeley et al., SOSP 1995). A server with free memory
//! gives that. Otherwise it gives the older of two: its own objects, or the oldest pages of others.
//! A page that is older than both is declined. Pages of others have a limit, beyond which they
//! replace each other alone. O(1).

use std::time::Duration;

/// Memory of a server, as a page finds it.
#[derive(Clone, Copy, Debug)]
pub struct PageRoom {
    /// Most bytes of other nodes' pages.
    pub most: u64,
    /// Bytes of other nodes' pages.
    pub held: u64,
    /// Free bytes.
    pub free: u64,
    /// Age of the own object that would be given up next.
    pub own_age: Duration,
    /// Age of the oldest page of another node; `None` if there is none.
    pub oldest_guest: Option<Duration>,
}

/// Memory that a page replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoomChoice {
    /// Free memory.
    Free,
    /// Objects of the server itself.
    Own,
    /// The oldest pages of other nodes.
    Guests,
    /// None: all memory is younger.
    Declined,
}

impl PageRoom {
    /// Returns the limit of other nodes' pages in a memory of these bytes: seven eighths.
    pub fn most_of(limit: u64) -> u64 {
        limit / GUESTS_DENOMINATOR * GUESTS_NUMERATOR
    }

    /// Decides on a page of this weight and age.
    pub fn choose(&self, weight: u64, age: Duration) -> RoomChoice {
        let is_full = self.held.saturating_add(weight) > self.most;
        if !is_full && self.free >= weight {
            return RoomChoice::Free;
        }
        if !is_full && age < self.own_age {
            return RoomChoice::Own;
        }
        match self.oldest_guest {
            Some(oldest) if oldest > age => RoomChoice::Guests,
            _ => RoomChoice::Declined,
        }
    }

    /// Returns the age of the memory that a page would replace, for the server's report.
    pub fn next_age(&self, slack: u64) -> Duration {
        let is_full = self.held.saturating_add(slack) > self.most;
        self.oldest_guest.filter(|_| is_full).unwrap_or(self.own_age)
    }
}

/// Share of the memory that other nodes' pages take at most.
const GUESTS_NUMERATOR: u64 = 7;
const GUESTS_DENOMINATOR: u64 = 8;

const _: () = assert!(GUESTS_NUMERATOR < GUESTS_DENOMINATOR);

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn oldest_memory_makes_room() {
        let room = PageRoom {
            most: PageRoom::most_of(800),
            held: 300,
            free: 100,
            own_age: seconds(50),
            oldest_guest: Some(seconds(60)),
        };
        assert_eq!(room.choose(100, seconds(1000)), RoomChoice::Free);
        assert_eq!(room.choose(101, seconds(49)), RoomChoice::Own);
        assert_eq!(room.choose(101, seconds(50)), RoomChoice::Guests);
        assert_eq!(room.choose(101, seconds(60)), RoomChoice::Declined);
        assert_eq!(room.next_age(100), seconds(50));
        let full = PageRoom { held: 650, ..room };
        assert_eq!(full.choose(100, seconds(49)), RoomChoice::Guests, "own objects keep an eighth");
        assert_eq!(full.next_age(100), seconds(60));
        assert_eq!(PageRoom { oldest_guest: None, ..full }.choose(100, seconds(1)), RoomChoice::Declined);
    }
}
