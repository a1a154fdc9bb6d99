//! `tpu-tune parity` on programs whose relation is known, run by the real JAX on this CPU.

use serde_json::Value;

use super::{Folder, Ran};
use crate::support::peers;

/// `x @ y` of f32.
const MATMUL: &str = r#"module @matmul {
  func.func public @main(%x: tensor<50x96xf32>, %y: tensor<96x30xf32>) -> tensor<50x30xf32> {
    %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<50x96xf32>, tensor<96x30xf32>) -> tensor<50x30xf32>
    return %0 : tensor<50x30xf32>
  }
}
"#;

/// The same, padded to whole tiles and cut again, summed in two halves.
const PADDED: &str = r#"module @padded {
  func.func public @main(%x: tensor<50x96xf32>, %y: tensor<96x30xf32>) -> tensor<50x30xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %xp = stablehlo.pad %x, %zero, low = [0, 0], high = [14, 32], interior = [0, 0] : (tensor<50x96xf32>, tensor<f32>) -> tensor<64x128xf32>
    %yp = stablehlo.pad %y, %zero, low = [0, 0], high = [32, 98], interior = [0, 0] : (tensor<96x30xf32>, tensor<f32>) -> tensor<128x128xf32>
    %xa = stablehlo.slice %xp [0:64, 0:50] : (tensor<64x128xf32>) -> tensor<64x50xf32>
    %xb = stablehlo.slice %xp [0:64, 50:128] : (tensor<64x128xf32>) -> tensor<64x78xf32>
    %ya = stablehlo.slice %yp [0:50, 0:128] : (tensor<128x128xf32>) -> tensor<50x128xf32>
    %yb = stablehlo.slice %yp [50:128, 0:128] : (tensor<128x128xf32>) -> tensor<78x128xf32>
    %a = stablehlo.dot_general %xa, %ya, contracting_dims = [1] x [0] : (tensor<64x50xf32>, tensor<50x128xf32>) -> tensor<64x128xf32>
    %b = stablehlo.dot_general %xb, %yb, contracting_dims = [1] x [0] : (tensor<64x78xf32>, tensor<78x128xf32>) -> tensor<64x128xf32>
    %sum = stablehlo.add %a, %b : tensor<64x128xf32>
    %cut = stablehlo.slice %sum [0:50, 0:30] : (tensor<64x128xf32>) -> tensor<50x30xf32>
    return %cut : tensor<50x30xf32>
  }
}
"#;

/// The same from bf16 operands.
const CAST: &str = r#"module @cast {
  func.func public @main(%x: tensor<50x96xf32>, %y: tensor<96x30xf32>) -> tensor<50x30xf32> {
    %xb = stablehlo.convert %x : (tensor<50x96xf32>) -> tensor<50x96xbf16>
    %yb = stablehlo.convert %y : (tensor<96x30xf32>) -> tensor<96x30xbf16>
    %0 = stablehlo.dot_general %xb, %yb, contracting_dims = [1] x [0] : (tensor<50x96xbf16>, tensor<96x30xbf16>) -> tensor<50x30xf32>
    return %0 : tensor<50x30xf32>
  }
}
"#;

/// A candidate that computes nothing.
const ZEROS: &str = r#"module @zeros {
  func.func public @main(%x: tensor<50x96xf32>, %y: tensor<96x30xf32>) -> tensor<50x30xf32> {
    %0 = stablehlo.constant dense<0.0> : tensor<50x30xf32>
    return %0 : tensor<50x30xf32>
  }
}
"#;

/// `softmax(q k^T, where mask) v`, one head.
const ATTENTION: &str = r#"module @attention {
  func.func public @main(%q: tensor<24x16xf32>, %k: tensor<64x16xf32>, %v: tensor<64x16xf32>, %mask: tensor<24x64xi1>) -> tensor<24x16xf32> {
    %low = stablehlo.constant dense<-1.0e30> : tensor<24x64xf32>
    %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %s = stablehlo.dot_general %q, %k, contracting_dims = [1] x [1] : (tensor<24x16xf32>, tensor<64x16xf32>) -> tensor<24x64xf32>
    %sm = stablehlo.select %mask, %s, %low : tensor<24x64xi1>, tensor<24x64xf32>
    %m = stablehlo.reduce(%sm init: %least) applies stablehlo.maximum across dimensions = [1] : (tensor<24x64xf32>, tensor<f32>) -> tensor<24xf32>
    %mb = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<24xf32>) -> tensor<24x64xf32>
    %d = stablehlo.subtract %sm, %mb : tensor<24x64xf32>
    %e = stablehlo.exponential %d : tensor<24x64xf32>
    %l = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<24x64xf32>, tensor<f32>) -> tensor<24xf32>
    %lb = stablehlo.broadcast_in_dim %l, dims = [0] : (tensor<24xf32>) -> tensor<24x64xf32>
    %p = stablehlo.divide %e, %lb : tensor<24x64xf32>
    %o = stablehlo.dot_general %p, %v, contracting_dims = [1] x [0] : (tensor<24x64xf32>, tensor<64x16xf32>) -> tensor<24x16xf32>
    return %o : tensor<24x16xf32>
  }
}
"#;

/// The same over two halves of the keys, joined by their maxima and sums as flash attention does.
fn chunked() -> String {
    let chunk = |n: usize, from: usize, to: usize| {
        format!(
            r#"    %k{n} = stablehlo.slice %k [{from}:{to}, 0:16] : (tensor<64x16xf32>) -> tensor<32x16xf32>
    %v{n} = stablehlo.slice %v [{from}:{to}, 0:16] : (tensor<64x16xf32>) -> tensor<32x16xf32>
    %c{n} = stablehlo.slice %mask [0:24, {from}:{to}] : (tensor<24x64xi1>) -> tensor<24x32xi1>
    %s{n} = stablehlo.dot_general %q, %k{n}, contracting_dims = [1] x [1] : (tensor<24x16xf32>, tensor<32x16xf32>) -> tensor<24x32xf32>
    %t{n} = stablehlo.select %c{n}, %s{n}, %low : tensor<24x32xi1>, tensor<24x32xf32>
    %m{n} = stablehlo.reduce(%t{n} init: %least) applies stablehlo.maximum across dimensions = [1] : (tensor<24x32xf32>, tensor<f32>) -> tensor<24xf32>
    %b{n} = stablehlo.broadcast_in_dim %m{n}, dims = [0] : (tensor<24xf32>) -> tensor<24x32xf32>
    %d{n} = stablehlo.subtract %t{n}, %b{n} : tensor<24x32xf32>
    %e{n} = stablehlo.exponential %d{n} : tensor<24x32xf32>
    %l{n} = stablehlo.reduce(%e{n} init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<24x32xf32>, tensor<f32>) -> tensor<24xf32>
    %o{n} = stablehlo.dot_general %e{n}, %v{n}, contracting_dims = [1] x [0] : (tensor<24x32xf32>, tensor<32x16xf32>) -> tensor<24x16xf32>
"#
        )
    };
    let weight = |n: usize| {
        format!(
            r#"    %g{n} = stablehlo.subtract %m{n}, %m : tensor<24xf32>
    %w{n} = stablehlo.exponential %g{n} : tensor<24xf32>
    %lw{n} = stablehlo.multiply %l{n}, %w{n} : tensor<24xf32>
    %wb{n} = stablehlo.broadcast_in_dim %w{n}, dims = [0] : (tensor<24xf32>) -> tensor<24x16xf32>
    %ow{n} = stablehlo.multiply %o{n}, %wb{n} : tensor<24x16xf32>
"#
        )
    };
    format!(
        r#"module @chunked {{
  func.func public @main(%q: tensor<24x16xf32>, %k: tensor<64x16xf32>, %v: tensor<64x16xf32>, %mask: tensor<24x64xi1>) -> tensor<24x16xf32> {{
    %low = stablehlo.constant dense<-1.0e30> : tensor<24x32xf32>
    %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
{}{}    %m = stablehlo.maximum %m0, %m1 : tensor<24xf32>
{}{}    %l = stablehlo.add %lw0, %lw1 : tensor<24xf32>
    %lb = stablehlo.broadcast_in_dim %l, dims = [0] : (tensor<24xf32>) -> tensor<24x16xf32>
    %o = stablehlo.add %ow0, %ow1 : tensor<24x16xf32>
    %r = stablehlo.divide %o, %lb : tensor<24x16xf32>
    return %r : tensor<24x16xf32>
  }}
}}
"#,
        chunk(0, 0, 32),
        chunk(1, 32, 64),
        weight(0),
        weight(1)
    )
}

/// Rows of a table by a gather.
const GATHER: &str = r#"module @gather {
  func.func public @main(%table: tensor<50x8xbf16>, %ids: tensor<12xi32>) -> tensor<12x8xbf16> {
    %i = stablehlo.reshape %ids : (tensor<12xi32>) -> tensor<12x1xi32>
    %0 = "stablehlo.gather"(%table, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 8>}> : (tensor<50x8xbf16>, tensor<12x1xi32>) -> tensor<12x8xbf16>
    return %0 : tensor<12x8xbf16>
  }
}
"#;

/// The same as a product with a one-hot: equal for the indices 0 to 49 alone.
const ONE_HOT: &str = r#"module @one_hot {
  func.func public @main(%table: tensor<50x8xbf16>, %ids: tensor<12xi32>) -> tensor<12x8xbf16> {
    %i = stablehlo.broadcast_in_dim %ids, dims = [0] : (tensor<12xi32>) -> tensor<12x50xi32>
    %n = stablehlo.iota dim = 1 : tensor<12x50xi32>
    %e = stablehlo.compare EQ, %i, %n, SIGNED : (tensor<12x50xi32>, tensor<12x50xi32>) -> tensor<12x50xi1>
    %h = stablehlo.convert %e : (tensor<12x50xi1>) -> tensor<12x50xbf16>
    %0 = stablehlo.dot_general %h, %table, contracting_dims = [1] x [0] : (tensor<12x50xbf16>, tensor<50x8xbf16>) -> tensor<12x8xbf16>
    return %0 : tensor<12x8xbf16>
  }
}
"#;

/// A program that gives zeros however it is called.
const NOTHING: &str = r#"module @nothing {
  func.func public @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.subtract %x, %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
"#;

/// The magnitude by its bits: depends on the type.
const BITS: &str = r#"module @bits {
  func.func public @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %mask = stablehlo.constant dense<2147483647> : tensor<8xui32>
    %0 = stablehlo.bitcast_convert %x : (tensor<8xf32>) -> tensor<8xui32>
    %1 = stablehlo.and %0, %mask : tensor<8xui32>
    %2 = stablehlo.bitcast_convert %1 : (tensor<8xui32>) -> tensor<8xf32>
    return %2 : tensor<8xf32>
  }
}
"#;

const ABS: &str = r#"module @abs {
  func.func public @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.abs %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
"#;

/// Runs the command with the peers' Python as the active one.
fn parity(a: &str, b: &str, args: &[&str]) -> Ran {
    let folder = Folder::new();
    folder.write("a.mlir", a.as_bytes());
    folder.write("b.mlir", b.as_bytes());
    let mut all = vec!["parity", "a.mlir", "b.mlir"];
    all.extend(args);
    let mut command = folder.command(&all);
    let python = peers::python();
    let venv = python.parent().and_then(|bin| bin.parent());
    command.env("VIRTUAL_ENV", venv.expect("a virtual environment"));
    command.env_remove("TPU_TUNE_CPU_PLUGIN");
    Ran::from(command.output().expect("the program starts"))
}

fn json(a: &str, b: &str, code: i32) -> Value {
    let ran = parity(a, b, &["--format", "json"]);
    assert_eq!(ran.code, code, "{}{}", ran.out, ran.err);
    let value: Value = serde_json::from_str(&ran.out).expect("JSON");
    value["parity"].clone()
}

/// The furthest that the programs are apart in double precision.
fn apart(parity: &Value) -> f64 {
    let sets = parity["sets"].as_array().expect("sets");
    sets.iter()
        .flat_map(|set| set["results"].as_array().expect("results"))
        .filter_map(|result| result["apart_in_double"].as_f64())
        .fold(0.0, f64::max)
}

#[test]
fn a_padded_matmul_is_within_tolerance() {
    if !peers::installed() {
        return;
    }
    let parity = json(MATMUL, PADDED, 0);
    assert_eq!(parity["verdict"], "within-tolerance");
    assert_eq!(parity["longest_sum"], 96);
    assert!(parity["no_oracle"].is_null());
    assert!(apart(&parity) < 1e-12, "{}", apart(&parity));
    // The same is bit-exact with itself, and with nothing allowed the padded one is not.
    assert_eq!(json(MATMUL, MATMUL, 0)["verdict"], "bit-exact");
    assert_eq!(self::parity(MATMUL, PADDED, &["--tolerance", "0"]).code, 1);
}

#[test]
fn a_cast_to_bf16_changes_the_result_by_rounding_alone() {
    if !peers::installed() {
        return;
    }
    let parity = json(MATMUL, CAST, 1);
    assert_eq!(parity["verdict"], "changes");
    assert_eq!(apart(&parity), 0.0);
    // The other way round nothing is lost.
    assert_eq!(json(CAST, MATMUL, 0)["verdict"], "within-tolerance");
}

#[test]
fn a_candidate_that_computes_nothing_fails() {
    if !peers::installed() {
        return;
    }
    let parity = json(MATMUL, ZEROS, 1);
    assert!(apart(&parity) > 0.5);
    for set in parity["sets"].as_array().expect("sets") {
        let result = &set["results"][0];
        let passes = !result["passing_nulls"]
            .as_array()
            .expect("a list")
            .is_empty();
        assert_eq!(passes, set["regime"] == "zeros", "{set}");
        assert_eq!(result["judged"]["outcome"] != "beyond", passes, "{set}");
    }
}

#[test]
fn attention_in_chunks_is_within_tolerance_under_a_mask() {
    if !peers::installed() {
        return;
    }
    let parity = json(ATTENTION, &chunked(), 0);
    assert_eq!(parity["verdict"], "within-tolerance");
    assert!(apart(&parity) < 1e-9, "{}", apart(&parity));
    // Without the weights that join the halves it is another function.
    let wrong = chunked().replace("%l0, %w0", "%l0, %l0");
    assert_eq!(json(ATTENTION, &wrong, 1)["verdict"], "changes");
}

#[test]
fn integers_select_what_is_there() {
    if !peers::installed() {
        return;
    }
    let parity = json(GATHER, ONE_HOT, 0);
    assert_eq!(parity["ranges"][1]["below"], 50);
    let shifted = ONE_HOT.replace("compare EQ", "compare GE");
    assert_eq!(json(GATHER, &shifted, 1)["verdict"], "changes");
}

#[test]
fn a_program_that_computes_nothing_is_vacuous() {
    if !peers::installed() {
        return;
    }
    let parity = json(NOTHING, NOTHING, 2);
    assert_eq!(parity["verdict"], "vacuous");
    assert_eq!(parity["unproven_results"], serde_json::json!([0]));
}

#[test]
fn a_program_that_looks_at_bits_is_its_own_reference() {
    if !peers::installed() {
        return;
    }
    let parity = json(BITS, ABS, 0);
    assert_eq!(parity["verdict"], "bit-exact");
    let reason = parity["no_oracle"].as_str().expect("a reason");
    assert!(reason.contains("bitcast_convert"), "{reason}");
}

#[test]
fn the_page_says_what_was_run_and_what_differs() {
    if !peers::installed() {
        return;
    }
    let ran = parity(MATMUL, CAST, &["--inputs", "2", "--seed", "7"]);
    for part in [
        "JAX's CPU client",
        "B changes the result",
        "16 of 18 input sets",
        "rounding",
        "scaled down 2",
        "the oracle has",
    ] {
        assert!(ran.out.contains(part), "{part} in\n{}", ran.out);
    }
    let again = parity(MATMUL, CAST, &["--inputs", "2", "--seed", "7"]);
    assert_eq!(ran.out, again.out);
}

#[test]
fn what_cannot_be_compared_exits_with_2_and_says_why() {
    if !peers::installed() {
        return;
    }
    let ran = parity(MATMUL, ABS, &[]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.out.contains("A has 2 arguments, B has 1"),
        "{}",
        ran.out
    );
    let broken = MATMUL.replace("stablehlo.dot_general", "stablehlo.dot_genral");
    let ran = parity(MATMUL, &broken, &[]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("B cannot be run"), "{}", ran.err);
    assert!(ran.err.contains("dot_genral"), "{}", ran.err);
    let large = ABS.replace("tensor<8xf32>", "tensor<100000x100000xf32>");
    let ran = parity(&large, &large, &[]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("smaller dimensions"), "{}", ran.err);
}

#[test]
fn ceilings_cannot_be_raised() {
    let folder = Folder::new();
    for share in ["1.5", "-1", "nan", "inf", "x"] {
        let ran = folder.run(&[
            "parity",
            "a.mlir",
            "b.mlir",
            &format!("--tolerance={share}"),
        ]);
        assert_eq!(ran.code, 2);
        assert!(ran.err.contains("never raised"), "{}", ran.err);
    }
}

#[test]
fn without_a_runner_it_says_how_to_get_one() {
    let folder = Folder::new();
    folder.write("a.mlir", ABS.as_bytes());
    let mut command = folder.command(&["parity", "a.mlir", "a.mlir"]);
    command.env_remove("VIRTUAL_ENV").env("PATH", folder.path());
    let ran = Ran::from(command.output().expect("the program starts"));
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("pip install jax"), "{}", ran.err);
    let ran = folder.run(&["parity", "a.mlir", "a.mlir", "--cpu-plugin", "none.so"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("no CPU PJRT plugin at none.so"),
        "{}",
        ran.err
    );
}
