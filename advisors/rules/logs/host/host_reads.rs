//! Values that the host reads in each step.

use knowledge::advice::AdviceKind;
use profiler::logs::torch_trace::evidence::{self, ProcessEvidence};
use profiler::logs::torch_trace::reads::{Read, Sign};

use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::{place, user_place};

/// See the card.
#[derive(Debug)]
pub struct HostReads;

/// Of the steps, from which on a read belongs to the loop.
const IN_LOOP: f64 = 0.5;
const SHOWN: usize = 5;

impl Rule for HostReads {
    fn code(&self) -> &'static str {
        "TL202"
    }

    fn name(&self) -> &'static str {
        "host-reads"
    }

    fn card(&self) -> &'static str {
        include_str!("host_reads.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let all = evidence::gather(&context.evidence.session.logs.torch_trace);
        let count =
            |process: &ProcessEvidence<'_>| process.reads.iter().map(|r| r.count).sum::<u64>();
        let worst = all.iter().max_by_key(|process| count(process));
        let Some(process) = worst.filter(|process| count(process) > 0) else {
            return Vec::new();
        };
        let steps = process
            .steps
            .as_ref()
            .map_or(0, |steps| steps.steps.len() as u64);
        let in_loop = |read: &&Read| read.steps as f64 >= IN_LOOP * steps as f64;
        let looped: Vec<&Read> = process.reads.iter().filter(in_loop).collect();
        let reads: Vec<&Read> = if looped.is_empty() {
            process.reads.iter().collect()
        } else {
            looped.clone()
        };
        vec![remark(context, process, &reads, steps, !looped.is_empty())]
    }
}

fn remark(
    context: &Context<'_>,
    process: &ProcessEvidence<'_>,
    reads: &[&Read],
    steps: u64,
    in_loop: bool,
) -> Remark {
    let logs = &context.evidence.session.logs;
    let count: u64 = reads.iter().map(|read| read.count).sum();
    let branch = reads
        .iter()
        .find(|read| matches!(read.sign, Sign::Branch(_)));
    let first = branch.or(reads.first());
    let at = first.map_or_else(String::new, |read| {
        let line = read.place.as_ref().map_or_else(String::new, |line| {
            format!(
                " at {}:{}",
                line.file.rsplit('/').next().unwrap_or_default(),
                line.line
            )
        });
        match &read.sign {
            Sign::Branch(op) => format!(", one a branch on `{op}`{line}"),
            Sign::DataDependent(op) => format!(", one for `{op}`{line}"),
            Sign::Reason(reason) => format!(", {reason} after the work{line}"),
        }
    });
    let title = if in_loop {
        format!(
            "the host waits for the device {:.1} times a step ({count} times in {steps} steps){at}",
            count as f64 / steps.max(1) as f64
        )
    } else {
        format!("the host waits for the device in some steps ({count} times in {steps}){at}")
    };
    let severity = if in_loop {
        Severity::Medium
    } else {
        Severity::Low
    };
    let mut remark = Remark::new(AdviceKind::HostDispatch, severity, title);
    for read in reads.iter().take(SHOWN) {
        if let Some(line) = &read.place {
            remark.places.push(user_place(line, shown(read)));
        }
        remark
            .places
            .push(place(logs, read.at, "", "its first launch in the log"));
    }
    for read in reads.iter().take(SHOWN) {
        let line = read
            .place
            .as_ref()
            .map_or_else(|| "no user line".to_owned(), |p| p.to_string());
        remark.evidence.push(crate::rules::logs::count(
            format!("{} ({line})", shown(read)),
            read.count,
            "TORCH_TRACE",
        ));
        if read.waits > 0 {
            remark.evidence.push(Exhibit::number(
                "mean time to the next launch, in steps that compiled nothing",
                read.wait_us as f64 / read.waits as f64 / 1e3,
                "ms",
                "from the end of the launch",
            ));
        }
    }
    remark.advice = advice(reads);
    if process.strict {
        remark.caveats.push(
            "strict eager mode does not log reads of numbers (`item()`, `print`, `.cpu()`): only branches show; trace once with TORCH_TPU_DEFER_AND_FUSE=1 to see all".to_owned(),
        );
    } else {
        remark.caveats.push(
            "the log names the work before a read, not the read: its line is at or after the one given".to_owned(),
        );
    }
    remark
}

fn shown(read: &Read) -> String {
    match &read.sign {
        Sign::Branch(op) => format!("the host reads what `{op}` gives"),
        Sign::DataDependent(op) => format!("`{op}` needs its size on the host"),
        Sign::Reason(reason) => format!("{reason} forces the work up to here"),
    }
}

fn advice(reads: &[&Read]) -> Vec<String> {
    let mut advice = Vec::new();
    if reads
        .iter()
        .any(|read| matches!(read.sign, Sign::Branch(_)))
    {
        advice.push(
            "replace `if condition.any(): x = f(x)` by `torch.where`, or apply `f` always where it changes nothing otherwise (`clamp`, `nan_to_num`)".to_owned(),
        );
    }
    if reads
        .iter()
        .any(|read| matches!(read.sign, Sign::DataDependent(_)))
    {
        advice.push(
            "keep sizes fixed: a mask with `torch.where` instead of `nonzero` or indexing by a boolean tensor".to_owned(),
        );
    }
    if reads
        .iter()
        .any(|read| matches!(read.sign, Sign::Reason(_)))
    {
        advice.push(
            "keep losses and metrics on the device (`loss.detach()` into a list or a running sum) and read them every hundred steps".to_owned(),
        );
    }
    advice
}
