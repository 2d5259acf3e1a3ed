#![no_main]
//! libFuzzer drives [`shoal_fuzz::dashboard::history`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| shoal_fuzz::dashboard::history(data));
