//! Words that rules of logs share.

pub(crate) use profiler::units::{count, counted};

use profiler::logs::Logs;
use profiler::logs::xla_metrics::report::Report;

use crate::finding::{Exhibit, Remark};
use crate::rule::Context;

/// Places that a finding lists.
pub(crate) const MAX_PLACES: usize = 8;

/// A time with enough digits to find it again in the text: `375.6 s`, `54.6 ms`.
pub(crate) fn time(seconds: f64) -> String {
    match seconds {
        s if s >= 10.0 => format!("{s:.1} s"),
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.1} ms", s * 1e3),
        s => format!("{:.1} us", s * 1e6),
    }
}

/// A size in the units of the text, which are powers of 1024: `4.66 GB`.
pub(crate) fn size(bytes: f64) -> String {
    const UNITS: [(f64, &str); 4] = [
        (1_099_511_627_776.0, "TB"),
        (1_073_741_824.0, "GB"),
        (1_048_576.0, "MB"),
        (1024.0, "KB"),
    ];
    let unit = UNITS.iter().find(|(factor, _)| bytes >= *factor);
    unit.map_or_else(
        || format!("{bytes:.0} B"),
        |(factor, unit)| format!("{:.2} {unit}", bytes / factor),
    )
}

/// How often in a step: with a digit that tells it apart.
pub(crate) fn per(value: f64) -> String {
    format!("{value:.1}")
}

/// What a rule says of the last metrics report of each run, gathered.
pub(crate) fn of_last_reports(
    context: &Context<'_>,
    of: impl Fn(&Logs, &Report) -> Option<Remark>,
) -> Vec<Remark> {
    let logs = &context.evidence.session.logs;
    let sequences = logs.xla_metrics.sequences();
    let last = sequences.iter().filter_map(|reports| reports.last());
    gravest(last.filter_map(|report| of(logs, report)).collect())
}

/// Of remarks of one kind on several runs: the gravest, with the places of the others.
pub(crate) fn gravest(mut remarks: Vec<Remark>) -> Vec<Remark> {
    remarks.sort_by(|a, b| {
        (a.severity.cmp(&b.severity))
            .then_with(|| b.lost_s.unwrap_or(0.0).total_cmp(&a.lost_s.unwrap_or(0.0)))
    });
    let mut all = remarks.into_iter();
    let Some(mut first) = all.next() else {
        return Vec::new();
    };
    let others: Vec<Remark> = all.collect();
    if !others.is_empty() {
        first.evidence.push(Exhibit::number(
            "other runs or reports that show it",
            others.len() as f64,
            "",
            "counted in the same texts",
        ));
    }
    let places = others.into_iter().flat_map(|other| other.places);
    first.places.extend(places);
    first.places.truncate(MAX_PLACES);
    vec![first]
}

/// What all rules say of a text.
#[cfg(test)]
pub(crate) fn findings(
    text: &str,
    chip: Option<profiler::chip::Generation>,
) -> Vec<crate::Finding> {
    let mut session = profiler::session::Session::default();
    let path = std::path::Path::new("run.log");
    profiler::logs::read(path, text.as_bytes(), &mut session.logs, &mut session.notes);
    let facts = knowledge::chips::chips();
    let evidence = profiler::evidence::Evidence::gather(&session, chip, facts);
    crate::rank::advise(&evidence, crate::registry::RULES).findings
}

/// The finding of a rule.
#[cfg(test)]
pub(crate) fn of<'a>(findings: &'a [crate::Finding], code: &str) -> Option<&'a crate::Finding> {
    findings.iter().find(|finding| finding.code == code)
}

#[cfg(test)]
mod tests {
    use super::{count, size, time};

    #[test]
    fn figures_keep_the_digits_of_the_text() {
        assert_eq!(time(375.595_691), "375.6 s");
        assert_eq!(time(0.002_691), "2.7 ms");
        assert_eq!(size(4.66 * f64::from(1 << 30)), "4.66 GB");
        assert_eq!(count(23_562), "23,562");
        assert_eq!(count(100), "100");
    }
}
