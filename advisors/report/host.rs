//! The host's part of a report: gaps and their causes, compilations, shape buckets.

use profiler::evidence::Evidence;
use profiler::evidence::host::{BetweenIdle, GapCause};
use profiler::evidence::serving::{Family, Phase, ShapeBucket};
use profiler::units::Picos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::report::TimeSpread;

/// What the host did while the cores had no program, on the core in the middle by idle time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostSummary {
    /// Gaps between programs and their durations.
    pub gaps: TimeSpread,
    /// The gaps by cause, longest total first; each gap has one cause.
    pub causes: Vec<GapCauseRow>,
    /// What the host did in all gaps; kinds overlap.
    pub activities: Vec<ActivityRow>,
    /// Python frames present in at least half of the gaps' time, outermost first.
    pub python: Vec<String>,
    /// Compilations of a millisecond or more, in order.
    pub compiles: Vec<CompileRow>,
    /// Waits of the dispatching thread for a result, a step.
    pub reads_per_step: f64,
}

/// Gaps of one cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GapCauseRow {
    /// `compile`, `input`, `transfer`, `host-read`, `tiny-program` or `dispatch`.
    pub cause: String,
    /// Gaps a step.
    pub gaps_per_step: f64,
    /// Idle time a step, ms.
    pub ms_per_step: f64,
}

/// A kind of activity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ActivityRow {
    /// What the host was doing.
    pub doing: String,
    /// Share of the gaps' time that it covers.
    pub share_of_gaps: f64,
    /// The host span that was there longest.
    pub span: String,
}

/// A compilation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CompileRow {
    /// The function; empty where the trace does not say.
    pub function: String,
    /// How long, ms.
    pub ms: f64,
    /// Whether it lies among the steps.
    pub in_steps: bool,
}

/// A function that ran as several programs, one for each shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramFamily {
    /// The function's module name.
    pub name: String,
    /// Its programs, fewest tokens first.
    pub buckets: Vec<BucketRow>,
}

/// One shape bucket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BucketRow {
    /// XLA's program id as decimal text.
    pub program_id: String,
    /// Rows of the matmuls that take most of its time; absent where it has none.
    pub tokens: Option<u64>,
    /// `prefill` or `decode`, where name or shapes tell.
    pub phase: Option<String>,
    /// Runs over all cores and their durations.
    pub time: TimeSpread,
    /// Sum over all cores, ms.
    pub total_ms: f64,
}

fn cause_name(cause: GapCause) -> &'static str {
    match cause {
        GapCause::Compile => "compile",
        GapCause::Input => "input",
        GapCause::Transfer => "transfer",
        GapCause::HostRead => "host-read",
        GapCause::TinyProgram => "tiny-program",
        GapCause::Dispatch => "dispatch",
    }
}

/// The host's part; `None` where no core ran.
#[must_use]
pub(super) fn host_summary(evidence: &Evidence<'_>) -> Option<HostSummary> {
    let host = &evidence.host;
    let between = host.between.as_ref()?;
    let steps = between.steps.max(1) as f64;
    Some(HostSummary {
        gaps: between.gaps.into(),
        causes: causes(between),
        activities: activities(between),
        python: between.python.clone(),
        compiles: host
            .compiles
            .iter()
            .map(|compile| CompileRow {
                function: compile.function.clone(),
                ms: compile.duration.as_ms(),
                in_steps: compile.in_steps,
            })
            .collect(),
        reads_per_step: host.reads.count as f64 / steps,
    })
}

fn causes(between: &BetweenIdle) -> Vec<GapCauseRow> {
    let steps = between.steps.max(1) as f64;
    let row = |time: &profiler::evidence::host::CauseTime| GapCauseRow {
        cause: cause_name(time.cause).to_owned(),
        gaps_per_step: time.gaps.count as f64 / steps,
        ms_per_step: time.total_ps.as_ms() / steps,
    };
    between.causes.iter().map(row).collect()
}

fn activities(between: &BetweenIdle) -> Vec<ActivityRow> {
    let share = |time: Picos| time.0 as f64 / between.total_ps.0.max(1) as f64;
    let row = |activity: &profiler::evidence::host::Activity| ActivityRow {
        doing: activity.kind.doing().to_owned(),
        share_of_gaps: share(activity.in_gaps_ps),
        span: activity.span.clone(),
    };
    between.activities.iter().map(row).collect()
}

/// Functions that ran as several programs.
#[must_use]
pub(super) fn families(evidence: &Evidence<'_>) -> Vec<ProgramFamily> {
    let bucket = |bucket: &ShapeBucket| {
        let module = evidence.session.modules.get(bucket.module as usize);
        BucketRow {
            program_id: module
                .and_then(|module| module.program_id)
                .map(|id| id.to_string())
                .unwrap_or_default(),
            tokens: bucket.tokens,
            phase: bucket.phase.map(Phase::name).map(str::to_owned),
            time: bucket.time.into(),
            total_ms: bucket.total_ps.as_ms(),
        }
    };
    let family = |family: &Family| ProgramFamily {
        name: family.name.clone(),
        buckets: family.buckets.iter().map(bucket).collect(),
    };
    evidence.families.iter().map(family).collect()
}
