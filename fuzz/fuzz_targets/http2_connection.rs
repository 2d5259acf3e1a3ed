#![no_main]
//! libFuzzer drives [`shoal_fuzz::http2_connection`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| shoal_fuzz::http2_connection(data));
