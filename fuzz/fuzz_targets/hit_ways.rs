#![no_main]
//! libFuzzer drives [`shoal_fuzz::hit_ways`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| shoal_fuzz::hit_ways(data));
