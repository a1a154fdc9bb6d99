//! Bytes of no known format: sniffed, inflated, read, analysed.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use profiler::session_builder::SessionBuilder;
use profiler::source::read_bytes;

fuzz_target!(|bytes: &[u8]| {
    let mut builder = SessionBuilder::default();
    match read_bytes(Path::new("input"), bytes, &mut builder) {
        Ok(()) => tpu_tune_fuzz::analyse(builder.finish()),
        Err(error) => assert!(error.to_string().contains("input"), "{error}"),
    }
});
