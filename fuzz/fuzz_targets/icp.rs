#![no_main]
//! libFuzzer drives [`shoal_fuzz::neighbours::icp`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| shoal_fuzz::neighbours::icp(data));
