//! Which dimensions come out as one.

use super::*;

fn sets(text: &str) -> (Flow, Vec<Vec<u32>>) {
    let flow = Flow::read(text, &[]);
    let arguments = flow.arguments.clone();
    (flow, arguments)
}

#[test]
fn a_matmul_joins_what_it_sums_and_what_it_keeps() {
    let (flow, a) = sets(
        "func.func public @main(%arg0: tensor<8x4xf32>, %arg1: tensor<4x16xf32>, %arg2: tensor<8x16xf32>) -> (tensor<8x16xf32>) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x4xf32>, tensor<4x16xf32>) -> tensor<8x16xf32>
    %1 = stablehlo.add %0, %arg2 : tensor<8x16xf32>
    return %1 : tensor<8x16xf32>
  }",
    );
    assert_eq!(a[0][1], a[1][0]);
    assert_eq!(a[2], [a[0][0], a[1][1]]);
    assert_ne!(a[0][0], a[0][1]);
    assert_eq!(flow.products.len(), 1);
    assert_eq!(flow.products[0].flops, 2.0 * 8.0 * 4.0 * 16.0);
    assert_eq!(flow.products[0].contracted, [a[0][1]]);
}

#[test]
fn equal_sizes_that_never_meet_stay_apart() {
    let (_, a) = sets(
        "func.func @main(%arg0: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %0 = stablehlo.dot_general %arg0, %arg0, contracting_dims = [1] x [1] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %0 : tensor<4x4xf32>
  }",
    );
    assert_ne!(a[0][0], a[0][1]);
}

#[test]
fn a_cut_dimension_goes_with_its_outermost_part() {
    let (flow, a) = sets(
        "func.func @main(%arg0: tensor<2x3x4096xf32>, %arg1: tensor<2x3x8x512xf32>) -> tensor<2x3x8x512xf32> {
    %0 = stablehlo.reshape %arg0 : (tensor<2x3x4096xf32>) -> tensor<2x3x8x512xf32>
    %1 = stablehlo.multiply %0, %arg1 : tensor<2x3x8x512xf32>
    return %1 : tensor<2x3x8x512xf32>
  }",
    );
    assert_eq!(a[0], [a[1][0], a[1][1], a[1][2]]);
    assert_eq!(flow.divisor(a[0][2]), 8, "4096 is cut as 8 heads");
}

#[test]
fn calls_and_loops_carry_dimensions_through() {
    let (_, a) = sets(
        "func.func public @main(%arg0: tensor<5x7xf32>, %arg1: tensor<5x7xf32>, %arg2: tensor<5x7xf32>) -> tensor<5x7xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%iterArg = %c, %iterArg_0 = %arg0) : tensor<i32>, tensor<5x7xf32>
    cond {
      %2 = stablehlo.compare LT, %iterArg, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    } do {
      %2 = func.call @f(%iterArg_0, %arg1) : (tensor<5x7xf32>, tensor<5x7xf32>) -> tensor<5x7xf32>
      stablehlo.return %iterArg, %2 : tensor<i32>, tensor<5x7xf32>
    }
    %1 = stablehlo.transpose %arg2, dims = [1, 0] : (tensor<5x7xf32>) -> tensor<7x5xf32>
    return %0#1 : tensor<5x7xf32>
  }
  func.func private @f(%arg0: tensor<5x7xf32>, %arg1: tensor<5x7xf32>) -> tensor<5x7xf32> {
    %0 = stablehlo.add %arg0, %arg1 : tensor<5x7xf32>
    return %0 : tensor<5x7xf32>
  }",
    );
    assert_eq!(a[0], a[1]);
    assert_ne!(a[0], a[2]);
}

#[test]
fn a_gather_looks_up_rows_and_keeps_columns() {
    let (flow, a) = sets(
        r#"func.func @main(%arg0: tensor<100x6xf32>, %arg1: tensor<2x3x1xi32>, %arg2: tensor<2x3x6xf32>) -> tensor<2x3x6xf32> {
    %0 = "stablehlo.gather"(%arg0, %arg1) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 6>}> : (tensor<100x6xf32>, tensor<2x3x1xi32>) -> tensor<2x3x6xf32>
    %1 = stablehlo.add %0, %arg2 : tensor<2x3x6xf32>
    return %1 : tensor<2x3x6xf32>
  }"#,
    );
    assert_eq!(a[2], [a[1][0], a[1][1], a[0][1]]);
    assert_eq!(flow.looked_up, [a[0][0]]);
}

#[test]
fn text_that_makes_no_sense_gives_no_flow() {
    for text in [
        "",
        "func.func @main(",
        "%0 = stablehlo.add %1, %2 : tensor<4xf32>",
        "func.func @main(%arg0: tensor<4xf32>) {\n%0 = \n%1:99999999999 = stablehlo.x : \n})\nstablehlo.return\n}",
    ] {
        assert!(Flow::read(text, &[]).products.is_empty());
    }
}
