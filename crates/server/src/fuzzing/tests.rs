//! Plays scripts of any kind: the rules hold, and sound clients are served.

use super::*;
use proptest::prelude::*;

#[test]
fn scripts_are_played_to_their_end() {
    for manner in [0x00, 0x05, 0x0f, 0x4f, 0x3f, 0x7f] {
        // A hit of 70 bytes, 200 bytes from memory, and a body of 300 that is counted and ends.
        http2_connection(&[manner, 0x10, 1, 8, 0x41, 0, 188, 0x02, 0x33, 1, 44]);
        // A request that waits and one that is reset; then a drain and a release.
        http2_connection(&[manner, 0xc2, 0xd2, 0x04, 0x5f, 20, 0x1f, 0x0f]);
        // A hit, a request of an HTTP/1.0 client with keep-alive, a body of 300 bytes, and a body
        // in two chunks.
        http1_connection(&[manner, 0x10, 1, 8, 0x44, 0x05, 1, 44, 0x16, 2, 7, 9]);
        // Bytes that are not a request.
        http1_connection(&[manner, 0x10, 1, 8, 0x1a]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, max_shrink_iters: 500, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_some_connection(data in prop::collection::vec(any::<u8>(), 0..300)) {
        http1_connection(&data);
        http2_connection(&data);
    }

    /// The player checks that a client without a wrong step is never given up.
    #[test]
    fn sound_steps_are_served(
        manner in 0u8..0x80,
        steps in prop::collection::vec((0u8..9, 0u8..16, any::<u16>()), 0..80),
    ) {
        let mut data = vec![manner];
        for (kind, choice, number) in steps {
            data.push(choice << 4 | kind);
            if ![2, 4, 8].contains(&kind) {
                data.extend(number.to_be_bytes());
            }
        }
        http2_connection(&data);
    }
}
