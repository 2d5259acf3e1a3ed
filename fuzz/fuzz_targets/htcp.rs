#![no_main]
//! libFuzzer drives [`shoal_fuzz::neighbours::htcp`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| shoal_fuzz::neighbours::htcp(data));
