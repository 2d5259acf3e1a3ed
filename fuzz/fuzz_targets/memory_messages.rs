#![no_main]
//! libFuzzer drives [`shoal_fuzz::cluster::memory_messages`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| shoal_fuzz::cluster::memory_messages(data));
