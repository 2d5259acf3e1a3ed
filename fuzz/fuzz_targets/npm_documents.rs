#![no_main]
//! libFuzzer drives [`shoal_fuzz::mirrors::npm_documents`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| shoal_fuzz::mirrors::npm_documents(data));
