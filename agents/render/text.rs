//! The report at a terminal: readable at 80 columns, colours only where they are wanted.

use std::io::{self, Write};

use advisors::finding::{Finding, Severity};
use advisors::report::Report;
use anstyle::{AnsiColor, Style};
use profiler::units::{self, Bytes};

use crate::render::safe::{WIDTH, clean, shorten, wrap};
use crate::render::summary;
use crate::render::table::{Align, Table};

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();

/// Writes the whole report.
///
/// # Errors
/// When `out` fails.
pub fn report(out: &mut impl Write, report: &Report, verbose: bool) -> io::Result<()> {
    header(out, report)?;
    breakdown(out, report)?;
    findings(out, report, verbose)?;
    notes(out, report)
}

fn header(out: &mut impl Write, report: &Report) -> io::Result<()> {
    for input in &report.inputs {
        writeln!(
            out,
            "{BOLD}{}{BOLD:#}  {DIM}{}, {}{DIM:#}",
            clean(&input.path),
            input.format,
            Bytes(input.stored_bytes)
        )?;
    }
    for (label, words) in summary::facts(report) {
        wrapped(out, &format!("{label:<8}"), &words)?;
    }
    writeln!(out)
}

fn breakdown(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let rows = summary::breakdown(report);
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "{BOLD}Where the time goes{BOLD:#} {DIM}(mean over cores; from step to step){DIM:#}"
    )?;
    let mut table = Table::new([
        ("category", Align::Left),
        ("ms/step", Align::Right),
        ("%", Align::Right),
        ("", Align::Left),
    ]);
    for (name, ms, share) in rows {
        table.row([
            shorten(&clean(&name), 32),
            format!("{ms:.3}"),
            format!("{:.1}", 100.0 * share),
            bar(share),
        ]);
    }
    table.write(out)?;
    writeln!(out)
}

/// A share as a bar of at most half a line.
fn bar(share: f64) -> String {
    let length = (share * 30.0).round().clamp(0.0, 30.0);
    "#".repeat(length as usize)
}

/// Findings with a saving that are shown without `-v`.
const SHOWN: usize = 8;

fn findings(out: &mut impl Write, report: &Report, verbose: bool) -> io::Result<()> {
    if report.findings.is_empty() {
        return writeln!(out, "{BOLD}No findings.{BOLD:#}\n");
    }
    let (savings, remarks): (Vec<&Finding>, Vec<&Finding>) = report
        .findings
        .iter()
        .partition(|finding| finding.saving.is_some() || finding.severity != Severity::Info);
    let shown = if verbose {
        savings.len()
    } else {
        SHOWN.min(savings.len())
    };
    if savings.iter().any(|finding| finding.saving.is_some()) {
        writeln!(
            out,
            "{BOLD}Findings{BOLD:#} {DIM}(best first: saving times how often such advice helped){DIM:#}"
        )?;
    } else if !savings.is_empty() {
        writeln!(
            out,
            "{BOLD}Findings{BOLD:#} {DIM}(what weighs most first){DIM:#}"
        )?;
    }
    for (i, finding) in savings.iter().take(shown).enumerate() {
        writeln!(out)?;
        headline(out, &format!("{}. ", i + 1), finding)?;
        if verbose {
            details(out, finding)?
        } else {
            gist(out, finding)?
        }
    }
    if shown < savings.len() {
        let rest = savings.len() - shown;
        writeln!(out, "\n{DIM}and {rest} smaller ones with -v{DIM:#}")?;
    }
    if !remarks.is_empty() {
        let gap = if savings.is_empty() { "" } else { "\n" };
        writeln!(
            out,
            "{gap}{BOLD}Worth knowing{BOLD:#} {DIM}(no saving claimed){DIM:#}\n"
        )?;
        for finding in remarks {
            headline(out, "", finding)?;
            if verbose {
                details(out, finding)?;
            }
        }
    }
    writeln!(out)?;
    if let Some(words) = summary::together(report) {
        wrapped(out, "", &words)?;
        writeln!(out)?;
    }
    Ok(())
}

fn severity_style(severity: Severity) -> Style {
    match severity {
        Severity::High => AnsiColor::Red.on_default().bold(),
        Severity::Medium => AnsiColor::Yellow.on_default().bold(),
        Severity::Low => AnsiColor::Cyan.on_default(),
        Severity::Info => DIM,
    }
}

fn headline(out: &mut impl Write, number: &str, finding: &Finding) -> io::Result<()> {
    let head = format!("{number}{} ", finding.code);
    let severity = match finding.severity {
        Severity::Info => String::new(),
        severity => format!("{:<7}", severity.name()),
    };
    let indent = head.len() + severity.len();
    let style = severity_style(finding.severity);
    let lines = wrap(&clean(&finding.title), WIDTH.saturating_sub(indent));
    for (i, line) in lines.iter().enumerate() {
        if i == 0 {
            writeln!(out, "{head}{style}{severity}{style:#}{BOLD}{line}{BOLD:#}")?;
        } else {
            writeln!(out, "{}{BOLD}{line}{BOLD:#}", " ".repeat(indent))?;
        }
    }
    Ok(())
}

/// A finding in a few lines: what it saves, where, why, and what to do first.
fn gist(out: &mut impl Write, finding: &Finding) -> io::Result<()> {
    if let Some(saving) = &finding.saving {
        let odds = summary::odds_in_short(&finding.confidence);
        wrapped(
            out,
            "   saves  ",
            &format!("{}; odds {odds}", summary::saving_in_short(saving)),
        )?;
    }
    if let Some(op) = finding.ops.first() {
        let others = match finding.op_count {
            0 | 1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        let place = if op.source.is_empty() {
            String::new()
        } else {
            format!("{}  ", summary::place(&op.source, 48))
        };
        wrapped(out, "   where  ", &format!("{place}{}{others}", op.name))?;
    }
    if let Some(lost) = finding.lost_s {
        wrapped(out, "   lost   ", &units::seconds(lost))?;
    }
    if let Some(place) = finding.places.first() {
        let others = match finding.places.len() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        wrapped(
            out,
            "   where  ",
            &format!("{}{others}", summary::text_place(place)),
        )?;
    }
    for exhibit in finding.evidence.iter().take(3) {
        wrapped(out, "   seen   ", &summary::exhibit(exhibit))?;
    }
    if let Some(advice) = finding.advice.first() {
        wrapped(out, "   do     ", advice)?;
    }
    Ok(())
}

/// All of a finding.
fn details(out: &mut impl Write, finding: &Finding) -> io::Result<()> {
    if let Some(saving) = &finding.saving {
        wrapped(out, "   saves  ", &summary::saving(saving))?;
        wrapped(out, "   from   ", &saving.formula)?;
        wrapped(out, "   odds   ", &summary::odds(&finding.confidence))?;
    }
    if let Some(lost) = finding.lost_s {
        wrapped(out, "   lost   ", &units::seconds(lost))?;
    }
    for place in &finding.places {
        let mut line = summary::text_place(place);
        for words in [&place.label, &place.snippet] {
            if !words.trim().is_empty() {
                line.push_str(&format!("  {}", words.trim()));
            }
        }
        wrapped(out, "   where  ", &line)?;
    }
    let mut last_source = "";
    for op in &finding.ops {
        let place = if op.source.is_empty() || op.source == last_source {
            String::new()
        } else {
            format!("  {}", op.source)
        };
        last_source = &op.source;
        let line = format!("{} {}{place}", op.name, summary::ms(op.self_ms_per_step));
        wrapped(out, "   op     ", &line)?;
    }
    if finding.op_count > finding.ops.len() {
        let rest = finding.op_count - finding.ops.len();
        writeln!(out, "{DIM}          and {rest} more{DIM:#}")?;
    }
    for exhibit in &finding.evidence {
        let mut line = summary::exhibit(exhibit);
        if !exhibit.source.is_empty() {
            line.push_str(&format!("  [{}]", exhibit.source));
        }
        wrapped(out, "   seen   ", &line)?;
    }
    for advice in &finding.advice {
        wrapped(out, "   do     ", advice)?;
    }
    for caveat in &finding.caveats {
        wrapped(out, "   mind   ", caveat)?;
    }
    Ok(())
}

fn notes(out: &mut impl Write, report: &Report) -> io::Result<()> {
    for note in &report.notes {
        let style = if note.level == "warning" {
            AnsiColor::Yellow.on_default()
        } else {
            DIM
        };
        let times = if note.count > 1 {
            format!(" ({} times)", note.count)
        } else {
            String::new()
        };
        let message = format!("{}{times}", clean(&note.message));
        for (i, line) in wrap(&message, WIDTH - 10).iter().enumerate() {
            let label = if i == 0 { note.level.as_str() } else { "" };
            writeln!(out, "{style}{label:<8}{style:#}  {line}")?;
        }
    }
    let more = "details: -v; a rule's card: tpu-tune explain CODE; JSON: --format json";
    writeln!(out, "{DIM}{more}{DIM:#}")
}

/// Writes text wrapped behind a label, further lines indented alike.
fn wrapped(out: &mut impl Write, label: &str, text: &str) -> io::Result<()> {
    let indent = " ".repeat(label.len());
    let width = WIDTH.saturating_sub(label.len());
    for (i, line) in wrap(&clean(text), width).iter().enumerate() {
        if i == 0 {
            writeln!(out, "{DIM}{label}{DIM:#}{line}")?;
        } else {
            writeln!(out, "{indent}{line}")?;
        }
    }
    Ok(())
}
