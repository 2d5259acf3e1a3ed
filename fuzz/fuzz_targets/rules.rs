#![no_main]
//! libFuzzer drives [`shoal_fuzz::rules::any`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| shoal_fuzz::rules::any(data));
