//! Padding inside the program: the resized program becomes a function, and a new `@main` of the
//! old signature pads its arguments, calls it and slices its results.

use std::fmt::Write as _;
use std::ops::Range;

use crate::program::stablehlo::types::write_tensor;
use crate::program::stablehlo::{Function, Module, ValueId};

use super::dims::{Dims, Sizes};
use super::{Resize, WhatIfError, resize};

const INNER: &str = "@padded";

pub(super) fn apply(module: &Module<'_>, resizes: &[Resize]) -> Result<String, WhatIfError> {
    let (dims, sizes) = resize::solve(module, resizes)?;
    let main = module.main().ok_or(WhatIfError::NoFunction)?;
    let wrapper = Wrapper {
        module,
        dims: &dims,
        sizes: &sizes,
        main,
    };
    let outer = wrapper.write()?;

    let mut edits = resize::edits(module, &dims, &sizes);
    edits.replace(main.name_range.clone(), INNER);
    let attributes = main
        .argument_attributes
        .iter()
        .chain(&main.result_attributes);
    for range in attributes.flatten() {
        edits.replace(range.clone(), "");
    }
    let head = module
        .text
        .get(main.range.start..main.name_range.start)
        .unwrap_or("");
    if let Some(at) = head.find("public") {
        let start = main.range.start + at;
        edits.replace(start..start + "public".len(), "private");
    }
    edits.insert(main.range.start, &outer);
    Ok(edits.apply(module.text))
}

struct Wrapper<'a, 't> {
    module: &'a Module<'t>,
    dims: &'a Dims,
    sizes: &'a Sizes,
    main: &'a Function,
}

/// A value's type before and after.
struct Types {
    before: String,
    after: String,
    old: Vec<i64>,
    new: Vec<i64>,
    element: String,
}

impl Wrapper<'_, '_> {
    fn write(&self) -> Result<String, WhatIfError> {
        let returned = self.module.returned(&self.main.body);
        let results: Vec<ValueId> = returned
            .iter()
            .flat_map(|op| op.operands.iter().map(|o| o.value))
            .collect();
        let arguments = self.types(&self.main.body.arguments)?;
        let results = self.types(&results)?;

        let mut out = String::from("func.func public @main(");
        for (i, types) in arguments.iter().enumerate() {
            let attributes = self.attributes(&self.main.argument_attributes, i);
            let _ = write!(out, "{}%arg{i}: {}{attributes}", comma(i), types.before);
        }
        out.push_str(") -> (");
        for (i, types) in results.iter().enumerate() {
            let attributes = self.attributes(&self.main.result_attributes, i);
            let _ = write!(out, "{}{}{attributes}", comma(i), types.before);
        }
        out.push_str(") {\n");
        let mut passed = Vec::new();
        for (i, types) in arguments.iter().enumerate() {
            passed.push(write_pad(&mut out, i, types));
        }
        let outputs = if results.len() == 1 {
            String::new()
        } else {
            format!(":{}", results.len())
        };
        let after = |all: &[Types]| {
            all.iter()
                .map(|t| t.after.as_str())
                .collect::<Vec<_>>()
                .join(", ")
        };
        let _ = writeln!(
            out,
            "    %called{outputs} = call {INNER}({}) : ({}) -> ({})",
            passed.join(", "),
            after(&arguments),
            after(&results)
        );
        let mut sliced = Vec::new();
        for (i, types) in results.iter().enumerate() {
            let from = if results.len() == 1 {
                "%called".to_owned()
            } else {
                format!("%called#{i}")
            };
            sliced.push(write_slice(&mut out, i, &from, types));
        }
        let before: Vec<_> = results.iter().map(|t| t.before.as_str()).collect();
        let _ = writeln!(
            out,
            "    return {} : {}\n  }}",
            sliced.join(", "),
            before.join(", ")
        );
        out.push_str("  ");
        Ok(out)
    }

    fn attributes(&self, all: &[Option<Range<usize>>], index: usize) -> String {
        let range = all.get(index).cloned().flatten();
        let text = range.and_then(|r| self.module.text.get(r));
        text.map_or_else(String::new, |t| format!(" {t}"))
    }

    fn types(&self, values: &[ValueId]) -> Result<Vec<Types>, WhatIfError> {
        values.iter().map(|&value| self.type_of(value)).collect()
    }

    fn type_of(&self, value: ValueId) -> Result<Types, WhatIfError> {
        let written = self.module.value(value);
        let absent = || WhatIfError::Absent {
            what: format!("a tensor type for {}", written.name),
        };
        let tensor = written.tensor.as_ref().ok_or_else(absent)?;
        let element = self
            .module
            .text
            .get(tensor.element.clone())
            .unwrap_or("")
            .to_owned();
        let old: Option<Vec<i64>> = tensor.dims.iter().map(|d| d.size).collect();
        let old = old.ok_or_else(absent)?;
        let new: Option<Vec<i64>> = self
            .dims
            .of(value)
            .map(|n| self.dims.now(n, self.sizes))
            .collect();
        let new = new.ok_or_else(absent)?;
        let (before, after) = (write_tensor(&old, &element), write_tensor(&new, &element));
        Ok(Types {
            before,
            after,
            old,
            new,
            element,
        })
    }
}

fn comma(index: usize) -> &'static str {
    if index == 0 { "" } else { ", " }
}

/// Pads argument `index` if it changes; the name of what to pass on.
fn write_pad(out: &mut String, index: usize, types: &Types) -> String {
    if types.old == types.new {
        return format!("%arg{index}");
    }
    let zero = match types.element.as_str() {
        "i1" => "false",
        e if e.starts_with(['f', 'b']) => "0.0",
        e if e.starts_with("complex") => "(0.0, 0.0)",
        _ => "0",
    };
    let list = |values: &mut dyn Iterator<Item = i64>| {
        values.map(|v| v.to_string()).collect::<Vec<_>>().join(", ")
    };
    let zeros = list(&mut types.old.iter().map(|_| 0));
    let high = list(&mut types.new.iter().zip(&types.old).map(|(n, o)| n - o));
    let scalar = write_tensor(&[], &types.element);
    let _ = writeln!(
        out,
        "    %zero{index} = stablehlo.constant dense<{zero}> : {scalar}"
    );
    let _ = writeln!(
        out,
        "    %grown{index} = stablehlo.pad %arg{index}, %zero{index}, low = [{zeros}], \
         high = [{high}], interior = [{zeros}] : ({}, {scalar}) -> {}",
        types.before, types.after
    );
    format!("%grown{index}")
}

/// Slices result `index` if it changed; the name of what to return.
fn write_slice(out: &mut String, index: usize, from: &str, types: &Types) -> String {
    if types.old == types.new {
        return from.to_owned();
    }
    let bounds: Vec<_> = types.old.iter().map(|n| format!("0:{n}")).collect();
    let _ = writeln!(
        out,
        "    %cut{index} = stablehlo.slice {from} [{}] : ({}) -> {}",
        bounds.join(", "),
        types.after,
        types.before
    );
    format!("%cut{index}")
}
