//! The ATen graph of a launch, as TorchTPU prints it.
//!
//! ```text
//! # Graph: 1 ops, 2 inputs, reason: .cpu()
//! %0: f32[32, 10] = input
//! %1: i64[32] = input
//! %2: f32[] = cross_entropy_loss(%0, %1)    # /home/user/train.py:15 in <module>
//! return %2
//! ```

use std::fmt;
use std::hash::{Hash as _, Hasher as _};

use rustc_hash::FxHasher;

/// More operations or inputs than this are not kept.
const MAX_OPS: usize = 1 << 14;

/// A tensor's dtype and sizes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TensorType {
    /// The dtype as printed, as `bf16` or `pred`.
    pub dtype: String,
    /// Its sizes.
    pub sizes: Vec<u64>,
}

impl TensorType {
    /// Whether it is one truth value, as a branch of Python needs it.
    #[must_use]
    pub fn is_flag(&self) -> bool {
        self.dtype == "pred" && self.sizes.is_empty()
    }

    fn parse(text: &str) -> Option<Self> {
        let (dtype, sizes) = text.trim().split_once('[')?;
        let sizes = sizes.strip_suffix(']')?;
        let sizes: Option<Vec<u64>> = sizes
            .split(',')
            .map(str::trim)
            .filter(|size| !size.is_empty())
            .map(|size| size.parse().ok())
            .collect();
        Some(Self {
            dtype: dtype.to_owned(),
            sizes: sizes?,
        })
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.dtype)?;
        for (at, size) in self.sizes.iter().enumerate() {
            let separator = if at == 0 { "" } else { ", " };
            write!(f, "{separator}{size}")?;
        }
        f.write_str("]")
    }
}

/// A line of the user's code.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceLine {
    /// The file.
    pub file: String,
    /// The line, from 1; 0 where it is not known.
    pub line: u64,
    /// The function; may be empty.
    pub function: String,
}

impl SourceLine {
    /// Reads `path:12 in func`, or `path:12`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (place, function) = match text.rsplit_once(" in ") {
            Some((place, function)) => (place, function),
            None => (text, ""),
        };
        let (file, line) = place.trim().rsplit_once(':')?;
        Some(Self {
            file: file.to_owned(),
            line: line.trim().parse().ok()?,
            function: function.trim().to_owned(),
        })
    }
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)?;
        match self.function.as_str() {
            "" => Ok(()),
            function => write!(f, " in {function}"),
        }
    }
}

/// An operation of a graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphOp {
    /// Its name, as `linear_backward`.
    pub name: String,
    /// What it returns.
    pub results: Vec<TensorType>,
    /// The user's line; the backward pass has none.
    pub place: Option<SourceLine>,
}

/// The operations of a launch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AtenGraph {
    /// Types of its inputs.
    pub inputs: Vec<TensorType>,
    /// Its operations, in order.
    pub ops: Vec<GraphOp>,
    /// What it returns: types of the values that the last line names.
    pub outputs: Vec<TensorType>,
}

impl AtenGraph {
    /// Reads the payload of a `torchtpu_eager_aten_graph`; lines that are not understood are left
    /// out.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut graph = Self::default();
        let mut types: Vec<(&str, TensorType)> = Vec::new();
        for line in text.lines().map(str::trim) {
            if graph.inputs.len() + graph.ops.len() > MAX_OPS {
                break;
            }
            if let Some(returned) = line.strip_prefix("return ") {
                let named = returned.split(',').map(str::trim);
                graph.outputs = named
                    .filter_map(|name| {
                        let found = types.iter().rfind(|(known, _)| *known == name);
                        found.map(|(_, kind)| kind.clone())
                    })
                    .take(MAX_OPS)
                    .collect();
            } else if line.starts_with('%') {
                graph.operation(line, &mut types);
            }
        }
        graph
    }

    fn operation<'a>(
        &mut self,
        line: &'a str,
        types: &mut Vec<(&'a str, TensorType)>,
    ) -> Option<()> {
        let (declared, rest) = line.split_once(" = ")?;
        let (names, kinds) = declared.split_once(':')?;
        let results = split_types(kinds);
        let named = names.split(',').map(str::trim);
        types.extend(named.zip(results.iter().cloned()));
        if rest == "input" {
            self.inputs.extend(results);
            return Some(());
        }
        let (call, place) = match rest.rsplit_once(" # ") {
            Some((call, place)) => (call, SourceLine::parse(place)),
            None => (rest, None),
        };
        let name = call.split('(').next()?.trim().to_owned();
        self.ops.push(GraphOp {
            name,
            results,
            place,
        });
        Some(())
    }

    /// The same for graphs of the same operations at the same lines, whatever their shapes.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = FxHasher::default();
        for op in &self.ops {
            (&op.name, &op.place, op.results.len()).hash(&mut hasher);
        }
        self.inputs.len().hash(&mut hasher);
        hasher.finish()
    }

    /// The user's line of its last operation that has one.
    #[must_use]
    pub fn last_place(&self) -> Option<&SourceLine> {
        self.ops.iter().rev().find_map(|op| op.place.as_ref())
    }

    /// The user's line of its first operation that has one.
    #[must_use]
    pub fn first_place(&self) -> Option<&SourceLine> {
        self.ops.iter().find_map(|op| op.place.as_ref())
    }

    /// Bytes that it takes in memory, roughly.
    #[must_use]
    pub(super) fn weight(&self) -> u64 {
        let tensors = |types: &[TensorType]| types.len() as u64 * 64;
        let ops = self.ops.iter().map(|op| {
            let place = op
                .place
                .as_ref()
                .map_or(0, |p| p.file.len() + p.function.len());
            128 + (op.name.len() + place) as u64 + tensors(&op.results)
        });
        ops.sum::<u64>() + tensors(&self.inputs) + tensors(&self.outputs)
    }
}

/// Splits `bf16[32, 256], f32[]` into its types.
fn split_types(text: &str) -> Vec<TensorType> {
    text.split_inclusive(']')
        .map(|part| part.trim_start_matches([',', ' ']))
        .filter_map(TensorType::parse)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{AtenGraph, SourceLine};

    const BACKWARD: &str = "# Graph: 2 ops, 2 inputs, reason: .cpu()
%0: f32[32, 10] = input
%1: ui64[2] = input
%2: f32[] = ones_like()    # /home/user/a b.py:15 in <module>
%3, %4: bf16[32, 256], bf16[] = linear_backward(%2, %0)
return %3, %2
";

    #[test]
    fn operations_types_and_lines_of_a_graph() {
        let graph = AtenGraph::parse(BACKWARD);
        let shown = |types: &[super::TensorType]| {
            let shown: Vec<_> = types.iter().map(ToString::to_string).collect();
            shown.join(" ")
        };
        assert_eq!(shown(&graph.inputs), "f32[32, 10] ui64[2]");
        assert_eq!(shown(&graph.outputs), "bf16[32, 256] f32[]");
        assert_eq!(shown(&graph.ops[1].results), "bf16[32, 256] bf16[]");
        assert_eq!(graph.ops[0].name, "ones_like");
        assert_eq!(
            graph.last_place(),
            Some(&SourceLine {
                file: "/home/user/a b.py".to_owned(),
                line: 15,
                function: "<module>".to_owned()
            })
        );
    }

    #[test]
    fn a_fingerprint_does_not_know_shapes_but_lines() {
        let graph = AtenGraph::parse(BACKWARD);
        let other = AtenGraph::parse(&BACKWARD.replace("32", "20"));
        let moved = AtenGraph::parse(&BACKWARD.replace(":15", ":16"));
        assert_eq!(graph.fingerprint(), other.fingerprint());
        assert_ne!(graph.fingerprint(), moved.fingerprint());
    }

    #[test]
    fn damage_is_left_out() {
        let graph = AtenGraph::parse("%0: f32[3 = input\n%1: f32[4] =\n%2\nreturn %9\n% : = (\n");
        assert!(graph.inputs.is_empty() && graph.outputs.is_empty());
    }
}
