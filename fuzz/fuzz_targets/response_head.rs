#![no_main]
//! libFuzzer drives [`shoal_fuzz::wire::response_head`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| shoal_fuzz::wire::response_head(data));
