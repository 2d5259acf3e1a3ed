#![no_main]
//! libFuzzer drives [`shoal_fuzz::wire::proxy_protocol`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| shoal_fuzz::wire::proxy_protocol(data));
