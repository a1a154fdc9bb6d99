//! Programs that the compiler refuses or dies of leave the pool as it was.

use std::path::Path;
use std::thread;

use profiler::compiler::options::CompileOptions;
use profiler::compiler::program_file::ProgramFile;
use profiler::compiler::target::Target;
use tpu_tune::compiler::error::CompileError;
use tpu_tune::compiler::{Compiler, CompilerArgs};

use crate::support::peers;

fn compiler(args: CompilerArgs) -> Option<Compiler> {
    if !peers::installed() {
        return None;
    }
    let args = CompilerArgs {
        libtpu: Some(peers::libtpu()),
        no_cache: true,
        ..args
    };
    let program = Path::new(env!("CARGO_BIN_EXE_tpu-tune")).to_owned();
    Some(Compiler::with_program(&args, program).expect("libtpu is there"))
}

fn function(argument: &str, body: &str, result: &str) -> String {
    format!(
        "module @m {{ func.func public @main(%a: tensor<{argument}>) -> tensor<{result}> {{\n\
         {body}\n return %0 : tensor<{result}> }} }}"
    )
}

fn good() -> String {
    function(
        "8x128xf32",
        "%0 = stablehlo.tanh %a : tensor<8x128xf32>",
        "8x128xf32",
    )
}

/// What is wrong, the program, and a word of the error.
fn broken() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let text = |text: String| text.into_bytes();
    vec![
        (
            "an operation that does not exist",
            text(function(
                "8xf32",
                "%0 = stablehlo.addd %a, %a : tensor<8xf32>",
                "8xf32",
            )),
            "stablehlo.addd",
        ),
        (
            "types that do not fit",
            text(function(
                "8x4xf32",
                "%0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>",
                "8x4xf32",
            )),
            "contracting",
        ),
        (
            "a custom call that nobody knows",
            text(function(
                "8xf32",
                "%0 = stablehlo.custom_call @no_such_target(%a) : (tensor<8xf32>) -> tensor<8xf32>",
                "8xf32",
            )),
            "no_such_target",
        ),
        ("no main", text(good().replace("@main", "@other")), "main"),
        (
            "a text that ends in the middle",
            text(good()[..90].to_owned()),
            "error",
        ),
        (
            "bytecode of nothing",
            b"ML\xefR\x0dStableHLO_v1.0.0\x00\x07".to_vec(),
            "",
        ),
        (
            "more than all memory",
            text(function(
                "65536x65536xf32",
                "%0 = stablehlo.tanh %a : tensor<65536x65536xf32>",
                "65536x65536xf32",
            )),
            "32.00G",
        ),
        (
            "shapes that are not known before it runs: the compiler aborts",
            text(function(
                "?xf32",
                "%0 = stablehlo.tanh %a : tensor<?xf32>",
                "?xf32",
            )),
            "aborted (SIGABRT)",
        ),
    ]
}

fn compile(compiler: &Compiler, code: &[u8]) -> Result<(), CompileError> {
    let program = ProgramFile::of_bytes(code).expect("looks like a program");
    let target = Target::parse("v5e-1").expect("a target");
    compiler
        .compile(&program, &target, &CompileOptions::default())
        .map(|_| ())
}

/// Open files of this process: pipes to workers among them.
fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

#[test]
fn a_hundred_broken_programs_are_a_hundred_errors_and_no_more() {
    let Some(compiler) = compiler(CompilerArgs::default()) else {
        return;
    };
    compile(&compiler, good().as_bytes()).expect("a good program");
    let before = open_files();
    let broken = broken();
    let errors: Vec<(usize, CompileError)> = thread::scope(|scope| {
        let compiler = &compiler;
        let broken = &broken;
        let ask = |half: usize| {
            scope.spawn(move || {
                let mine = (0..100).filter(|index| index % 2 == half);
                mine.map(|index| {
                    let (what, code, _) = &broken[index % broken.len()];
                    let error = compile(compiler, code).expect_err(what);
                    (index, error)
                })
                .collect::<Vec<_>>()
            })
        };
        let halves = [ask(0), ask(1)];
        halves
            .into_iter()
            .flat_map(|half| half.join().expect("no thread panics"))
            .collect()
    });
    assert_eq!(errors.len(), 100);
    for (index, error) in errors {
        let (what, _, word) = &broken[index % broken.len()];
        assert!(error.to_string().contains(word), "{what}: {error}");
    }
    compile(&compiler, good().as_bytes()).expect("the pool is as it was");
    assert!(
        open_files() <= before + 3,
        "{} open files, {before} before",
        open_files()
    );
    // Each abort costs a process, and a second one where it was not fresh; nothing else does.
    let aborts = (0..100)
        .filter(|index| index % broken.len() == broken.len() - 1)
        .count();
    let started = compiler.pool().started() as usize;
    assert!(
        started <= compiler.pool().size() + 2 * aborts,
        "{started} processes"
    );
}

#[test]
fn a_program_that_takes_too_long_or_too_much_is_stopped() {
    let long = function(
        "2048x4096xbf16",
        "%0 = stablehlo.tanh %a : tensor<2048x4096xbf16>",
        "2048x4096xbf16",
    );
    let impatient = CompilerArgs {
        compile_timeout: 0,
        ..CompilerArgs::default()
    };
    let Some(compiler) = compiler(impatient) else {
        return;
    };
    let error = compile(&compiler, long.as_bytes()).expect_err("no time at all");
    assert!(matches!(error, CompileError::TimedOut { .. }), "{error}");
    let small = CompilerArgs {
        compile_memory_gib: Some(1),
        ..CompilerArgs::default()
    };
    let error = self::compiler(small)
        .map(|compiler| compile(&compiler, long.as_bytes()).expect_err("no memory"))
        .expect("the peers are there");
    assert!(
        matches!(
            error,
            CompileError::TooMuchMemory { .. } | CompileError::Start { .. }
        ),
        "{error}"
    );
}
