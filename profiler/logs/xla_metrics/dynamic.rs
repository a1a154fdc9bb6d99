//! Values of PyTorch/XLA's IR whose shape has a bound instead of a size: `s64[<=5,1]`.

use crate::logs::{At, Line};

/// What stands in each of these lines.
pub(super) const MARK: &str = "[<=";
/// Values that are kept.
pub(super) const MAX_KEPT: usize = 256;
/// Values of one line, and characters of names, that are kept.
const MAX_IN_LINE: usize = 8;
const MAX_CHARS: usize = 120;

/// A value whose size depends on data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DynamicShape {
    /// Where.
    pub at: At,
    /// Its name in the IR, as `%9`.
    pub value: String,
    /// The operation, as `aten::nonzero`.
    pub op: String,
    /// Its shape, as `s64[<=5,1]`.
    pub shape: String,
    /// The line.
    pub text: String,
}

/// The values of a line of IR: `%9 = (s64[<=5,1]{1,0}, s64[]) aten::nonzero(%8), …`.
pub(super) fn read(line: Line<'_>) -> Vec<DynamicShape> {
    let Some((value, rest)) = line.text.split_once(" = ") else {
        return Vec::new();
    };
    let op = rest
        .split([' ', '('])
        .find(|word| word.contains("::") && !word.starts_with(['"', '\'']));
    let Some(op) = op else {
        return Vec::new();
    };
    let declared = rest.split(op).next().unwrap_or_default();
    let mut shapes = Vec::new();
    for (at, _) in declared.match_indices(MARK).take(MAX_IN_LINE) {
        let before = declared.get(..at).unwrap_or_default();
        let start = before
            .rfind(|c: char| !c.is_ascii_alphanumeric())
            .map_or(0, |found| found + 1);
        let Some(end) = declared.get(at..).and_then(|text| text.find(']')) else {
            continue;
        };
        let shape = declared.get(start..at + end + 1).unwrap_or_default();
        shapes.push(DynamicShape {
            at: line.at,
            value: short(value.trim()),
            op: short(op),
            shape: short(shape),
            text: short(line.text.trim()),
        });
    }
    shapes
}

fn short(text: &str) -> String {
    text.chars().take(MAX_CHARS).collect()
}
