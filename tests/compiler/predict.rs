//! `predict`, `compare`, `what-if` and `kernels` as a user runs them, with the real compiler.

use serde_json::Value;

use crate::cli::{Folder, Ran};
use crate::support::peers;

/// An output matrix with an odd vocabulary, whose logits leave the program.
fn logits(batch: u32, vocabulary: u32) -> String {
    format!(
        "module @jit_logits {{\n  func.func public @main(%arg0: tensor<{batch}x255x512xbf16>, %arg1: tensor<512x{vocabulary}xbf16>) -> tensor<{batch}x255x{vocabulary}xbf16> {{\n    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [2] x [0] : (tensor<{batch}x255x512xbf16>, tensor<512x{vocabulary}xbf16>) -> tensor<{batch}x255x{vocabulary}xbf16>\n    return %0 : tensor<{batch}x255x{vocabulary}xbf16>\n  }}\n}}\n"
    )
}

/// A folder with two programs, or none where the compiler is not installed.
fn folder() -> Option<Folder> {
    peers::installed().then(|| {
        let folder = Folder::new();
        folder.write("odd.mlir", logits(4, 3001).as_bytes());
        folder.write("even.mlir", logits(4, 3072).as_bytes());
        folder
    })
}

fn run(folder: &Folder, args: &[&str]) -> Ran {
    let mut command = folder.command(args);
    command
        .env("TPU_LIBRARY_PATH", peers::libtpu())
        .env("XDG_CACHE_HOME", folder.path().join("cache"));
    Ran::from(command.output().expect("the program starts"))
}

#[test]
fn a_prediction_says_that_it_is_one_and_how_sure() {
    let Some(folder) = folder() else { return };
    let target = ["--target", "v6e-4"];
    let text = run(&folder, &[&["predict", "odd.mlir"][..], &target].concat()).ok();
    for words in [
        "predicted, not measured",
        "libtpu 0.0.",
        "median error",
        "Device memory as the compiler planned it",
        "Arg_1",
    ] {
        assert!(text.contains(words), "no {words:?} in {text}");
    }
    let json = ["predict", "odd.mlir", "--format", "json"];
    let report = run(&folder, &[&json[..], &target].concat()).json();
    assert_eq!(report["origin"], "predicted");
    let step = report["steps"]["time"]["median_ms"].as_f64();
    // 12.5 GFLOP and 12.3 MB of logits: 14 us and 7 us at the peaks.
    let us = step.expect("a step") * 1e3;
    assert!((14.0..60.0).contains(&us), "{us} us");
}

#[test]
fn what_does_not_fit_is_told_by_how_much_and_by_which_buffers() {
    let Some(folder) = folder() else { return };
    folder.write("huge.mlir", logits(4096, 30_000).as_bytes());
    run(&folder, &["predict", "huge.mlir", "--target", "v5e-1"]).refused(&[
        "huge.mlir does not fit in HBM of v5e-1",
        "too much",
        "bf16[4096,255,30000]",
        "the compiler says",
    ]);
}

#[test]
fn what_was_compiled_once_is_read_without_the_compiler() {
    let Some(folder) = folder() else { return };
    let emit = ["predict", "odd.mlir", "--target", "v6e-1", "--emit", "hlo"];
    run(&folder, &[&emit[..], &["-o", "odd.hlo.pb"]].concat()).ok();
    let again = folder.command(&["predict", "odd.hlo.pb", "--target", "v6e-1"]);
    let mut again = again;
    again.env("PATH", "").env_remove("TPU_LIBRARY_PATH");
    let text = Ran::from(again.output().expect("the program starts")).ok();
    assert!(text.contains("predicted, not measured"), "{text}");
}

#[test]
fn two_programs_are_compared_with_the_band_of_their_ratio() {
    let Some(folder) = folder() else { return };
    let args = ["compare", "odd.mlir", "even.mlir", "--target", "v6e-1"];
    let found = run(&folder, &[&args[..], &["--format", "json"]].concat()).json();
    let ratio = |name: &str| found["ratio"][name].as_f64().expect("a number");
    assert!(ratio("low") < ratio("ratio") && ratio("ratio") < ratio("high"));
    let bytes = |side: &str| found[side]["memory"]["output_bytes"].as_u64();
    assert!(bytes("before") > Some(4 * 255 * 3001 * 2));
    let text = run(&folder, &args).ok();
    assert!(text.contains("90 % band"), "{text}");
}

#[test]
fn a_change_is_compiled_and_reported_only_where_it_pays() {
    let Some(folder) = folder() else { return };
    let args = ["what-if", "odd.mlir", "--target", "v6e-1"];
    let found = run(&folder, &[&args[..], &["--format", "json"]].concat()).json();
    let changes = found["changes"].as_array().expect("changes");
    assert!(!changes.is_empty());
    assert!(
        changes.iter().all(|change| change["error"].is_null()),
        "{found}"
    );
    let paying: Vec<&Value> = changes
        .iter()
        .filter(|change| change["ratio"]["high"].as_f64() < Some(1.0))
        .collect();
    let report = ["predict", "odd.mlir", "--target", "v6e-1", "--what-if"];
    let report = run(&folder, &[&report[..], &["--format", "json"]].concat()).json();
    let findings = report["findings"].as_array().expect("findings");
    let reported = findings.iter().filter(|finding| finding["code"] == "TT901");
    assert_eq!(reported.count(), paying.len(), "{found}");
    let even = ["what-if", "even.mlir", "--target", "v6e-1"];
    let even = run(&folder, &[&even[..], &["--format", "json"]].concat()).json();
    let sizes = even["changes"].as_array().expect("changes").iter();
    // 3072 and 512 fill tiles: only the 255 is left to try.
    assert!(
        sizes.clone().all(|change| {
            let words = change["change"].as_str().unwrap_or_default();
            words.contains("255")
        }),
        "{even}"
    );
}

#[test]
fn kernels_are_ranked_by_their_final_schedule() {
    if !peers::installed() {
        return;
    }
    let folder = Folder::new();
    let programs = crate::support::fixture("programs/pallas");
    let path = |blocks: &str| {
        let path = programs.join(format!("matmul_2048_{blocks}.mlir"));
        path.display().to_string()
    };
    let [small, large] = [path("256x256x256"), path("1024x1024x512")];
    let args = [
        "kernels", &small, &large, "--target", "v6e-1", "--format", "json",
    ];
    let found = run(&folder, &args).json();
    let place = |index: usize| found["kernels"][index]["place"].as_u64();
    assert_eq!((place(0), place(1)), (Some(2), Some(1)), "{found}");
    let slots = &found["kernels"][1]["schedule"]["slot_use"][0];
    assert!(slots.as_f64() > Some(0.5), "the MXU is busy: {slots}");
    run(
        &Folder::new(),
        &["kernels", "nothing.mlir", "--target", "v6e-1"],
    )
    .refused(&["nothing.mlir"]);
}
