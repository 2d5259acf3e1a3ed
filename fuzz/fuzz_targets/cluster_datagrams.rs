#![no_main]
//! libFuzzer drives [`shoal_fuzz::gossip::datagrams`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| shoal_fuzz::gossip::datagrams(data));
