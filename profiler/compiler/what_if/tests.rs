//! Small programs and whole twins, changed.
#![expect(clippy::unwrap_used, reason = "a test ends where a value is missing")]

use std::io::Read as _;

use super::*;
use crate::program::stablehlo::parse;

/// A decoder's sizes by the fixture's name.
fn twin(name: &str) -> String {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../tests/fixtures/programs/twins/"
    );
    let bytes = std::fs::read(format!("{path}{name}.mlir.gz")).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(bytes.as_slice())
        .read_to_string(&mut text)
        .unwrap();
    text
}

/// The argument and axis of `@main` that has dimension `size` in both.
fn resize(value: &str, axis: usize, from: i64, to: i64) -> Resize {
    Resize {
        dimension: Dimension::of_main(value, axis),
        from,
        to,
    }
}

/// Types and numbers, constants left out: their values are not rewritten.
fn comparable(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|l| !l.contains("stablehlo.constant"));
    lines.map(str::to_owned).collect()
}

fn same_program(changed: &str, twin: &str) {
    let (changed, twin) = (comparable(changed), comparable(twin));
    assert_eq!(changed.len(), twin.len());
    for (a, b) in changed.iter().zip(&twin) {
        assert_eq!(a, b);
    }
}

fn arguments(text: &str) -> Vec<(String, Vec<i64>)> {
    let module = parse(text);
    let values = &module.main().unwrap().body.arguments;
    let sizes = |v: &ValueId| {
        let value = module.value(*v);
        let dims = &value.tensor.as_ref().unwrap().dims;
        (
            value.name.clone(),
            dims.iter().map(|d| d.size.unwrap()).collect(),
        )
    };
    values.iter().map(sizes).collect()
}

/// The candidates of one size, by that size.
fn single(text: &str) -> Vec<(i64, i64, Change)> {
    let found = candidates(&parse(text), Tiles::default());
    let mut out = Vec::new();
    for candidate in found {
        if let Change::Resize(resizes) = &candidate.change
            && resizes.iter().all(|r| r.from == resizes[0].from)
        {
            out.push((resizes[0].from, resizes[0].to, candidate.change.clone()));
        }
    }
    out
}

#[test]
fn a_resized_program_is_the_twin_that_was_exported_with_that_size() {
    for framework in ["jax", "torch"] {
        let odd = twin(&format!("decoder_odd.{framework}"));
        for (from, _, change) in single(&odd) {
            let name = match from {
                50257 => "vocab_50304",
                1023 => "seq_1024",
                1200 => "width_1280",
                100 => "head_dim_128",
                other => panic!("{other}"),
            };
            let changed = apply(&odd, &change).unwrap();
            same_program(&changed, &twin(&format!("decoder_{name}.{framework}")));
        }
    }
}

#[test]
fn candidates_name_the_odd_dimensions_and_nothing_in_the_even_model() {
    for framework in ["jax", "torch"] {
        let odd = twin(&format!("decoder_odd.{framework}"));
        let mut sizes: Vec<_> = single(&odd)
            .into_iter()
            .map(|(from, to, _)| (from, to))
            .collect();
        sizes.sort_unstable();
        assert_eq!(
            sizes,
            [(100, 128), (1023, 1024), (1200, 1280), (50257, 50304)]
        );
        let found = candidates(&parse(&odd), Tiles::default());
        let Change::Resize(heads) = &found[3].change else {
            panic!("{:?}", found[3])
        };
        assert!(heads.len() <= 2, "queries with keys, and values: {heads:?}");
        // Four alone, six pairs, all; queries, keys and values as one matmul, gate and up.
        assert_eq!(found.len(), 13);
        for candidate in &found {
            apply(&odd, &candidate.change).unwrap();
        }
        let even = twin(&format!("decoder_even.{framework}"));
        let found = candidates(&parse(&even), Tiles::default());
        assert!(
            found
                .iter()
                .all(|c| matches!(c.change, Change::MergeMatmuls { .. })),
            "{found:?}"
        );
    }
}

#[test]
fn a_weight_that_is_transposed_at_use_is_stored_the_other_way() {
    for framework in ["jax", "torch"] {
        let text = twin(&format!("experts_out_in_1280.{framework}"));
        let found = candidates(&parse(&text), Tiles::default());
        // Both weights together, then each.
        assert_eq!(found.len(), 3, "{framework}: {found:?}");
        assert!(matches!(&found[0].change, Change::Together(both) if both.len() == 2));
        let changed = apply(&text, &found[0].change).unwrap();
        let wanted = arguments(&twin(&format!("experts_in_out_1280.{framework}")));
        assert_eq!(arguments(&changed), wanted);
        assert!(!changed.contains("%restored"));
    }
}

const SMALL: &str = r#"module {
  func.func public @main(%arg0: tensor<4x6xf32> {jax.buffer_donor = true}, %arg1: tensor<6x10xf32>) -> (tensor<4x2x5xf32> {jax.result_info = "r"}, tensor<6x10xf32>) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x6xf32>, tensor<6x10xf32>) -> tensor<4x10xf32>
    %1 = stablehlo.reshape %0 : (tensor<4x10xf32>) -> tensor<4x2x5xf32>
    %2 = stablehlo.negate %arg1 : tensor<6x10xf32>
    return %1, %2 : tensor<4x2x5xf32>, tensor<6x10xf32>
  }
}
"#;

#[test]
fn padding_in_the_graph_keeps_the_signature_and_pays() {
    let change = Change::PadInGraph(vec![resize("%arg0", 1, 6, 8), resize("%1", 2, 5, 8)]);
    let changed = apply(SMALL, &change).unwrap();
    assert_eq!(arguments(&changed), arguments(SMALL));
    for line in [
        "func.func private @padded(%arg0: tensor<4x8xf32> , %arg1: tensor<8x16xf32>)",
        "%grown1 = stablehlo.pad %arg1, %zero1, low = [0, 0], high = [2, 6], interior = [0, 0] : (tensor<6x10xf32>, tensor<f32>) -> tensor<8x16xf32>",
        "%cut0 = stablehlo.slice %called#0 [0:4, 0:2, 0:5] : (tensor<4x2x8xf32>) -> tensor<4x2x5xf32>",
        "return %cut0, %cut1 : tensor<4x2x5xf32>, tensor<6x10xf32>",
        "%arg0: tensor<4x6xf32> {jax.buffer_donor = true}",
    ] {
        assert!(changed.contains(line), "{line}\n{changed}");
    }
}

#[test]
fn a_reader_that_needs_the_old_order_gets_it_back() {
    let changed = apply(
        SMALL,
        &Change::StoreSwapped {
            argument: 1,
            axes: (0, 1),
        },
    )
    .unwrap();
    for line in [
        "%arg1: tensor<10x6xf32>",
        "contracting_dims = [1] x [1]",
        "(tensor<4x6xf32>, tensor<10x6xf32>) -> tensor<4x10xf32>",
        "%restored = stablehlo.transpose %arg1, dims = [1, 0] : (tensor<10x6xf32>) -> tensor<6x10xf32>",
        "%2 = stablehlo.negate %restored : tensor<6x10xf32>",
    ] {
        assert!(changed.contains(line), "{line}\n{changed}");
    }
}

#[test]
fn a_matmul_of_another_type_converts_its_operands() {
    let of = |element: &str| {
        apply(
            SMALL,
            &Change::MatmulType {
                line: 3,
                element: element.to_owned(),
            },
        )
        .unwrap()
    };
    let bf16 = of("bf16");
    assert!(
        bf16.contains(
            "%narrow3_0 = stablehlo.convert %arg0 : (tensor<4x6xf32>) -> tensor<4x6xbf16>"
        )
    );
    assert!(bf16.contains("(tensor<4x6xbf16>, tensor<6x10xbf16>) -> tensor<4x10xf32>"));
    let i8 = of("i8");
    assert!(i8.contains("%wide3 = stablehlo.dot_general %narrow3_0, %narrow3_1"));
    assert!(i8.contains("(tensor<4x6xi8>, tensor<6x10xi8>) -> tensor<4x10xi32>"));
    assert!(i8.contains("%0 = stablehlo.convert %wide3 : (tensor<4x10xi32>) -> tensor<4x10xf32>"));
}

#[test]
fn what_cannot_be_changed_says_where_and_why() {
    let of = |text: &str, change: &Change| apply(text, change).unwrap_err().to_string();
    let merged = Change::Resize(vec![resize("%arg1", 1, 10, 11)]);
    assert_eq!(
        of(SMALL, &merged),
        "cannot be rewritten here: `stablehlo.reshape` at line 4 splits 10 into 2 x 5, and neither can make 11"
    );
    let unknown = SMALL.replace("stablehlo.negate", "other.thing");
    assert_eq!(
        of(&unknown, &Change::Resize(vec![resize("%arg1", 0, 6, 8)])),
        "cannot be rewritten here: `other.thing` at line 5 ties its dimensions in a way that is not known here"
    );
    let other = Change::Resize(vec![resize("%arg0", 1, 7, 8)]);
    assert!(of(SMALL, &other).contains("dimension 1 of %arg0 is 6, not 7"));
    let absent = Change::Resize(vec![resize("%nothing", 1, 7, 8)]);
    assert!(of(SMALL, &absent).contains("%nothing"));
    assert_eq!(apply("", &other), Err(WhatIfError::NoFunction));
    let both = vec![resize("%arg0", 1, 6, 8), resize("%arg1", 0, 6, 16)];
    assert!(matches!(
        apply(SMALL, &Change::Resize(both)),
        Err(WhatIfError::Contradiction { .. })
    ));
}

#[test]
fn parts_of_a_dimension_follow_it() {
    let text = r#"module {
  func.func public @main(%arg0: tensor<3x100xf32>, %arg1: tensor<f32>) -> tensor<3x100xf32> {
    %0 = stablehlo.slice %arg0 [0:3, 0:50] : (tensor<3x100xf32>) -> tensor<3x50xf32>
    %1 = stablehlo.slice %arg0 [0:3, 50:100] : (tensor<3x100xf32>) -> tensor<3x50xf32>
    %2 = stablehlo.negate %1 : tensor<3x50xf32>
    %3 = stablehlo.concatenate %2, %0, dim = 1 : (tensor<3x50xf32>, tensor<3x50xf32>) -> tensor<3x100xf32>
    %4 = stablehlo.slice %arg0 [0:3, 0:99] : (tensor<3x100xf32>) -> tensor<3x99xf32>
    %5 = stablehlo.pad %4, %arg1, low = [0, 1], high = [0, 0], interior = [0, 0] : (tensor<3x99xf32>, tensor<f32>) -> tensor<3x100xf32>
    %6 = stablehlo.pad %arg0, %arg1, low = [0, 0], high = [0, 28], interior = [0, 0] : (tensor<3x100xf32>, tensor<f32>) -> tensor<3x128xf32>
    %7 = stablehlo.slice %6 [0:3, 0:100] : (tensor<3x128xf32>) -> tensor<3x100xf32>
    %8 = stablehlo.add %3, %7 : tensor<3x100xf32>
    return %8 : tensor<3x100xf32>
  }
}
"#;
    let to = |to| apply(text, &Change::Resize(vec![resize("%arg0", 1, 100, to)]));
    let changed = to(128).unwrap();
    for line in [
        "[0:3, 64:128] : (tensor<3x128xf32>) -> tensor<3x64xf32>",
        "(tensor<3x64xf32>, tensor<3x64xf32>) -> tensor<3x128xf32>",
        "[0:3, 0:127] : (tensor<3x128xf32>) -> tensor<3x127xf32>",
        "low = [0, 1], high = [0, 0], interior = [0, 0] : (tensor<3x127xf32>, tensor<f32>) -> tensor<3x128xf32>",
        "high = [0, 0], interior = [0, 0] : (tensor<3x128xf32>, tensor<f32>) -> tensor<3x128xf32>",
        "%7 = stablehlo.slice %6 [0:3, 0:128] : (tensor<3x128xf32>) -> tensor<3x128xf32>",
    ] {
        assert!(changed.contains(line), "{line}\n{changed}");
    }
    assert_eq!(
        to(130).unwrap_err().to_string(),
        "cannot be rewritten here: `stablehlo.pad` at line 9 would reach 130 in a dimension of 128"
    );
}

#[test]
fn matmuls_of_one_operand_become_one() {
    let text = r#"module {
  func.func public @main(%arg0: tensor<6x10xf32> {jax.x = true}, %arg1: tensor<4x6xf32>, %arg2: tensor<6x3xf32>) -> (tensor<4x10xf32>, tensor<4x3xf32>) {
    %0 = stablehlo.dot_general %arg1, %arg0, contracting_dims = [1] x [0] : (tensor<4x6xf32>, tensor<6x10xf32>) -> tensor<4x10xf32>
    %1 = stablehlo.dot_general %arg1, %arg2, contracting_dims = [1] x [0] : (tensor<4x6xf32>, tensor<6x3xf32>) -> tensor<4x3xf32>
    return %0, %1 : tensor<4x10xf32>, tensor<4x3xf32>
  }
}
"#;
    let found = candidates(&parse(text), Tiles::default());
    let merge = Change::MergeMatmuls { lines: vec![3, 4] };
    assert_eq!(
        found,
        [Candidate {
            change: merge.clone(),
            share: 1.0
        }]
    );
    let changed = apply(text, &merge).unwrap();
    let body: Vec<&str> = changed.lines().skip(1).collect();
    assert_eq!(
        body[..4],
        [
            "  func.func public @main(%arg1: tensor<4x6xf32>, %arg2: tensor<6x13xf32>) -> (tensor<4x10xf32>, tensor<4x3xf32>) {",
            "    %merged3 = stablehlo.dot_general %arg1, %arg2, contracting_dims = [1] x [0] : (tensor<4x6xf32>, tensor<6x13xf32>) -> tensor<4x13xf32>",
            "    %0 = stablehlo.slice %merged3 [0:4, 0:10] : (tensor<4x13xf32>) -> tensor<4x10xf32>",
            "    %1 = stablehlo.slice %merged3 [0:4, 10:13] : (tensor<4x13xf32>) -> tensor<4x3xf32>",
        ]
    );
    let twice = text.replace(
        "return %0, %1",
        "%2 = stablehlo.negate %arg0 : tensor<6x10xf32>\n    return %0, %1",
    );
    assert_eq!(
        apply(&twice, &merge).unwrap_err().to_string(),
        "cannot be rewritten here: `stablehlo.dot_general` at line 3 is not the only one to read its weight"
    );
}

#[test]
fn sums_kernels_and_convolutions_let_through_what_they_can() {
    let text = r#"module {
  func.func public @main(%arg0: tensor<2x1023x60xbf16>, %arg1: tensor<3x60x100xbf16>, %arg2: tensor<bf16>) -> tensor<2x1023x60xbf16> {
    %0:2 = chlo.scan(%arg0) inits (%arg2) dimension=1  attributes {is_associative = true, is_reverse = false, scan_dim_size = 1023 : i64} {
    ^bb0(%input: tensor<2x60xbf16>, %carry: tensor<bf16>):
      stablehlo.return %input, %carry : tensor<2x60xbf16>, tensor<bf16>
    } : (tensor<2x1023x60xbf16>, tensor<bf16>) -> (tensor<2x1023x60xbf16>, tensor<bf16>)
    %1 = stablehlo.pad %0#0, %arg2, low = [0, 0, 0], high = [0, 1, 0], interior = [0, 0, 0] : (tensor<2x1023x60xbf16>, tensor<bf16>) -> tensor<2x1024x60xbf16>
    %2 = stablehlo.custom_call @kernel(%1) : (tensor<2x1024x60xbf16>) -> tensor<2x1024x60xbf16>
    %3 = stablehlo.slice %2 [0:2, 0:1023, 0:60] : (tensor<2x1024x60xbf16>) -> tensor<2x1023x60xbf16>
    %4 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x1023x60xbf16>, tensor<3x60x100xbf16>) -> tensor<2x1023x100xbf16>
    %5 = stablehlo.add %arg0, %3 : tensor<2x1023x60xbf16>
    return %5 : tensor<2x1023x60xbf16>
  }
}
"#;
    let of = |axis, from, to| apply(text, &Change::Resize(vec![resize("%arg1", axis, from, to)]));
    let wider = of(2, 100, 128).unwrap();
    assert!(
        wider.contains("tensor<3x60x128xbf16>) -> tensor<2x1023x128xbf16>"),
        "{wider}"
    );
    assert!(
        of(1, 60, 64)
            .unwrap_err()
            .to_string()
            .contains("`stablehlo.custom_call` at line 8")
    );
    assert!(
        of(0, 3, 4)
            .unwrap_err()
            .to_string()
            .contains("moves a window over it")
    );
    let without = text.replace("    %4 = stablehlo.convolution", "    // ");
    let longer = Change::Resize(vec![resize("%arg0", 1, 1023, 1024)]);
    let longer = apply(&without, &longer).unwrap();
    for line in [
        "scan_dim_size = 1024 : i64",
        "high = [0, 0, 0], interior",
        "%3 = stablehlo.slice %2 [0:2, 0:1024, 0:60]",
    ] {
        assert!(longer.contains(line), "{line}\n{longer}");
    }
}
