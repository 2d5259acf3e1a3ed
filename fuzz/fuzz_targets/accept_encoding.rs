#![no_main]
//! libFuzzer drives [`shoal_fuzz::semantics::accept_encoding`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| shoal_fuzz::semantics::accept_encoding(data));
