//! Registers that spill fill VMEM.

use knowledge::advice::AdviceKind;
use profiler::logs::Logs;
use profiler::logs::out_of_memory::{Cause, OutOfMemory, Size};
use profiler::units::percent;

use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::memory::{places, size};
use crate::rules::logs::place;

/// See the card.
#[derive(Debug)]
pub struct RegisterSpills;

impl Rule for RegisterSpills {
    fn code(&self) -> &'static str {
        "TL306"
    }

    fn name(&self) -> &'static str {
        "register-spills-fill-vmem"
    }

    fn card(&self) -> &'static str {
        include_str!("register_spills.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        let reports = logs.out_of_memory.reports.iter();
        reports.filter_map(|report| remark(logs, report)).collect()
    }
}

fn remark(logs: &Logs, report: &OutOfMemory) -> Option<Remark> {
    let spills = report.register_spills()?;
    let bytes = spills.size.as_ref()?;
    let space = report.space.name();
    let (used, of) = match &report.cause {
        Cause::Capacity { used, capacity, .. } => (Some(used), format!(" of {capacity}")),
        _ => (report.requirement.as_ref(), String::new()),
    };
    let mut remark = Remark::new(
        AdviceKind::MemoryLimit,
        Severity::High,
        format!(
            "registers that do not fit take {bytes} of {space}{}: one operation was unrolled too far",
            used.map(|used| format!(" ({used} used{of})"))
                .unwrap_or_default()
        ),
    );
    remark.places = places(logs, report, "memory ran out at compile time");
    remark
        .places
        .push(place(logs, spills.at, &spills.label, bytes.to_string()));
    remark.evidence = vec![size("spill slots", bytes, "largest program allocations")];
    if let Cause::Capacity {
        used,
        capacity,
        over,
        ..
    } = &report.cause
    {
        remark
            .evidence
            .push(size("used", used, "the compiler's message"));
        remark
            .evidence
            .push(size("available", capacity, "the compiler's message"));
        if let Some(over) = over {
            remark
                .evidence
                .push(size("too much", over, "the compiler's message"));
        }
    }
    if let Some(used) = used {
        remark.evidence.push(Exhibit::text(
            "share of what is used",
            percent(bytes.bytes.0 as f64 / (used.bytes.0 as f64).max(1.0)),
            format!("{bytes} / {used}"),
        ));
    }
    let next: Vec<String> = report
        .allocations
        .iter()
        .filter(|allocation| !allocation.is_register_spill() && allocation.shape.is_some())
        .take(1)
        .map(|allocation| {
            let taken = allocation.size.as_ref().map(Size::to_string);
            format!("{}, {}", allocation.shape_text(), taken.unwrap_or_default())
        })
        .collect();
    if let Some(next) = next.first() {
        remark.evidence.push(Exhibit::text(
            "an array of the same operation",
            next.clone(),
            "largest program allocations: a hint at which operation it is",
        ));
    }
    remark.advice = vec![
        "find the operation that compares or reduces against a small list (isin, one_hot, where over many values): compare in a loop over the list, or as a table look-up".to_owned(),
        "in a Pallas kernel work on smaller blocks within a fori_loop, so that fewer values live at once".to_owned(),
        "a program that fails this way with torch_xla or an old libtpu may compile with a newer one".to_owned(),
    ];
    remark.caveats.push(
        "this is VMEM, on the core: padding of HBM, batch size and sharding do not cure it"
            .to_owned(),
    );
    Some(remark)
}
