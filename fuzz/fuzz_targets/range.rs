#![no_main]
//! libFuzzer drives [`shoal_fuzz::semantics::range`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| shoal_fuzz::semantics::range(data));
