//! HLO as text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use profiler::program::parse_module;

fuzz_target!(|bytes: &[u8]| {
    tpu_tune_fuzz::analyse_program(parse_module(&String::from_utf8_lossy(bytes)));
});
