//! The ATen operators of a graph in text: a printed graph of `torch.export` or FX
//! (`torch.ops.aten.relu.default(...)`, `aten.relu.default`), the JSON of a `.pt2` archive, the eager
//! graphs of a `TORCH_TRACE` log (`%1: f32[4] = relu(%0)`), or `aten::relu`.

use std::collections::BTreeMap;

/// Names longer than this are no operators.
const MAX_NAME: usize = 128;
/// A place is looked for this far behind a call in JSON.
const MAX_BEHIND: usize = 64 << 10;

/// How an operator is used in a graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// How often it is called.
    pub count: usize,
    /// `file:line` of the first call whose graph says where it comes from.
    pub place: Option<String>,
}

/// The operators that a text calls, with their overload where it is named.
#[must_use]
pub fn operators(text: &str) -> BTreeMap<String, Calls> {
    let mut found = BTreeMap::new();
    // Printed graphs name the place in a comment before the calls that come from there.
    let mut place = None;
    for line in text.lines() {
        let trimmed = line.trim_start();
        if let Some(comment) = trimmed.strip_prefix("# File: ") {
            place = comment
                .split_once(" in ")
                .map(|(place, _)| place.to_owned());
        } else if let Some(name) = traced(trimmed) {
            let comment = trimmed.rsplit_once("# ");
            let place = comment.and_then(|(_, comment)| comment.split_once(" in "));
            add(
                &mut found,
                name.to_owned(),
                place.map(|(at, _)| at.to_owned()),
            );
        } else {
            named(line, place.as_deref(), &mut found);
        }
    }
    found
}

fn add(found: &mut BTreeMap<String, Calls>, name: String, place: Option<String>) {
    let calls = found.entry(name).or_default();
    calls.count += 1;
    if calls.place.is_none() {
        calls.place = place;
    }
}

/// Adds the operators that a line names in full.
fn named(line: &str, place: Option<&str>, found: &mut BTreeMap<String, Calls>) {
    let mut rest = line;
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
        let place = place.map(str::to_owned).or_else(|| recorded(left));
        add(found, full, place);
        rest = left;
    }
}

/// The place that the JSON of an exported program records behind a call, before the next one:
/// `"stack_trace": "File \"/model.py\", line 19, in forward ..."`.
fn recorded(behind: &str) -> Option<String> {
    let behind = behind.get(..behind.floor_char_boundary(MAX_BEHIND))?;
    let node = behind.split("\"target\"").next()?;
    let (_, trace) = node.split_once("File \\\"")?;
    let (file, rest) = trace.split_once("\\\", line ")?;
    let line = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    Some(format!("{file}:{line}"))
}

/// The operator of a line of an eager graph in a `TORCH_TRACE` log: `%1: f32[4, 8] = mm(%0, %0)`.
fn traced(line: &str) -> Option<&str> {
    let (result, call) = line.strip_prefix('%')?.split_once(" = ")?;
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

    fn read(text: &str) -> Vec<(String, usize, Option<String>)> {
        let found = operators(text).into_iter();
        found
            .map(|(name, calls)| (name, calls.count, calls.place))
            .collect()
    }

    #[test]
    fn printed_graphs_name_operators_and_places() {
        let text = "%relu = call_function[target=torch.ops.aten.relu.default](args = (%x,))\n\
                    # File: /m.py:19 in forward, code: return x.relu()\n\
                    relu_1: \"f32[4]\" = torch.ops.aten.relu.default(relu);\n\
                    paten.relu.default aten.cpp torch.ops.aten. aten aten::mm(%0, %0) aten::\n";
        let at = Some("/m.py:19".to_owned());
        assert_eq!(
            read(text),
            [
                ("mm".to_owned(), 1, at.clone()),
                ("relu.default".to_owned(), 2, at)
            ]
        );
    }

    #[test]
    fn exported_programs_record_places() {
        let text = r#"{"nodes": [{"target": "torch.ops.aten.sum.default", "metadata": {}},
            {"target": "torch.ops.aten.mish.default", "metadata": {"stack_trace": "File \"/m.py\", line 7, in forward"}}]}"#
            .replace('\n', "");
        let place = Some("/m.py:7".to_owned());
        assert_eq!(
            read(&text),
            [
                ("mish.default".to_owned(), 1, place),
                ("sum.default".to_owned(), 1, None)
            ]
        );
    }

    #[test]
    fn traces_of_eager_mode_name_operators_and_places() {
        let text = "\t%2: f32[4] = relu(%1)    # /a.py:3 in f\n%0 = stablehlo.add %1, %2\n\
                    \t%0: f32[256, 100] = input\n";
        let place = Some("/a.py:3".to_owned());
        assert_eq!(read(text), [("relu".to_owned(), 1, place)]);
    }
}
