//! The ATen operators of a graph in text: a printed graph of `torch.export` or FX
//! (`torch.ops.aten.relu.default(...)`, `aten.relu.default`), the JSON of a `.pt2` archive, the eager
//! graphs of a `TORCH_TRACE` log (`%1: f32[4] = relu(%0)`), or `aten::relu`.

use std::collections::BTreeMap;

/// Names longer than this are no operators.
const MAX_NAME: usize = 128;

/// The operators that a text calls, with their overload where it is named, and how often.
#[must_use]
pub fn operators(text: &str) -> BTreeMap<String, usize> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for name in text.lines().filter_map(traced) {
        *counts.entry(name.to_owned()).or_default() += 1;
    }
    let mut rest = text;
    while let Some(at) = rest.find("aten") {
        let before = rest.get(..at).unwrap_or_default();
        let is_word = before.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        rest = rest.get(at + "aten".len()..).unwrap_or_default();
        let (after, dotted) = match (rest.strip_prefix("::"), rest.strip_prefix('.')) {
            (Some(after), _) => (after, false),
            (None, Some(after)) => (after, true),
            (None, None) => continue,
        };
        if is_word {
            continue;
        }
        let name = word(after);
        if name.is_empty() || name.len() > MAX_NAME {
            continue;
        }
        let left = after.get(name.len()..).unwrap_or_default();
        let overload = left.strip_prefix('.').map(word).unwrap_or_default();
        // `torch.ops.aten.relu` alone is a packet; `aten::relu.out` names an overload.
        let full = match overload {
            "" if dotted => continue,
            "" => name.to_owned(),
            overload => format!("{name}.{overload}"),
        };
        *counts.entry(full).or_default() += 1;
        rest = left;
    }
    counts
}

/// The operator of a line of an eager graph in a `TORCH_TRACE` log: `%1: f32[4, 8] = mm(%0, %0)`.
fn traced(line: &str) -> Option<&str> {
    let (result, call) = line.trim_start().strip_prefix('%')?.split_once(" = ")?;
    let name = word(call);
    let called = call.get(name.len()..)?.starts_with('(');
    (called && result.contains(": ") && !name.is_empty()).then_some(name)
}

/// The identifier at the beginning of a text.
fn word(text: &str) -> &str {
    let end = text
        .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::operators;

    #[test]
    fn printed_graphs_json_and_traces_are_read() {
        let text = "%relu = call_function[target=torch.ops.aten.relu.default](args = (%x,))\n\
                    relu_1: \"f32[4]\" = torch.ops.aten.relu.default(relu);\n\
                    {\"target\": \"torch.ops.aten.sum.dim_IntList\"} %1 = aten::mm(%0, %0) aten::\n\
                    paten.relu.default aten.cpp torch.ops.aten. aten\n\
                    \t%2: f32[4] = relu(%1)    # /a.py:3 in f\n%0 = stablehlo.add %1, %2\n";
        let counts = operators(text);
        let all: Vec<(&str, usize)> = counts.iter().map(|(k, n)| (k.as_str(), *n)).collect();
        assert_eq!(
            all,
            [
                ("mm", 1),
                ("relu", 1),
                ("relu.default", 2),
                ("sum.dim_IntList", 1)
            ]
        );
    }
}
