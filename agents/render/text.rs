//! The report at a terminal: readable at 80 columns, colours only where they are wanted.

use std::io::{self, Write};

use advisors::finding::{Exhibit, Finding, Severity, Value};
use advisors::report::{BreakdownRow, Report};
use anstyle::{AnsiColor, Style};
use profiler::evidence::Spread;
use profiler::session::{Device, Session};
use profiler::units::{Bytes, percent, with_digits};

use crate::render::table::{Align, Table};

/// Width that text is wrapped to.
const WIDTH: usize = 80;
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
    let cores = report
        .devices
        .iter()
        .filter(|device| device.kind == "tensor-core")
        .count();
    let hosts = match report.hosts.len() {
        0 | 1 => String::new(),
        hosts => format!(" on {hosts} hosts"),
    };
    match &report.chip {
        Some(chip) => {
            let basis = match chip.basis.as_str() {
                "stated" => String::new(),
                "given" => " (given with --chip)".to_owned(),
                _ => format!(" ({}: {})", chip.basis, clean(&chip.reason)),
            };
            let line = format!("{} {}{hosts}{basis}", cores, chip.product_name);
            wrapped(out, "Chip    ", &line)?;
        }
        None => {
            let line =
                format!("unknown; {cores} TensorCores{hosts}; give --chip for rooflines and MFU");
            wrapped(out, "Chip    ", &line)?;
        }
    }
    let time = &report.steps.time;
    let step = match time.count {
        0 => "none found".to_owned(),
        1 => format!("{:.3} ms, one step", time.median_ms),
        count => format!(
            "median {:.3} ms, p90 {:.3} ms, {count} steps ({:.3} to {:.3} ms)",
            time.median_ms, time.p90_ms, time.min_ms, time.max_ms
        ),
    };
    wrapped(out, "Step    ", &step)?;
    let mut basis = clean(&report.steps.basis);
    if report.steps.cut > 0 {
        basis.push_str(&format!(
            "; {} cut by the capture's ends left out",
            report.steps.cut
        ));
    }
    if report.steps.period.count > 0 {
        basis.push_str(&format!(
            "; {:.3} ms start to start",
            report.steps.period.median_ms
        ));
    }
    wrapped(out, "        ", &basis)?;
    if let Some(used) = &report.utilization {
        let with = used.mfu_with_custom_calls;
        let without = used.mfu_without_custom_calls;
        let mut line = format!("{} without custom calls", percent(without));
        if with > without {
            line.push_str(&format!(", {} with", percent(with)));
        }
        if used.custom_calls_without_flops > 0 {
            let calls = used.custom_calls_without_flops;
            line.push_str(&format!(" ({calls} custom calls state no FLOPs)"));
        }
        wrapped(out, "MFU     ", &line)?;
    }
    if let Some(memory) = &report.memory {
        wrapped(
            out,
            "HBM     ",
            &format!(
                "peak {} of {}, {} free",
                Bytes(memory.peak_bytes),
                Bytes(memory.capacity_bytes),
                Bytes(memory.free_bytes)
            ),
        )?;
    }
    writeln!(out)
}

/// Categories below this share of the step are summed up as one row.
const SMALL_SHARE: f64 = 0.005;

fn breakdown(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let rows = &report.breakdown.categories;
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
    let mut add = |name: &str, ms: f64, share: f64| {
        let bar = "#".repeat((share * 40.0).round().clamp(0.0, 40.0) as usize);
        table.row([
            shorten(&clean(name), 32),
            format!("{ms:.3}"),
            format!("{:.1}", 100.0 * share),
            bar,
        ]);
    };
    let (large, small): (Vec<&BreakdownRow>, Vec<&BreakdownRow>) =
        rows.iter().partition(|row| row.share >= SMALL_SHARE);
    for row in large {
        add(&row.name, row.self_ms_per_step, row.share);
    }
    if !small.is_empty() {
        let ms = small.iter().map(|row| row.self_ms_per_step).sum();
        let share = small.iter().map(|row| row.share).sum();
        add(&format!("{} smaller categories", small.len()), ms, share);
    }
    let window = report.breakdown.window_ms_per_step;
    for (name, ms) in [
        (
            "idle between programs",
            report.breakdown.idle_between_ms_per_step,
        ),
        (
            "idle inside programs",
            report.breakdown.idle_inside_ms_per_step,
        ),
    ] {
        let share = if window > 0.0 { ms / window } else { 0.0 };
        if share >= 0.0005 {
            add(name, ms, share);
        }
    }
    table.write(out)?;
    writeln!(out)
}

fn findings(out: &mut impl Write, report: &Report, verbose: bool) -> io::Result<()> {
    if report.findings.is_empty() {
        return writeln!(out, "{BOLD}No findings.{BOLD:#}\n");
    }
    let saving = report
        .findings
        .iter()
        .any(|finding| finding.saving.is_some());
    writeln!(
        out,
        "{BOLD}Findings{BOLD:#} {DIM}(best first: saving times how often such advice helped){DIM:#}"
    )?;
    for (i, finding) in report.findings.iter().enumerate() {
        writeln!(out)?;
        finding_text(out, i + 1, finding, verbose)?;
    }
    writeln!(out)?;
    if saving && report.steps.time.median_ms > 0.0 {
        let share = report.combined_saving_ms / report.steps.time.median_ms;
        let together = format!(
            "all of them together, if all work: {} of each step ({}); no saving is proven before it is measured",
            with_digits(report.combined_saving_ms, "ms"),
            percent(share)
        );
        wrapped(out, "", &together)?;
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

fn finding_text(
    out: &mut impl Write,
    number: usize,
    finding: &Finding,
    verbose: bool,
) -> io::Result<()> {
    let style = severity_style(finding.severity);
    let head = format!("{number}. {} ", finding.code);
    let title = wrap(&clean(&finding.title), WIDTH.saturating_sub(head.len() + 9));
    for (i, line) in title.iter().enumerate() {
        if i == 0 {
            let name = finding.severity.name();
            writeln!(out, "{head}{style}{name:<8}{style:#} {BOLD}{line}{BOLD:#}")?;
        } else {
            writeln!(out, "{}{BOLD}{line}{BOLD:#}", " ".repeat(head.len() + 9))?;
        }
    }
    if let Some(saving) = &finding.saving {
        let band = format!(
            "{} a step expected ({}), {} to {}, never more than {}; {}",
            with_digits(saving.expected_ms, "ms"),
            percent(saving.share_of_step),
            with_digits(saving.low_ms, "ms"),
            with_digits(saving.high_ms, "ms"),
            with_digits(saving.upper_bound_ms, "ms"),
            basis_name(saving.basis),
        );
        wrapped(out, "   saves  ", &band)?;
        if verbose {
            wrapped(out, "   from   ", &clean(&saving.formula))?;
        }
        let confidence = &finding.confidence;
        let decided = confidence.supported + confidence.refuted;
        let odds = if decided > 0 {
            format!(
                "{} that such advice helps: {} of {decided} published tries of {} did",
                percent(confidence.probability),
                confidence.supported,
                confidence.kind
            )
        } else {
            format!(
                "{} that such advice helps: the base rate of all advice, none counted for {}",
                percent(confidence.probability),
                confidence.kind
            )
        };
        wrapped(out, "   odds   ", &odds)?;
    }
    let shown = if verbose { finding.ops.len() } else { 3 };
    for op in finding.ops.iter().take(shown) {
        let place = if op.source.is_empty() {
            String::new()
        } else {
            format!("  {}", clean(&op.source))
        };
        let line = format!("{} {:.3} ms{place}", clean(&op.name), op.self_ms_per_step);
        wrapped(out, "   op     ", &line)?;
    }
    if finding.op_count > shown && shown > 0 {
        writeln!(
            out,
            "{DIM}          and {} more{DIM:#}",
            finding.op_count - shown
        )?;
    }
    let exhibits = if verbose { finding.evidence.len() } else { 6 };
    for exhibit in finding.evidence.iter().take(exhibits) {
        let mut line = format!(
            "{}: {}",
            clean(&exhibit.what),
            clean(&exhibit_value(exhibit))
        );
        if verbose && !exhibit.source.is_empty() {
            line.push_str(&format!("  [{}]", clean(&exhibit.source)));
        }
        wrapped(out, "   seen   ", &line)?;
    }
    for advice in &finding.advice {
        wrapped(out, "   do     ", &clean(advice))?;
    }
    if verbose {
        for caveat in &finding.caveats {
            wrapped(out, "   mind   ", &clean(caveat))?;
        }
    }
    Ok(())
}

fn basis_name(basis: advisors::finding::Basis) -> &'static str {
    match basis {
        advisors::finding::Basis::Measured => "measured",
        advisors::finding::Basis::Modelled => "modelled",
        advisors::finding::Basis::LookedUp => "looked up",
    }
}

/// A value as people read it.
#[must_use]
pub fn exhibit_value(exhibit: &Exhibit) -> String {
    match &exhibit.value {
        Value::Number { number, unit } if unit == "bytes" => Bytes(*number as u64).to_string(),
        Value::Number { number, unit } => with_digits(*number, unit).trim_end().to_owned(),
        Value::Text { text } => text.clone(),
    }
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
    for (i, line) in wrap(text, WIDTH - label.len()).iter().enumerate() {
        if i == 0 {
            writeln!(out, "{DIM}{label}{DIM:#}{line}")?;
        } else {
            writeln!(out, "{indent}{line}")?;
        }
    }
    Ok(())
}

/// Breaks text at spaces into lines of at most `width` characters; a longer word is broken.
#[must_use]
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(10);
    let mut lines = vec![String::new()];
    let mut length = 0;
    for word in text.split_whitespace() {
        let mut rest: Vec<char> = word.chars().collect();
        loop {
            let space = usize::from(length > 0);
            if length + space + rest.len() <= width {
                if space == 1 {
                    lines.last_mut().expect("there is a line").push(' ');
                }
                lines.last_mut().expect("there is a line").extend(&rest);
                length += space + rest.len();
                break;
            }
            if length > 0 {
                lines.push(String::new());
                length = 0;
                continue;
            }
            let tail = rest.split_off(width);
            lines.last_mut().expect("there is a line").extend(&rest);
            lines.push(String::new());
            rest = tail;
        }
    }
    lines
}

/// A name from a profile made safe for a terminal: control characters become `?`.
#[must_use]
pub fn clean(text: &str) -> String {
    let unsafe_for_terminals = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars()
        .map(|c| if unsafe_for_terminals(c) { '?' } else { c })
        .collect()
}

/// At most `max` characters, the middle left out.
#[must_use]
pub fn shorten(text: &str, max: usize) -> String {
    let chars: Vec<char> = text.chars().collect();
    if chars.len() <= max {
        return text.to_owned();
    }
    let tail = (max - 1) / 3;
    let head: String = chars[..max - 1 - tail].iter().collect();
    let end: String = chars[chars.len() - tail..].iter().collect();
    format!("{head}…{end}")
}

/// A count per step: whole where it is whole.
#[must_use]
pub fn count(value: f64) -> String {
    if (value - value.round()).abs() < 0.005 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}

/// Order statistics in a line.
#[must_use]
pub fn spread(spread: &Spread) -> String {
    format!(
        "median {:.3} ms, p90 {:.3} ms, {:.3} to {:.3} ms, {} steps",
        spread.median_ps.as_ms(),
        spread.p90_ps.as_ms(),
        spread.min_ps.as_ms(),
        spread.max_ps.as_ms(),
        spread.count
    )
}

/// A device's name, with its host where there are several.
#[must_use]
pub fn device_name(session: &Session, device: &Device) -> String {
    let plane = clean(device.plane.trim_start_matches("/device:"));
    match session.hosts.get(device.host as usize) {
        Some(host) if session.hosts.len() > 1 => format!("{} {plane}", clean(&host.name)),
        _ => plane,
    }
}
