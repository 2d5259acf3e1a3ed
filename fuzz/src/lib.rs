//! What parsers and recovery must withstand.
#![forbid(unsafe_code)]
