//! An `XSpace`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use profiler::session_builder::SessionBuilder;
use profiler::timeline::xplane;

fuzz_target!(|bytes: &[u8]| {
    let mut builder = SessionBuilder::default();
    if xplane::read(bytes, "host", &mut builder).is_ok() {
        tpu_tune_fuzz::analyse(builder.finish());
    }
});
