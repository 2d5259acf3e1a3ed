#![no_main]
//! libFuzzer drives [`shoal_fuzz::trace::columns`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| shoal_fuzz::trace::columns(data));
