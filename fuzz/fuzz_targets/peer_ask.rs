#![no_main]
//! libFuzzer drives [`shoal_fuzz::peers::peer_ask`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| shoal_fuzz::peers::peer_ask(data));
