#![no_main]
//! libFuzzer drives [`shoal_fuzz::trace::written`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| shoal_fuzz::trace::written(data));
