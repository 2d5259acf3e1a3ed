#![no_main]
//! libFuzzer drives [`shoal_fuzz::mirrors::registries`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| shoal_fuzz::mirrors::registries(data));
