//! The report as GitHub-flavoured Markdown, for pull requests, issues and job summaries.
//!
//! What a profile says is data: a name must neither format the page nor mention a person, link to
//! an issue or carry HTML. [`escape`] makes text inert, [`code`] sets a name as code.

use std::io::{self, Write};

use advisors::finding::Finding;
use advisors::report::Report;
use profiler::units::{self, Bytes};

use crate::render::safe::clean;
use crate::render::summary;
use crate::render::table::{Align, Table};

/// A space of no width: it keeps GitHub from seeing a mention, an issue, a link or an emoji.
const JOINT: &str = "&#8203;";

/// Text that Markdown shows as it is, on one line.
#[must_use]
pub fn escape(text: &str) -> String {
    let safe = clean(text);
    let mut out = String::with_capacity(safe.len() + safe.len() / 8);
    let mut rest = safe.as_str();
    while let Some(c) = rest.chars().next() {
        let after = rest.get(c.len_utf8()..).unwrap_or_default();
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '@' => {
                out.push('@');
                out.push_str(JOINT);
            }
            // `#12` is an issue, `# x` a heading.
            '#' => {
                out.push_str("\\#");
                if after.starts_with(|c: char| c.is_ascii_alphanumeric()) {
                    out.push_str(JOINT);
                }
            }
            // `://` makes a link, `:100:` an emoji.
            ':' => {
                out.push(':');
                let word = after
                    .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '+' | '-')))
                    .unwrap_or(after.len());
                let emoji = word > 0 && after.get(word..).is_some_and(|t| t.starts_with(':'));
                if emoji || after.starts_with("//") {
                    out.push_str(JOINT);
                }
            }
            '.' if out.ends_with("www") || out.ends_with("WWW") => {
                out.push_str(JOINT);
                out.push('.');
            }
            // At the start, `1. x` and `- x` begin a list, `---` a rule.
            '.' | ')' if ends_word(after) && out.bytes().all(|b| b.is_ascii_digit()) => {
                out.push('\\');
                out.push(c);
            }
            '+' | '-' | '=' if out.is_empty() && (ends_word(after) || after.starts_with(c)) => {
                out.push('\\');
                out.push(c);
            }
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '$' | '!' => {
                out.push('\\');
                out.push(c);
            }
            _ => out.push(c),
        }
        rest = after;
    }
    out
}

fn ends_word(after: &str) -> bool {
    after.is_empty() || after.starts_with(' ')
}

/// A name set as code: nothing in it formats, links or mentions. A pipe is escaped, as tables need
/// it even in code.
#[must_use]
pub fn code(name: &str) -> String {
    let name = clean(name);
    let name = name.trim();
    if name.is_empty() {
        return String::new();
    }
    let longest = name.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let pad = if name.starts_with('`') || name.ends_with('`') {
        " "
    } else {
        ""
    };
    format!("{fence}{pad}{}{pad}{fence}", name.replace('|', "\\|"))
}

/// Writes the report.
///
/// # Errors
/// When `out` fails.
pub fn report(out: &mut impl Write, report: &Report, verbose: bool) -> io::Result<()> {
    writeln!(out, "## TPU profile report")?;
    writeln!(out)?;
    for input in &report.inputs {
        writeln!(
            out,
            "- **Input**: {} ({}, {})",
            code(&input.path),
            escape(&input.format),
            Bytes(input.stored_bytes)
        )?;
    }
    for (label, words) in summary::facts(report) {
        if label.is_empty() {
            writeln!(out, "  ({})", escape(&words))?;
        } else {
            writeln!(out, "- **{label}**: {}", escape(&words))?;
        }
    }
    breakdown(out, report)?;
    findings(out, report, verbose)?;
    notes(out, report)
}

fn breakdown(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let rows = summary::breakdown(report);
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n### Where the time goes\n")?;
    let mut table = Table::new([
        ("category", Align::Left),
        ("ms/step", Align::Right),
        ("%", Align::Right),
    ]);
    for (name, ms, share) in rows {
        table.row([name, format!("{ms:.3}"), format!("{:.1}", 100.0 * share)]);
    }
    table.write_markdown(out)?;
    writeln!(out, "\nMean over cores, from step to step.")
}

fn findings(out: &mut impl Write, report: &Report, verbose: bool) -> io::Result<()> {
    writeln!(out, "\n### Findings")?;
    if report.findings.is_empty() {
        return writeln!(out, "\nNone.");
    }
    for (i, found) in report.findings.iter().enumerate() {
        finding(out, i + 1, found, verbose)?;
    }
    if let Some(words) = summary::together(report) {
        writeln!(out, "\n{}", escape(&words))?;
    }
    Ok(())
}

fn finding(
    out: &mut impl Write,
    number: usize,
    finding: &Finding,
    verbose: bool,
) -> io::Result<()> {
    let severity = finding.severity.name();
    let title = escape(&finding.title);
    writeln!(
        out,
        "\n#### {number}. {} ({severity}): {title}\n",
        escape(&finding.code)
    )?;
    if let Some(saving) = &finding.saving {
        writeln!(out, "- **Saves**: {}", escape(&summary::saving(saving)))?;
        if verbose {
            writeln!(out, "- **From**: {}", escape(&saving.formula))?;
        }
        let odds = summary::odds(&finding.confidence);
        writeln!(out, "- **Odds**: {}", escape(&odds))?;
    }
    if let Some(lost) = finding.lost_s {
        writeln!(out, "- **Lost**: {}", units::seconds(lost))?;
    }
    for place in &finding.places {
        let label = if place.label.is_empty() {
            String::new()
        } else {
            format!(": {}", escape(&place.label))
        };
        writeln!(
            out,
            "- **Where**: {}{label}",
            code(&summary::text_place(place))
        )?;
    }
    for advice in &finding.advice {
        writeln!(out, "- **Do**: {}", escape(advice))?;
    }
    for caveat in &finding.caveats {
        writeln!(out, "- **Mind**: {}", escape(caveat))?;
    }
    if !finding.evidence.is_empty() {
        writeln!(out, "\nSeen:\n")?;
    }
    for exhibit in &finding.evidence {
        write!(out, "- {}", escape(&summary::exhibit(exhibit)))?;
        if verbose && !exhibit.source.is_empty() {
            write!(out, " ({})", escape(&exhibit.source))?;
        }
        writeln!(out)?;
    }
    if finding.ops.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let mut table = Table::new([
        ("operation", Align::Left),
        ("program", Align::Left),
        ("source", Align::Left),
        ("ms/step", Align::Right),
    ]);
    for op in &finding.ops {
        table.row([
            op.name.clone(),
            op.module.clone(),
            op.source.clone(),
            format!("{:.3}", op.self_ms_per_step),
        ]);
    }
    table.write_markdown(out)?;
    let more = finding.op_count.saturating_sub(finding.ops.len());
    if more > 0 {
        writeln!(out, "\nand {more} more operations")?;
    }
    Ok(())
}

fn notes(out: &mut impl Write, report: &Report) -> io::Result<()> {
    if report.notes.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n### Notes on the input\n")?;
    for note in &report.notes {
        let times = if note.count > 1 {
            format!(" ({} times)", note.count)
        } else {
            String::new()
        };
        let message = escape(&note.message);
        writeln!(out, "- **{}**: {message}{times}", escape(&note.level))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{code, escape};

    #[test]
    fn hostile_text_is_inert() {
        let cases = [
            ("<img src=x onerror=y>", "&lt;img src=x onerror=y&gt;"),
            ("@octocat", "@&#8203;octocat"),
            ("fixes #12", "fixes \\#&#8203;12"),
            ("[a](http://b)", "\\[a\\](http:&#8203;//b)"),
            ("www.a.b", "www&#8203;.a.b"),
            ("a|b `c` *d* _e_", "a\\|b \\`c\\` \\*d\\* \\_e\\_"),
            ("m.py:100:5", "m.py:&#8203;100:5"),
            ("1. one", "1\\. one"),
            ("1.5 +2", "1.5 +2"),
            ("-0.25", "-0.25"),
            ("---", "\\---"),
            ("- item\n# head", "\\- item?\\# head"),
            ("$x$ ~~y~~ &lt;", "\\$x\\$ \\~\\~y\\~\\~ &amp;lt;"),
        ];
        for (text, want) in cases {
            assert_eq!(escape(text), want, "{text}");
        }
    }

    #[test]
    fn code_cannot_be_closed_from_inside() {
        assert_eq!(code("fusion.1"), "`fusion.1`");
        assert_eq!(code("a`b``c"), "```a`b``c```");
        assert_eq!(code("`x`"), "`` `x` ``");
        assert_eq!(code("a|b"), "`a\\|b`");
        assert_eq!(code(""), "");
    }
}
