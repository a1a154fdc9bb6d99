//! Findings of source code at a terminal, with the lines, as compilers show them.

use std::io::{self, Write};

use advisors::finding::{Applicability, Finding, Place, Severity};
use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use profiler::units::counted;

use crate::check::Outcome;
use crate::render::safe::{WIDTH, clean, wrap};

/// Writes the findings of a check.
///
/// # Errors
/// When `out` fails.
pub fn report(out: &mut impl Write, outcome: &Outcome) -> io::Result<()> {
    let renderer = Renderer::styled()
        .decor_style(DecorStyle::Ascii)
        .term_width(WIDTH);
    for finding in &outcome.report.findings {
        writeln!(out, "{}\n", renderer.render(&groups(finding)))?;
    }
    for note in &outcome.report.notes {
        for (i, line) in wrap(&clean(&note.message), WIDTH - 10).iter().enumerate() {
            let label = if i == 0 { note.level.as_str() } else { "" };
            writeln!(out, "{label:<8}  {line}")?;
        }
    }
    writeln!(out, "{}", summary(outcome))
}

/// A finding as groups of the renderer: what, where, what to do.
fn groups(finding: &Finding) -> Vec<Group<'_>> {
    let level = match finding.severity {
        Severity::High => Level::ERROR.with_name("high"),
        Severity::Medium => Level::WARNING.with_name("medium"),
        Severity::Low => Level::NOTE.with_name("low"),
        Severity::Info => Level::INFO.with_name("info"),
    };
    let title = level
        .primary_title(clean(&finding.title))
        .id(finding.code.as_str());
    let mut group = Group::with_title(title);
    for (at, place) in finding.places.iter().enumerate() {
        group = group.element(snippet(place, at == 0));
    }
    for exhibit in &finding.evidence {
        let words = crate::render::summary::exhibit(exhibit);
        group = group.element(Level::NOTE.message(clean(&words)));
    }
    for advice in finding.advice.iter().take(2) {
        group = group.element(Level::HELP.message(clean(advice)));
    }
    if let Some(fix) = &finding.fix {
        let how = match fix.applicability {
            Applicability::Safe => "--fix",
            Applicability::Unsafe => "--unsafe-fixes",
            Applicability::DisplayOnly => "by hand",
        };
        let words = format!("fix ({how}, {}): {}", fix.numerics.name(), fix.title);
        group = group.element(Level::HELP.message(clean(&words)));
    }
    for caveat in finding.caveats.iter().take(1) {
        group = group.element(Level::NOTE.message(clean(caveat)));
    }
    vec![group]
}

fn snippet(place: &Place, is_main: bool) -> Snippet<'_, annotate_snippets::Annotation<'_>> {
    let line: String = clean(&place.snippet);
    let start = byte_of(&line, place.column);
    let end = if place.end_line == place.line && place.end_column > place.column {
        byte_of(&line, place.end_column)
    } else {
        line.len()
    };
    let kind = if is_main {
        AnnotationKind::Primary
    } else {
        AnnotationKind::Context
    };
    let mut annotation = kind.span(start..end.max(start));
    if !place.label.is_empty() {
        annotation = annotation.label(clean(&place.label));
    }
    Snippet::source(line)
        .line_start(usize::try_from(place.line).unwrap_or(1).max(1))
        .path(clean(&place.file))
        .annotation(annotation)
}

/// The byte of a column, which counts characters from 1.
fn byte_of(line: &str, column: u64) -> usize {
    let skip = usize::try_from(column.saturating_sub(1)).unwrap_or(usize::MAX);
    line.char_indices()
        .nth(skip)
        .map_or(line.len(), |(at, _)| at)
}

fn summary(outcome: &Outcome) -> String {
    let findings = &outcome.report.findings;
    let count = |severity: Severity| findings.iter().filter(|f| f.severity == severity).count();
    let fixable = |wanted: Applicability| {
        let fixes = findings.iter().filter_map(|finding| finding.fix.as_ref());
        fixes.filter(|fix| fix.applicability == wanted).count()
    };
    let mut words = format!(
        "{}, {}: {} high, {} medium, {} low, {} info",
        counted(outcome.files as u64, "file"),
        counted(outcome.lines, "line"),
        count(Severity::High),
        count(Severity::Medium),
        count(Severity::Low),
        count(Severity::Info),
    );
    let fixed: usize = outcome.fixed.values().sum();
    if fixed > 0 {
        let files = counted(outcome.fixed.len() as u64, "file");
        words.push_str(&format!("; {fixed} fixed in {files}"));
    }
    let (safe, risky) = (fixable(Applicability::Safe), fixable(Applicability::Unsafe));
    if safe + risky > 0 {
        words.push_str(&format!(
            "; {safe} more with --fix, {risky} with --unsafe-fixes"
        ));
    }
    words
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use advisors::finding::{Applicability, Fix, Numerics, Place, Remark};
    use advisors::report::Report;
    use advisors::{Severity, rank, registry};
    use knowledge::advice::AdviceKind;

    use super::report;
    use crate::check::Outcome;

    fn screen(remark: Remark) -> String {
        let rule = registry::RULES[0];
        let outcome = Outcome {
            report: Report::of_source(Vec::new(), vec![rank::remarked(rule, remark)], Vec::new()),
            files: 1,
            lines: 3,
            fixed: BTreeMap::new(),
            patch: String::new(),
        };
        let mut out = anstream::StripStream::new(Vec::new());
        report(&mut out, &outcome).expect("memory is writable");
        String::from_utf8(out.into_inner()).expect("UTF-8")
    }

    #[test]
    fn a_finding_shows_its_line_its_cure_and_its_fix() {
        let mut remark = Remark::new(
            AdviceKind::HostDispatch,
            Severity::Medium,
            "the loss is read on the host in every step",
        );
        remark.places.push(Place {
            file: "train.py".to_owned(),
            line: 12,
            column: 14,
            end_line: 12,
            end_column: 25,
            snippet: "    total += loss.item()".to_owned(),
            label: "waits for the device".to_owned(),
        });
        remark.advice.push("add it up on the device".to_owned());
        remark.fix = Some(Fix {
            title: "use detach()".to_owned(),
            applicability: Applicability::Unsafe,
            numerics: Numerics::BitExact,
            edits: Vec::new(),
        });
        let screen = screen(remark);
        for part in [
            "the loss is read on the host in every step",
            "--> train.py:12:14",
            "12 |     total += loss.item()",
            "^^^^^^^^^^^ waits for the device",
            "help: add it up on the device",
            "fix (--unsafe-fixes, bit-exact): use detach()",
        ] {
            assert!(screen.contains(part), "{part:?} is not in\n{screen}");
        }
    }

    #[test]
    fn hostile_lines_do_not_reach_the_terminal() {
        let mut remark = Remark::new(AdviceKind::Migration, Severity::High, "a\u{1b}[2Jb");
        remark.places.push(Place {
            file: "x\u{202e}.py".to_owned(),
            line: 1,
            column: 900,
            end_line: 1,
            end_column: 3,
            snippet: "\u{1b}]0;title\u{7} x".to_owned(),
            ..Place::default()
        });
        let screen = screen(remark);
        assert!(
            !screen.contains(['\u{1b}', '\u{7}', '\u{202e}']),
            "{screen:?}"
        );
    }
}
