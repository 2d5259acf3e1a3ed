#![no_main]
//! libFuzzer drives [`shoal_fuzz::wire::http2`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| shoal_fuzz::wire::http2(data));
