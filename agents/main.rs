//! The `tpu-tune` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    tpu_tune::log::start();
    tpu_tune::cli::run(std::env::args_os())
}
