#![no_main]
//! libFuzzer drives [`shoal_fuzz::semantics::cache_control`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| shoal_fuzz::semantics::cache_control(data));
