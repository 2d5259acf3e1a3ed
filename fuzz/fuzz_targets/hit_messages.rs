#![no_main]
//! libFuzzer drives [`shoal_fuzz::cluster::hit_messages`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| shoal_fuzz::cluster::hit_messages(data));
