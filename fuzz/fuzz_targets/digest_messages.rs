#![no_main]
//! libFuzzer drives [`shoal_fuzz::cluster::digest_messages`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| shoal_fuzz::cluster::digest_messages(data));
