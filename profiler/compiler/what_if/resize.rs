//! Dimensions of another size, stored so: every type and every number that follows is rewritten.

use crate::program::stablehlo::Module;

use super::dims::{Dims, Sizes};
use super::edits::Edits;
use super::{Resize, WhatIfError, rules};

pub(super) fn apply(module: &Module<'_>, resizes: &[Resize]) -> Result<String, WhatIfError> {
    let (dims, sizes) = solve(module, resizes)?;
    Ok(edits(module, &dims, &sizes).apply(module.text))
}

/// The sizes of all dimensions that change.
pub(super) fn solve(module: &Module<'_>, resizes: &[Resize]) -> Result<(Dims, Sizes), WhatIfError> {
    if module.main().is_none() {
        return Err(WhatIfError::NoFunction);
    }
    let dims = rules::dimensions(module);
    let mut wanted = Vec::new();
    for resize in resizes {
        let absent = || WhatIfError::Absent {
            what: resize.dimension.to_string(),
        };
        let (value, found) = resize.dimension.find(module).ok_or_else(absent)?;
        if found != resize.from {
            let (dimension, expected) = (resize.dimension.clone(), resize.from);
            return Err(WhatIfError::OtherSize {
                dimension,
                found,
                expected,
            });
        }
        let node = dims.node(value, resize.dimension.axis).ok_or_else(absent)?;
        wanted.push((node, resize.to));
    }
    let sizes = dims.solve(&wanted)?;
    Ok((dims, sizes))
}

pub(super) fn edits(module: &Module<'_>, dims: &Dims, sizes: &Sizes) -> Edits {
    let mut edits = Edits::default();
    for written in module.type_uses() {
        for (node, dim) in dims.of(written.value).zip(&written.tensor.dims) {
            if let Some(size) = sizes.get(&dims.root(node)) {
                edits.replace(dim.range.clone(), size.to_string());
            }
        }
    }
    for (range, number) in dims.changed_numbers(sizes) {
        edits.replace(range, number.to_string());
    }
    edits
}
