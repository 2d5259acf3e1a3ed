#![no_main]
//! libFuzzer drives [`shoal_fuzz::store::store_index`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| shoal_fuzz::store::store_index(data));
