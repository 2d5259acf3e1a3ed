#![no_main]
//! libFuzzer drives [`shoal_fuzz::hints::messages`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| shoal_fuzz::hints::messages(data));
