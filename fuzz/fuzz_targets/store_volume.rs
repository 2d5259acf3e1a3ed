#![no_main]
//! libFuzzer drives [`shoal_fuzz::store::store_volume`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| shoal_fuzz::store::store_volume(data));
