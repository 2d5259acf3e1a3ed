#![no_main]
//! libFuzzer drives [`shoal_fuzz::settings::file`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| shoal_fuzz::settings::file(data));
