#![no_main]
//! libFuzzer drives [`shoal_fuzz::lists::any`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| shoal_fuzz::lists::any(data));
