//! Cores of one run that were recorded differently.

use profiler::session::Device;

use crate::finding::{Draft, Exhibit};
use crate::rule::{Context, Rule};
use crate::rules::capture::{Remark, is_measured};

/// See the card.
#[derive(Debug)]
pub struct AsymmetricCores;

/// A core with less than this part of the usual number of operations was recorded in part.
const FEW: f64 = 0.5;
/// Fewer asynchronous operations than this may be chance.
const MIN_ASYNC: usize = 10;
/// Planes named.
const NAMED: usize = 8;

impl Rule for AsymmetricCores {
    fn code(&self) -> &'static str {
        "TT104"
    }

    fn name(&self) -> &'static str {
        "asymmetric-cores"
    }

    fn card(&self) -> &'static str {
        include_str!("asymmetric_cores.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        let cores: Vec<&Device> = context
            .evidence
            .session
            .tensor_cores()
            .map(|(_, device)| device)
            .collect();
        if !is_measured(context) || cores.len() < 2 {
            return Vec::new();
        }
        fewer_operations(&cores)
            .into_iter()
            .chain(no_async_line(&cores))
            .collect()
    }
}

fn fewer_operations(cores: &[&Device]) -> Option<Draft> {
    let mut counts: Vec<usize> = cores.iter().map(|core| core.ops.len()).collect();
    counts.sort_unstable();
    let usual = counts[counts.len() / 2] as f64;
    let few: Vec<&&Device> = cores
        .iter()
        .filter(|core| (core.ops.len() as f64) < FEW * usual)
        .collect();
    if few.is_empty() {
        return None;
    }
    let mut remark = Remark::new(format!(
        "{} of {} cores have less than half of the usual number of operations: means over cores and the slowest core may be wrong",
        few.len(),
        cores.len()
    ))
    .advise("if the cores run one program together, events were lost: capture again, fewer steps")
    .advise("if they run different programs (pipeline stages, servers), look at them one by one");
    let exhibit = |core: &&&Device| {
        Exhibit::text(
            core.plane.clone(),
            format!("{} operations, {usual:.0} are usual", core.ops.len()),
            "events on the XLA Ops line",
        )
    };
    remark.evidence = few.iter().take(NAMED).map(exhibit).collect();
    Some(remark.draft())
}

fn no_async_line(cores: &[&Device]) -> Option<Draft> {
    let most = cores.iter().map(|core| core.async_ops.len()).max()?;
    let without: Vec<&str> = cores
        .iter()
        .filter(|core| core.async_ops.is_empty() && !core.ops.is_empty())
        .map(|core| core.plane.as_str())
        .collect();
    if most < MIN_ASYNC || without.is_empty() {
        return None;
    }
    let mut remark = Remark::new(format!(
        "{} of {} cores have no line of asynchronous operations: when copies were in flight is known of the others only",
        without.len(),
        cores.len()
    ));
    remark.evidence = vec![Exhibit::text(
        "cores without it",
        without
            .iter()
            .take(NAMED)
            .copied()
            .collect::<Vec<_>>()
            .join(", "),
        format!("Async XLA Ops line; up to {most} events on others"),
    )];
    remark.caveats = vec![
        "waits are on record for all cores (the -done operations): exposed time is not affected"
            .to_owned(),
    ];
    Some(remark.draft())
}
