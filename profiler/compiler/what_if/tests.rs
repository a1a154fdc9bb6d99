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

/// What turns the odd decoder into each of its twins, by where the sizes stand in it.
fn changes(text: &str) -> [(&'static str, Resize); 4] {
    let arguments = arguments(text);
    let find = |rank: usize, axis: usize, size: i64| {
        let (name, _) = arguments
            .iter()
            .find(|(_, d)| d.len() == rank && d[axis] == size && !(rank == 2 && d == &[1200, 1200]))
            .unwrap();
        name.clone()
    };
    let module = parse(text);
    let heads = module.values().iter().find(|v| {
        let tensor = v.tensor.as_ref();
        tensor.is_some_and(|t| t.rank() == 4 && t.size(3) == Some(100)) && v.maker.is_some()
    });
    [
        ("vocab_50304", resize(&find(2, 0, 50257), 0, 50257, 50304)),
        ("seq_1024", resize(&find(2, 1, 1023), 1, 1023, 1024)),
        ("width_1280", resize(&find(1, 0, 1200), 0, 1200, 1280)),
        ("head_dim_128", resize(&heads.unwrap().name, 3, 100, 128)),
    ]
}

#[test]
fn a_resized_program_is_the_twin_that_was_exported_with_that_size() {
    for framework in ["jax", "torch"] {
        let odd = twin(&format!("decoder_odd.{framework}"));
        for (name, resize) in changes(&odd) {
            // The two vocabularies are two dimensions: embedding and output matrix.
            let mut resizes = vec![resize];
            if name == "vocab_50304" {
                let is_head = |(_, d): &&(String, Vec<i64>)| d.contains(&50257);
                let (head, sizes) = arguments(&odd).iter().rfind(is_head).unwrap().clone();
                let axis = sizes.iter().position(|&s| s == 50257).unwrap();
                resizes.push(self::resize(&head, axis, 50257, 50304));
            }
            let changed = apply(&odd, &Change::Resize(resizes)).unwrap();
            same_program(&changed, &twin(&format!("decoder_{name}.{framework}")));
        }
    }
}

#[test]
fn candidates_name_the_odd_dimensions_and_nothing_in_the_even_model() {
    for framework in ["jax", "torch"] {
        let odd = twin(&format!("decoder_odd.{framework}"));
        let found = candidates(&parse(&odd), Tiles::default());
        let single: Vec<(i64, i64)> = found
            .iter()
            .filter_map(|c| match &c.change {
                Change::Resize(r) if r.len() == 1 => Some((r[0].from, r[0].to)),
                _ => None,
            })
            .collect();
        for wanted in [(50257, 50304), (1023, 1024), (1200, 1280), (100, 128)] {
            assert!(
                single.contains(&wanted),
                "{framework}: {wanted:?} not in {single:?}"
            );
        }
        assert_eq!(single.len(), 4, "{framework}: {single:?}");
        for candidate in &found {
            apply(&odd, &candidate.change).unwrap();
        }
        let even = twin(&format!("decoder_even.{framework}"));
        assert_eq!(candidates(&parse(&even), Tiles::default()), []);
    }
}

#[test]
fn a_weight_that_is_transposed_at_use_is_stored_the_other_way() {
    for framework in ["jax", "torch"] {
        let text = twin(&format!("experts_out_in_1280.{framework}"));
        let found = candidates(&parse(&text), Tiles::default());
        let swapped: Vec<_> = found
            .iter()
            .filter(|c| matches!(c.change, Change::StoreSwapped { .. }))
            .collect();
        assert_eq!(swapped.len(), 2, "{framework}: {found:?}");
        let mut changed = text.clone();
        for candidate in swapped {
            changed = apply(&changed, &candidate.change).unwrap();
        }
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
