//! The forms in which programs are printed.
#![expect(clippy::unwrap_used, reason = "a test ends where a value is missing")]

use super::*;

const PROGRAM: &str = r#"#loc1 = loc("x")
module @jit_f attributes {mhlo.num_partitions = 1 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%arg0: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>} loc("x"), %arg1: tensor<8x3xf32>) -> (tensor<4x3xf32> {jax.result_info = "result"}) {
    %c = stablehlo.constant dense<0> : tensor<i32> loc(#loc1)
    %cst = stablehlo.constant dense<-1.0e+00> : tensor<f32>
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xf32> loc(#loc1)
    %1:2 = stablehlo.while(%iterArg = %c, %iterArg_0 = %0) : tensor<i32>, tensor<4x3xf32>
    cond {
      %5 = stablehlo.compare LT, %iterArg, %iterArg : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %5 : tensor<i1>
    } do {
      %5 = func.call @g(%iterArg_0) : (tensor<4x3xf32>) -> tensor<4x3xf32>
      stablehlo.return %iterArg, %5 : tensor<i32>, tensor<4x3xf32>
    }
    %2 = stablehlo.reduce(%1#1 init: %cst) across dimensions = [1] : (tensor<4x3xf32>, tensor<f32>) -> tensor<4xf32>
     reducer(%arg2: tensor<f32>, %arg3: tensor<f32>)  {
      %5 = stablehlo.add %arg2, %arg3 : tensor<f32>
      stablehlo.return %5 : tensor<f32>
    }
    %3 = "stablehlo.broadcast_in_dim"(%2) <{broadcast_dimensions = array<i64: 0>}> : (tensor<4xf32>) -> tensor<4x3xf32>
    %4:2 = "stablehlo.sort"(%3, %1#1) <{dimension = 1 : i64}> ({
    ^bb0(%arg2: tensor<f32> loc("a"), %arg3: tensor<f32>, %arg4: tensor<f32>, %arg5: tensor<f32>):
      %5 = stablehlo.compare LT, %arg2, %arg3 : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %5 : tensor<i1>
    }) : (tensor<4x3xf32>, tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>)
    return %4#0 : tensor<4x3xf32>
  }
  func.func private @g(%arg0: tensor<4x3xf32>) -> tensor<4x3xf32> {
    return %arg0 : tensor<4x3xf32>
  }
}
"#;

fn op<'m>(module: &'m Module<'_>, name: &str) -> &'m Op {
    module
        .ops()
        .find(|(_, op)| op.name == name)
        .map(|(_, op)| op)
        .unwrap()
}

fn names(module: &Module<'_>, op: &Op) -> Vec<String> {
    op.operands
        .iter()
        .map(|o| module.value(o.value).name.clone())
        .collect()
}

#[test]
fn functions_have_arguments_attributes_and_results() {
    let module = parse(PROGRAM);
    let main = module.main().unwrap();
    assert_eq!(main.name, "@main");
    assert_eq!(main.body.arguments.len(), 2);
    let attributes = main.argument_attributes[0].clone().unwrap();
    assert!(PROGRAM[attributes].contains("sdy.sharding"));
    assert_eq!(main.argument_attributes[1], None);
    assert_eq!(main.result_attributes.len(), 1);
    assert_eq!(module.functions.len(), 2);
}

#[test]
fn every_operation_is_read_with_its_types() {
    let module = parse(PROGRAM);
    let untyped: Vec<_> = module
        .ops()
        .filter(|(_, op)| !op.typed)
        .map(|(_, op)| &op.name)
        .collect();
    assert!(untyped.is_empty(), "{untyped:?}");
    for value in &module.values {
        assert!(value.tensor.is_some(), "{} has no type", value.name);
    }
}

#[test]
fn lists_of_attributes_keep_their_places() {
    let module = parse(PROGRAM);
    let dot = op(&module, "stablehlo.dot_general");
    let (left, right) = dot.integer_pair(PROGRAM, "contracting_dims").unwrap();
    assert_eq!((left[0].value, right[0].value), (1, 0));
    assert_eq!(&PROGRAM[left[0].range.clone()], "1");
    let broadcast = op(&module, "stablehlo.broadcast_in_dim");
    assert_eq!(
        broadcast.integers(PROGRAM, "broadcast_dimensions").unwrap()[0].value,
        0
    );
    let sort = op(&module, "stablehlo.sort");
    assert_eq!(sort.integers(PROGRAM, "dimension").unwrap()[0].value, 1);
}

#[test]
fn regions_see_their_own_arguments() {
    let module = parse(PROGRAM);
    let repeat = op(&module, "stablehlo.while");
    assert_eq!(names(&module, repeat), ["%c", "%0"]);
    assert_eq!(repeat.regions.len(), 2);
    assert_eq!(repeat.regions[0].arguments.len(), 2);
    let call = op(&module, "func.call");
    assert_eq!(call.callee.as_deref(), Some("@g"));
    assert_eq!(names(&module, call), ["%iterArg_0"]);
    let reduce = op(&module, "stablehlo.reduce");
    assert_eq!(names(&module, reduce), ["%1#1", "%cst"]);
    assert_eq!(reduce.regions.len(), 1);
    assert_eq!(reduce.line, 16);
}

#[test]
fn broken_text_is_read_as_far_as_it_goes() {
    for end in 0..PROGRAM.len() {
        let module = parse(&PROGRAM[..end]);
        assert!(module.functions.len() <= 2);
    }
    let deep = "{".repeat(100_000);
    assert!(parse(&deep).functions.is_empty());
    let nested = format!(
        "func.func @f() {{ {}",
        "%0 = a.b ({ %1 = a.b() ".repeat(10_000)
    );
    assert!(parse(&nested).functions.len() <= 1);
}
