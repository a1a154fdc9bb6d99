//! `HloProto` and `HloModuleProto`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use profiler::program::read_hlo_proto;

fuzz_target!(|bytes: &[u8]| {
    tpu_tune_fuzz::analyse_program(read_hlo_proto(bytes));
});
