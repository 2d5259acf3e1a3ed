//! Belady by size: evicts the object that takes the most room for the longest time until its next
//! request.
//!
//! With objects of different sizes the best offline schedule is NP-hard to find (Chrobak,
//! Woeginger, Makino, Xu: "Caching is hard, even in the fault model", ESA 2010). This is the
//! heuristic that Berger, Beckmann, Harchol-Balter call Belady-Size ("Practical bounds on optimal
//! caching with variable object sizes", POMACS 2018). The victim is the object of the greatest size
//! × (time of its next use − now). Objects that are never requested again go first, the largest
//! first. The authors and libCacheSim search a random sample; here the victim is found exactly. The
//! heuristic saves requests, not bytes. It is no bound: a policy may do better. For equal sizes it
//! is Belady's MIN, and no policy beats that.
//!
//! Fits the lab. Every request of the trace must be reported in order, as with
//! [`Belady`](crate::Belady). All values fall with time, those of large objects faster, so no order
//! lasts. A [`Tournament`] knows until when each of its results holds and replays the doubtful
//! ones. O(log n) a request, and O(log² n) amortised for the replayed games.

use crate::next_uses::{NEVER, NextUses};
use crate::queue::{Nodes, Queue};
use crate::replacement::{Fingerprint, Handle, Replacement, Victim};
use shoal_core::Key;
use std::cmp::Ordering;

/// Belady by size. See the file's head.
#[derive(Debug)]
pub struct BeladySize<K = Key> {
    future: NextUses,
    /// Number of the next request.
    now: u32,
    nodes: Nodes<K>,
    /// All present objects; the tournament keeps the order.
    present: Queue,
    tournament: Tournament,
}

impl<K: Fingerprint> BeladySize<K> {
    /// Makes an empty order at the start of a trace.
    pub fn new(future: NextUses) -> Self {
        let (nodes, present) = (Nodes::new(), Queue::new(0));
        Self { future, now: 0, nodes, present, tournament: Tournament::default() }
    }

    /// Records the next use of the current request's object, and advances the time.
    fn set_next_use(&mut self, handle: Handle) {
        let next_use = self.future.after(self.now);
        self.now = self.now.saturating_add(1);
        let size = self.nodes.at(handle).weight().max(1);
        self.tournament.set(handle.0 as usize, Player { size, next_use });
    }

    fn take_out(&mut self, handle: Handle) -> Victim<K> {
        self.present.remove(&mut self.nodes, handle);
        self.tournament.set(handle.0 as usize, Player::ABSENT);
        self.nodes.release(handle)
    }
}

impl<K: Fingerprint> Replacement<K> for BeladySize<K> {
    fn name(&self) -> &'static str {
        "belady_size"
    }

    fn insert(&mut self, key: K, weight: u64) -> Handle {
        let handle = self.nodes.add(key, weight);
        self.present.push_front(&mut self.nodes, handle);
        self.set_next_use(handle);
        handle
    }

    fn hit(&mut self, handle: Handle) {
        if self.nodes.queued(handle).is_some() {
            self.set_next_use(handle);
        }
    }

    fn declined(&mut self, _key: K) {
        self.now = self.now.saturating_add(1);
    }

    fn remove(&mut self, handle: Handle) {
        if self.nodes.queued(handle).is_some() {
            self.take_out(handle);
        }
    }

    fn evict(&mut self) -> Option<Victim<K>> {
        let winner = self.tournament.winner(self.now)?;
        Some(self.take_out(Handle(winner as u32)))
    }

    fn key(&self, handle: Handle) -> Option<K> {
        self.nodes.key(handle)
    }

    fn weight(&self) -> u64 {
        self.present.weight()
    }

    fn len(&self) -> usize {
        self.present.len()
    }

    fn memory_bytes(&self) -> usize {
        self.nodes.memory_bytes() + self.future.memory_bytes() + self.tournament.memory_bytes()
    }
}

/// Search for the greatest value by games in pairs: a binary tree in an array, with the root at 1
/// and the players as leaves.
///
/// A kinetic tournament (Basch, Guibas, Hershberger: "Data structures for mobile data", Journal of
/// Algorithms, 1999).
#[derive(Debug, Default)]
struct Tournament {
    players: Vec<Player>,
    games: Vec<Game>,
}

/// Object as a player.
#[derive(Clone, Copy, Debug)]
struct Player {
    /// Size; 0 for no player.
    size: u64,
    next_use: u32,
}

/// Result of a game, or of the games below it.
#[derive(Clone, Copy, Debug)]
struct Game {
    winner: u32,
    /// First time at which this result, or one below, may no longer hold.
    until: u32,
}

impl Player {
    const ABSENT: Self = Self { size: 0, next_use: 0 };

    /// Returns the value at a time not later than the next use.
    fn value(&self, now: u32) -> i128 {
        i128::from(self.size) * (i128::from(self.next_use) - i128::from(now))
    }

    /// Compares two players by order of eviction. Objects that are never requested again come
    /// before the others, absent players last.
    fn compare(&self, other: &Self, now: u32) -> Ordering {
        let is_done = |player: &Self| player.size > 0 && player.next_use == NEVER;
        is_done(self).cmp(&is_done(other)).then_with(|| self.value(now).cmp(&other.value(now)))
    }

    /// Returns the first time at which `other`, the loser now, may have the greater value.
    fn loses_to(&self, other: &Self) -> u32 {
        if self.next_use == NEVER || other.size >= self.size || other.size == 0 {
            return NEVER;
        }
        // `self` falls faster: s (n − t) < s' (n' − t) for t > (s n − s' n') / (s − s').
        let (size, other_size) = (i128::from(self.size), i128::from(other.size));
        let ahead = size * i128::from(self.next_use) - other_size * i128::from(other.next_use);
        u32::try_from(ahead.div_euclid(size - other_size) + 1).unwrap_or(NEVER)
    }
}

impl Tournament {
    /// Replaces player `at`. The games on the way to the root are doubtful until the next query.
    fn set(&mut self, at: usize, player: Player) {
        if at >= self.players.len() {
            self.players.resize((at + 1).next_power_of_two(), Player::ABSENT);
            self.games = vec![Game { winner: 0, until: 0 }; self.players.len()];
            self.players[at] = player;
            return; // every game is doubtful
        }
        self.players[at] = player;
        let mut game = (at + self.players.len()) / 2;
        while game > 0 {
            self.games[game].until = 0;
            game /= 2;
        }
    }

    /// Returns the player of the greatest value.
    fn winner(&mut self, now: u32) -> Option<usize> {
        if self.players.is_empty() {
            return None;
        }
        let winner = self.play(1, now).winner as usize;
        (self.players[winner].size > 0).then_some(winner)
    }

    /// Returns the result of a game, replayed if doubtful. Recursion is as deep as the tree is
    /// high: at most 32.
    fn play(&mut self, game: usize, now: u32) -> Game {
        let players = self.players.len();
        if game >= players {
            return Game { winner: (game - players) as u32, until: NEVER };
        }
        if self.games[game].until > now {
            return self.games[game];
        }
        let (left, right) = (self.play(2 * game, now), self.play(2 * game + 1, now));
        let (a, b) = (self.players[left.winner as usize], self.players[right.winner as usize]);
        let (winner, loser, first) = match a.compare(&b, now) {
            Ordering::Less => (b, a, right),
            _ => (a, b, left),
        };
        let until = winner.loses_to(&loser).min(left.until).min(right.until);
        self.games[game] = Game { winner: first.winner, until };
        self.games[game]
    }

    fn memory_bytes(&self) -> usize {
        self.players.capacity() * size_of::<Player>() + self.games.capacity() * size_of::<Game>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Belady;
    use crate::testing::{Random, misses, misses_by_weight, name, random_string};

    #[test]
    fn the_victim_is_the_greatest_by_size_and_distance() {
        for seed in 0..20 {
            let string = random_string(seed, 3000);
            let mut random = Random(seed);
            let sizes: Vec<u64> = (0..26).map(|bits| 1 + random.below(1 << (bits % 20))).collect();
            let size = |object: char| sizes[object as usize - 'a' as usize];
            let mut policy = BeladySize::new(NextUses::of(string.iter().map(|object| name(*object))));
            let mut present: Vec<(char, Handle)> = Vec::new();
            for (at, object) in string.iter().copied().enumerate() {
                let distance = |object: char| string[at..].iter().position(|other| *other == object);
                let value =
                    |object: char| distance(object).map_or(size(object) << 40, |d| size(object) * d as u64);
                if let Some((_, handle)) = present.iter().find(|(other, _)| *other == object) {
                    policy.hit(*handle);
                    continue;
                }
                while present.len() >= 9 {
                    let victim = policy.evict().unwrap();
                    let victim = present.iter().position(|(object, _)| name(*object) == victim.key).unwrap();
                    let (victim, _) = present.swap_remove(victim);
                    let best = present.iter().map(|(object, _)| value(*object)).max().unwrap();
                    assert!(value(victim) >= best, "seed {seed}, request {at}");
                }
                present.push((object, policy.insert(name(object), size(object))));
            }
        }
    }

    #[test]
    fn for_equal_sizes_it_misses_as_little_as_min() {
        for seed in 0..20 {
            let string: String = random_string(seed, 1000).iter().collect();
            let future = NextUses::of(string.chars().map(name));
            for room in [1, 3, 9] {
                let min = misses(Belady::new(future.clone()), &string, room);
                assert_eq!(
                    misses(BeladySize::new(future.clone()), &string, room),
                    min,
                    "seed {seed}, room {room}"
                );
            }
        }
    }

    /// Room for ten, of which X takes eight.
    #[test]
    fn misses_match_hand_calculation() {
        let weight = |object: char| if object.is_uppercase() { 8 } else { 1 };
        let requests: Vec<_> = "abXcdcdXab".chars().map(|object| (name(object), weight(object))).collect();
        let future = || NextUses::of(requests.iter().map(|(key, _)| *key));
        // X returns before a and b, so MIN evicts these for c and d, and misses both later.
        assert_eq!(misses_by_weight(Belady::new(future()), &requests, 10), 7);
        // 8 × 4 is more than 1 × 5 and 1 × 6: X leaves for c and d, and replaces them when their
        // last use is over.
        assert_eq!(misses_by_weight(BeladySize::new(future()), &requests, 10), 6);
    }
}
