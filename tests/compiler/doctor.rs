//! What is said where there is no compiler, and which targets there are.

use crate::cli::{Folder, Ran};
use crate::support::peers;

const PROGRAM: &str = "module @m { func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> {\n\
    %0 = stablehlo.tanh %a : tensor<8xf32>\n return %0 : tensor<8xf32> } }";

#[test]
fn without_a_compiler_the_message_says_how_to_get_it() {
    let folder = Folder::new();
    folder.write("p.mlir", PROGRAM.as_bytes());
    let missing = folder.path().display().to_string();
    folder
        .run(&[
            "predict", "p.mlir", "--target", "v6e-1", "--libtpu", &missing,
        ])
        .refused(&["no libtpu at", "--libtpu"]);
    // Neither a Python nor a cache of ours.
    let mut alone = folder.command(&["predict", "p.mlir", "--target", "v6e-1"]);
    alone
        .env_remove("TPU_LIBRARY_PATH")
        .env_remove("VIRTUAL_ENV")
        .env("PATH", folder.path())
        .env("XDG_CACHE_HOME", folder.path());
    Ran::from(alone.output().expect("the program starts"))
        .refused(&["pip install libtpu", "doctor --install-libtpu"]);
}

#[test]
fn targets_that_do_not_exist_are_refused_with_those_that_do() {
    let folder = Folder::new();
    folder.write("p.mlir", PROGRAM.as_bytes());
    folder
        .run(&["predict", "p.mlir", "--target", "v6e-3"])
        .refused(&["v6e-4", "chips"]);
    folder
        .run(&["predict", "p.mlir", "--target", "h100"])
        .refused(&["tpu-tune targets"]);
}

#[test]
fn all_targets_are_known_to_the_compiler() {
    if !peers::installed() {
        return;
    }
    use profiler::chip::Generation;
    use profiler::compiler::target::Target;
    let args = tpu_tune::compiler::CompilerArgs {
        libtpu: Some(peers::libtpu()),
        ..Default::default()
    };
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_tpu-tune")).to_owned();
    let compiler = tpu_tune::compiler::Compiler::with_program(&args, program).expect("libtpu");
    for target in Generation::ALL.into_iter().flat_map(Target::slices) {
        let described = compiler
            .describe(&target)
            .unwrap_or_else(|error| panic!("{target}: {error}"));
        assert_eq!(described.devices, u64::from(target.devices()), "{target}");
    }
}
