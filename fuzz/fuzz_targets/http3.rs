#![no_main]
//! libFuzzer drives [`shoal_fuzz::http3::http3`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| shoal_fuzz::http3::http3(data));
