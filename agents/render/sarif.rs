//! Findings as SARIF 2.1.0, for code scanning and editors.

use advisors::finding::{Finding, Fix, OpMention, Place, Severity};
use advisors::report::Report;
use advisors::rule::Rule;
use serde_json::{Value, json};

use crate::render::safe::clean;
use crate::render::summary;

/// The schema that the log says it follows.
const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";
/// Where absolute paths of a profile begin: the file system of the machine that compiled the
/// program, which nobody else has.
const PROFILED_ROOT: &str = "PROFILED_ROOT";

/// The log of a report. `rules` are all that could have found something; `source_root` is what
/// paths in the profile begin with and paths in the repository do not.
#[must_use]
pub fn log(report: &Report, rules: &[&dyn Rule], source_root: Option<&str>) -> Value {
    let results: Vec<Value> = report
        .findings
        .iter()
        .map(|finding| result(finding, rules, source_root))
        .collect();
    let notifications: Vec<Value> = report
        .notes
        .iter()
        .map(|note| {
            json!({
                "descriptor": { "id": note.code },
                "level": if note.level == "warning" { "warning" } else { "note" },
                "message": { "text": message(&note.message) },
                "properties": { "count": note.count },
            })
        })
        .collect();
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "tpu-tune",
                "version": env!("CARGO_PKG_VERSION"),
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules.iter().map(|rule| descriptor(*rule)).collect::<Vec<_>>(),
            }},
            "originalUriBaseIds": { PROFILED_ROOT: { "description": { "text":
                "root of the file system on which the profiled program was traced" } } },
            "invocations": [{
                "executionSuccessful": true,
                "toolExecutionNotifications": notifications,
            }],
            "results": results,
            "columnKind": "unicodeCodePoints",
            "properties": {
                "stepMedianMs": report.steps.time.median_ms,
                "combinedSavingMs": report.combined_saving_ms,
                "chip": report.chip.as_ref().map(|chip| chip.generation.as_str()),
                "origin": report.origin,
            },
        }],
    })
}

fn descriptor(rule: &dyn Rule) -> Value {
    json!({
        "id": rule.code(),
        "name": rule.name(),
        "shortDescription": { "text": message(rule.summary()) },
        "help": { "text": rule.card(), "markdown": rule.card() },
        "defaultConfiguration": { "level": "warning" },
    })
}

fn level(severity: Severity) -> &'static str {
    match severity {
        // A slow program is no error: code scanning fails a build on those.
        Severity::High | Severity::Medium => "warning",
        Severity::Low | Severity::Info => "note",
    }
}

fn result(finding: &Finding, rules: &[&dyn Rule], source_root: Option<&str>) -> Value {
    let mut text = finding.title.clone();
    if let Some(saving) = &finding.saving {
        text.push_str(&format!(". Saves {}", summary::saving(saving)));
    }
    if let Some(advice) = finding.advice.first() {
        text.push_str(&format!(". Do: {advice}"));
    }
    let mut result = json!({
        "ruleId": finding.code,
        "level": level(finding.severity),
        "kind": "fail",
        "message": { "text": message(&text) },
        "partialFingerprints": { "tpuTuneFinding/v1": finding.fingerprint },
        "locations": locations(finding, source_root),
        "properties": {
            "severity": finding.severity.name(),
            "saving": finding.saving,
            "confidence": finding.confidence,
            "operations": finding.op_count,
            "advice": finding.advice,
            "caveats": finding.caveats,
        },
    });
    let edits = finding.fix.as_ref().filter(|fix| !fix.edits.is_empty());
    if let Some(fix) = edits {
        result["fixes"] = json!([fix_of(fix)]);
    }
    if let Some(index) = rules.iter().position(|rule| rule.code() == finding.code) {
        result["ruleIndex"] = json!(index);
    }
    if let Some(saving) = &finding.saving {
        result["rank"] = json!((100.0 * saving.share_of_step).clamp(0.0, 100.0));
    }
    result
}

/// A fix: what it does, and its replacements by file.
fn fix_of(fix: &Fix) -> Value {
    let words = format!(
        "{} ({}, numerics: {})",
        fix.title,
        fix.applicability.name(),
        fix.numerics.name()
    );
    let changes = fix.edits.iter().map(|edit| {
        json!({
            "artifactLocation": { "uri": encode(&edit.file) },
            "replacements": [{
                "deletedRegion": {
                    "byteOffset": edit.start,
                    "byteLength": edit.end.saturating_sub(edit.start),
                },
                "insertedContent": { "text": edit.replacement },
            }],
        })
    });
    json!({
        "description": { "text": message(&words) },
        "artifactChanges": changes.collect::<Vec<_>>(),
    })
}

/// One location: the first operation whose source is known, else the first operation.
fn locations(finding: &Finding, source_root: Option<&str>) -> Vec<Value> {
    if !finding.places.is_empty() {
        return finding.places.iter().map(text_location).collect();
    }
    let known = finding
        .ops
        .iter()
        .find_map(|op| Some((op, physical(&op.source, source_root)?)));
    match known {
        Some((op, place)) => vec![json!({
            "physicalLocation": place,
            "logicalLocations": [logical(op)],
        })],
        None => finding
            .ops
            .first()
            .map(|op| json!({ "logicalLocations": [logical(op)] }))
            .into_iter()
            .collect(),
    }
}

/// A place in a text that the user gave: its path is relative to where they ran the command, or
/// absolute.
fn text_location(place: &Place) -> Value {
    let mut region = json!({ "startLine": place.line.max(1) });
    let mut set = |key: &str, value: u64| {
        if value > 0 {
            region[key] = json!(value);
        }
    };
    set("startColumn", place.column);
    set("endLine", place.end_line);
    set("endColumn", place.end_column);
    if !place.snippet.is_empty() {
        region["snippet"] = json!({ "text": clean(&place.snippet) });
    }
    json!({ "physicalLocation": {
        "artifactLocation": { "uri": encode(&place.file) },
        "region": region,
    }})
}

fn logical(op: &OpMention) -> Value {
    let name = clean(&op.name);
    let full = if op.module.is_empty() {
        name.clone()
    } else {
        format!("{}/{name}", clean(&op.module))
    };
    json!({ "name": name, "fullyQualifiedName": full, "kind": "HLO instruction" })
}

/// Where `file:line` is, if it says a line.
fn physical(source: &str, source_root: Option<&str>) -> Option<Value> {
    let (mut file, mut number) = source.rsplit_once(':')?;
    // `file:line:column`.
    if let Some((before, line)) = file.rsplit_once(':')
        && line.parse::<u32>().is_ok()
    {
        (file, number) = (before, line);
    }
    let line = number.parse::<u32>().ok().filter(|line| *line > 0)?;
    if file.is_empty() || file.starts_with('<') {
        return None;
    }
    let in_repository = source_root.and_then(|root| {
        let rest = file.strip_prefix(root.trim_end_matches('/'))?;
        rest.strip_prefix('/')
    });
    let path = in_repository.unwrap_or(file);
    let is_absolute = path.starts_with('/');
    let relative = path.trim_start_matches('/').trim_start_matches("./");
    let mut artifact = json!({ "uri": encode(relative) });
    if is_absolute {
        artifact["uriBaseId"] = json!(PROFILED_ROOT);
    }
    Some(json!({ "artifactLocation": artifact, "region": { "startLine": line } }))
}

/// A path as the path of a relative URI.
fn encode(path: &str) -> String {
    let mut uri = String::with_capacity(path.len());
    for byte in path.replace('\\', "/").bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(char::from(byte));
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

/// Text in which neither a placeholder (`{0}`) nor a link (`[text](target)`) is seen.
fn message(text: &str) -> String {
    clean(text)
        .replace('{', "{{")
        .replace('}', "}}")
        .replace("](", "] (")
}

#[cfg(test)]
mod tests {
    use super::{message, physical};
    use serde_json::json;

    #[test]
    fn paths_are_relative_and_encoded() {
        let absolute = physical("/home/me/my model.py:12", None).expect("a place");
        assert_eq!(
            absolute,
            json!({
                "artifactLocation": { "uri": "home/me/my%20model.py", "uriBaseId": "PROFILED_ROOT" },
                "region": { "startLine": 12 },
            })
        );
        let relative = physical("model.py:7:3", None).expect("a place");
        assert_eq!(relative["artifactLocation"], json!({ "uri": "model.py" }));
        assert_eq!(relative["region"]["startLine"], 7);
        let rooted = physical("/home/me/src/a.py:1", Some("/home/me/")).expect("a place");
        assert_eq!(rooted["artifactLocation"], json!({ "uri": "src/a.py" }));
        // A folder that only begins alike is another one.
        let other = physical("/home/meadow/a.py:1", Some("/home/me")).expect("a place");
        assert_eq!(other["artifactLocation"]["uri"], "home/meadow/a.py");
    }

    #[test]
    fn what_is_no_place_is_none() {
        for source in ["", "model.py", "model.py:0", ":3", "<stdin>:4", "a:b"] {
            assert_eq!(physical(source, None), None, "{source}");
        }
    }

    #[test]
    fn messages_have_no_placeholders_or_links() {
        assert_eq!(message("f32[8]{0} [a](b)"), "f32[8]{{0}} [a] (b)");
    }
}
