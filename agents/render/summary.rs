//! A report in words, the same wherever it is shown.
//!
//! The words carry names from the profile as they are; whoever writes them makes them safe.

use advisors::finding::{Basis, Confidence, Exhibit, Place, Saving, Value};
use advisors::report::{BreakdownRow, Report};
use profiler::evidence::Spread;
use profiler::session::{Device, Session};
use profiler::units::{Bytes, Picos, percent, with_digits};

/// What people ask first: labels with what they say. A line without a label goes on with the one
/// before.
#[must_use]
pub fn facts(report: &Report) -> Vec<(&'static str, String)> {
    let mut facts: Vec<(&str, String)> = Vec::new();
    if report.devices.is_empty() {
        // Text alone: what it tells is in the findings.
        facts.extend(report.chip.as_ref().map(|_| ("Chip", chip(report))));
        return facts;
    }
    facts.extend(origin(report).map(|words| ("Times", words)));
    facts.extend([("Chip", chip(report)), ("Step", step(report))]);
    facts.push(("", step_basis(report)));
    facts.extend(utilization(report).map(|words| ("MFU", words)));
    facts.extend(memory(report).map(|words| ("HBM", words)));
    facts
}

/// What the figures are, where they are not of a run.
fn origin(report: &Report) -> Option<String> {
    if report.origin != "predicted" {
        return None;
    }
    let Some(found) = &report.prediction else {
        return Some("predicted, not measured".to_owned());
    };
    if found.is_lower_bound {
        let prices = &found.prices;
        return Some(format!(
            "predicted, not measured: the least that the {prices} allows; real runs take longer"
        ));
    }
    let band = found.step.as_ref().map_or("", |step| step.words.as_str());
    let compiler = if found.compiler.is_empty() {
        String::new()
    } else {
        format!(", compiled by {}", found.compiler)
    };
    Some(format!(
        "predicted, not measured, {band}: for {}{compiler}, priced by {}",
        found.target, found.prices
    ))
}

/// The band of a session's times, where they are predicted; none of measured ones.
#[must_use]
pub fn band(session: &Session) -> Option<String> {
    let prediction = session.prediction.as_ref()?;
    if prediction.provenance.is_lower_bound {
        return Some(format!(
            "predicted, not measured: the least that the {} allows",
            prediction.provenance.prices
        ));
    }
    let step = prediction.step()?;
    Some(format!("predicted, not measured: {}", step.words()))
}

fn chip(report: &Report) -> String {
    let cores = report
        .devices
        .iter()
        .filter(|device| device.kind == "tensor-core")
        .count();
    let devices = if cores == 1 { "device" } else { "devices" };
    let hosts = match report.hosts.len() {
        0 | 1 => String::new(),
        hosts => format!(" on {hosts} hosts"),
    };
    match &report.chip {
        Some(chip) if report.prediction.is_some() => {
            format!("{}, the run of one device", chip.product_name)
        }
        Some(chip) => {
            let basis = match chip.basis.as_str() {
                "stated" => String::new(),
                "given" => " (given with --chip)".to_owned(),
                _ => format!(" ({}: {})", chip.basis, chip.reason),
            };
            format!("{}, {cores} {devices}{hosts}{basis}", chip.product_name)
        }
        None => {
            format!("unknown; {cores} {devices}{hosts}; give --chip for rooflines and MFU")
        }
    }
}

fn step(report: &Report) -> String {
    let time = &report.steps.time;
    let predicted = report.prediction.as_ref().filter(|p| !p.is_lower_bound);
    if let Some(band) = predicted.and_then(|found| found.step.as_ref()) {
        return format!(
            "{:.3} ms predicted, {:.3} to {:.3} ms",
            band.time_ms, band.low_ms, band.high_ms
        );
    }
    match time.count {
        0 => "none found".to_owned(),
        1 => format!("{:.3} ms, one step", time.median_ms),
        count => format!(
            "median {:.3} ms, p90 {:.3} ms, {count} steps ({:.3} to {:.3} ms)",
            time.median_ms, time.p90_ms, time.min_ms, time.max_ms
        ),
    }
}

fn step_basis(report: &Report) -> String {
    let mut basis = report.steps.basis.clone();
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
    basis
}

fn utilization(report: &Report) -> Option<String> {
    let used = report.utilization.as_ref()?;
    let with = used.mfu_with_custom_calls;
    let without = used.mfu_without_custom_calls;
    let mut line = format!("{} without custom calls", percent(without));
    if with > without {
        line.push_str(&format!(", {} with", percent(with)));
    }
    if used.mfu_at_most > with {
        let at_most = percent(used.mfu_at_most);
        line.push_str(&format!(
            ", at most {at_most} with kernels known by shape (no mask)"
        ));
    }
    if used.hfu_with_custom_calls > with {
        let hardware = percent(used.hfu_with_custom_calls);
        line.push_str(&format!("; HFU {hardware} with recomputation"));
    }
    if used.custom_calls_without_flops > 0 {
        let calls = used.custom_calls_without_flops;
        line.push_str(&format!(" ({calls} custom calls state no FLOPs)"));
    }
    Some(line)
}

fn memory(report: &Report) -> Option<String> {
    let memory = report.memory.as_ref()?;
    Some(format!(
        "peak {} of {}, {} free",
        Bytes(memory.peak_bytes),
        Bytes(memory.capacity_bytes),
        Bytes(memory.free_bytes)
    ))
}

/// Categories below this share of the step are summed up as one row.
const SMALL_SHARE: f64 = 0.005;

/// Where the time of a step goes: `(name, ms, share)`, small categories together, idle time last.
#[must_use]
pub fn breakdown(report: &Report) -> Vec<(String, f64, f64)> {
    let (large, small): (Vec<&BreakdownRow>, Vec<&BreakdownRow>) = report
        .breakdown
        .categories
        .iter()
        .partition(|row| row.share >= SMALL_SHARE);
    let mut rows: Vec<(String, f64, f64)> = large
        .iter()
        .map(|row| (row.name.clone(), row.self_ms_per_step, row.share))
        .collect();
    if !small.is_empty() {
        let categories = if small.len() == 1 {
            "category"
        } else {
            "categories"
        };
        rows.push((
            format!("{} smaller {categories}", small.len()),
            small.iter().map(|row| row.self_ms_per_step).sum(),
            small.iter().map(|row| row.share).sum(),
        ));
    }
    let window = report.breakdown.window_ms_per_step;
    let idle = [
        (
            "idle between programs",
            report.breakdown.idle_between_ms_per_step,
        ),
        (
            "idle inside programs",
            report.breakdown.idle_inside_ms_per_step,
        ),
    ];
    for (name, ms) in idle {
        let share = if window > 0.0 { ms / window } else { 0.0 };
        if share >= 0.0005 {
            rows.push((name.to_owned(), ms, share));
        }
    }
    rows
}

/// A saving in half a line.
#[must_use]
pub fn saving_in_short(saving: &Saving) -> String {
    format!(
        "{} a step ({}), {} to {}, {}",
        ms(saving.expected_ms),
        percent(saving.share_of_step),
        ms(saving.low_ms),
        ms(saving.high_ms),
        basis(saving.basis),
    )
}

/// A source line with the beginning of a long path left out.
#[must_use]
pub fn place(source: &str, max: usize) -> String {
    let length = source.chars().count();
    if length <= max {
        return source.to_owned();
    }
    let tail: String = source.chars().skip(length - (max - 1)).collect();
    // Whole folders only, where there is one.
    let whole = tail.split_once('/').map_or(tail.as_str(), |(_, rest)| rest);
    format!("…/{whole}")
}

/// Where a finding stands in a text, as compilers write it.
#[must_use]
pub fn text_place(place: &Place) -> String {
    match place.column {
        0 => format!("{}:{}", place.file, place.line),
        column => format!("{}:{}:{column}", place.file, place.line),
    }
}

/// A saving with its band.
#[must_use]
pub fn saving(saving: &Saving) -> String {
    format!(
        "{} a step expected ({}), {} to {}, never more than {}; {}",
        ms(saving.expected_ms),
        percent(saving.share_of_step),
        ms(saving.low_ms),
        ms(saving.high_ms),
        ms(saving.upper_bound_ms),
        basis(saving.basis),
    )
}

/// How a saving was found.
#[must_use]
pub fn basis(basis: Basis) -> &'static str {
    match basis {
        Basis::Measured => "measured",
        Basis::Modelled => "modelled",
        Basis::Compiled => "compiled both ways",
        Basis::LookedUp => "looked up",
    }
}

/// Milliseconds in the unit that suits them.
#[must_use]
pub fn ms(value: f64) -> String {
    match (value.max(0.0) * 1e9) as u64 {
        0 => "0".to_owned(),
        picos => Picos(picos).to_string(),
    }
}

/// The odds in a word or two: `36 % (all advice)` where none of the kind was counted.
#[must_use]
pub fn odds_in_short(confidence: &Confidence) -> String {
    let probability = percent(confidence.probability);
    if confidence.supported + confidence.refuted > 0 {
        probability
    } else {
        format!("{probability} (all advice)")
    }
}

/// How often advice of this kind helped.
#[must_use]
pub fn odds(confidence: &Confidence) -> String {
    let decided = confidence.supported + confidence.refuted;
    let probability = percent(confidence.probability);
    let kind = &confidence.kind;
    if decided > 0 {
        format!(
            "{probability} that such advice helps: {} of {decided} published tries of {kind} did",
            confidence.supported
        )
    } else {
        format!(
            "{probability} that such advice helps: the base rate of all advice, none counted for {kind}"
        )
    }
}

/// What all findings come to together; none where nothing can be saved.
#[must_use]
pub fn together(report: &Report) -> Option<String> {
    let step = report.steps.wall_ms;
    let any = report.findings.iter().any(|f| f.saving.is_some());
    (any && step > 0.0).then(|| {
        format!(
            "all of them together, if all work: {} of each step ({}); no saving is proven before it is measured",
            ms(report.combined_saving_ms),
            percent(report.combined_saving_ms / step)
        )
    })
}

/// A piece of evidence: what it is and its value.
#[must_use]
pub fn exhibit(exhibit: &Exhibit) -> String {
    let value = match &exhibit.value {
        Value::Number { number, unit } if unit == "bytes" => Bytes(*number as u64).to_string(),
        Value::Number { number, unit } => with_digits(*number, unit).trim_end().to_owned(),
        Value::Text { text } => text.clone(),
    };
    format!("{}: {value}", exhibit.what)
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

/// Order statistics in a line; `noun` is what is counted.
#[must_use]
pub fn spread(spread: &Spread, noun: &str) -> String {
    let (median, p90) = (spread.median_ps.as_ms(), spread.p90_ps.as_ms());
    match spread.count {
        0 => format!("no whole {noun}"),
        1 => format!("{median:.3} ms, one {noun}"),
        count => format!(
            "median {median:.3} ms, p90 {p90:.3} ms, {:.3} to {:.3} ms, {count} {noun}s",
            spread.min_ps.as_ms(),
            spread.max_ps.as_ms(),
        ),
    }
}

/// A device's name, with its host where there are several.
#[must_use]
pub fn device_name(session: &Session, device: &Device) -> String {
    let plane = device.plane.trim_start_matches("/device:");
    match session.hosts.get(device.host as usize) {
        Some(host) if session.hosts.len() > 1 => format!("{} {plane}", host.name),
        _ => plane.to_owned(),
    }
}
