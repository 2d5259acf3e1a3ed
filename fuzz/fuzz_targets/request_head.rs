#![no_main]
//! libFuzzer drives [`shoal_fuzz::wire::request_head`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| shoal_fuzz::wire::request_head(data));
