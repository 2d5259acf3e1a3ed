//! Victims with resident pages: the choice that `fbc_resident` and `lru_resident` share.
//!
//! Maltzahn, Richardson, Grunwald ("Reducing the Disk I/O of Web Proxy Server Caches", USENIX 1999,
//! 3.3) find a replacement cheapest where the target object's page is loaded: nothing is read, and
//! nothing is cleaned to make room for it. Their future work is a "tighter synchronization with the
//! operating system memory management". This is its simplest form: among the first few victims in
//! the policy's own order, take a loaded one. The window bounds the queries to the system and the
//! departure from the order; 1 is the policy itself.

/// Returns the first `resident` candidate among the first `window`, or else the first of all.
/// `None` without candidates.
///
/// O(window) queries. The candidates come in the policy's order, without objects that may not go.
pub fn resident_first<T: Copy>(
    candidates: impl IntoIterator<Item = T>,
    window: usize,
    mut resident: impl FnMut(T) -> bool,
) -> Option<T> {
    let mut candidates = candidates.into_iter().take(window.max(1));
    let first = candidates.next()?;
    if window <= 1 || resident(first) {
        return Some(first);
    }
    Some(candidates.find(|candidate| resident(*candidate)).unwrap_or(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_resident_in_the_window_or_else_the_first() {
        let resident = [false, false, true, false, true];
        for (window, expected) in [(0, 0), (1, 0), (2, 0), (3, 2), (5, 2), (100, 2)] {
            let mut asked = 0;
            let is_resident = |at: usize| {
                asked += 1;
                resident[at]
            };
            assert_eq!(resident_first(0..5, window, is_resident), Some(expected), "window {window}");
            assert!(asked <= window, "window {window}: {asked} questions");
        }
        assert_eq!(resident_first(0..2, 5, |at| resident[at]), Some(0), "none is resident");
        assert_eq!(resident_first(0..0, 5, |at: usize| resident[at]), None);
    }
}
