#![no_main]
//! libFuzzer drives [`shoal_fuzz::cluster::purge_messages`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| shoal_fuzz::cluster::purge_messages(data));
