//! Changes of a program that are worth a compile, compiled and priced beside the original.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context as _, Result, bail};
use profiler::compiler::cost_model::program_price::RatioBand;
use profiler::compiler::program_file::{ProgramFile, ProgramKind};
use profiler::compiler::target::Target;
use profiler::compiler::what_if::{Change, Tiles, apply, candidates};
use profiler::diff::{Diff, OpChange, without_layout};
use profiler::evidence::Evidence;
use profiler::evidence::compiled_change::CompiledChange;
use profiler::program::stablehlo;
use profiler::session::{OpId, Session};
use profiler::units::Picos;

use crate::compiler::Compiler;
use crate::predict::{CompileArgs, Lazy, Predicted, calibration, predict, ratio, schedule_file};

/// What became of a change.
pub struct Tried {
    /// The change.
    pub change: Change,
    /// Share of the program's matmul FLOPs that it is about.
    pub share: f64,
    /// The changed program, or why there is none.
    pub outcome: Result<Priced, String>,
}

/// A changed program's prediction against the original's.
pub struct Priced {
    /// The prediction.
    pub predicted: Predicted,
    /// Its time over the original's.
    pub ratio: RatioBand,
    /// Both, operation by operation.
    pub diff: Diff,
}

/// The original and all changes that were tried, in the order of their ratios.
pub struct WhatIf {
    /// The original.
    pub before: Predicted,
    /// The changes.
    pub tried: Vec<Tried>,
    /// Changes that were left out by the limit.
    pub left_out: usize,
}

/// Compiles a program and the changes that may pay, at most `limit` of them.
///
/// # Errors
/// When the program is no StableHLO text or the original does not compile. A change that does not
/// compile is a result.
pub fn what_if(path: &Path, args: &CompileArgs, limit: usize) -> Result<WhatIf> {
    let shown = path.display();
    let file = crate::predict::read_named_program(path, args.program.as_deref())?;
    if file.kind != ProgramKind::StablehloText {
        bail!(
            "{shown} is {}: changes are made in StableHLO text; write it with `lowered.as_text()`",
            file.kind.name()
        );
    }
    let text = String::from_utf8(file.code.clone())
        .with_context(|| format!("{shown} is not UTF-8 text"))?;
    let lazy = Lazy::new(&args.compiler);
    let before = predict(schedule_file(path, file, args, &lazy)?, args)?;
    let compiler = lazy.get()?;
    let facts = knowledge::chips::chip(args.target.generation);
    let tiles = Tiles {
        lanes: i64::from(facts.lanes.value),
    };
    let mut wanted = candidates(&stablehlo::parse(&text), tiles);
    let left_out = wanted.len().saturating_sub(limit);
    wanted.truncate(limit);
    let outcomes = in_parallel(compiler, &wanted, |candidate| {
        let changed = apply(&text, &candidate.change).map_err(|error| error.to_string())?;
        price(path, &changed, args, compiler, &before)
    });
    let mut tried: Vec<Tried> = wanted
        .into_iter()
        .zip(outcomes)
        .map(|(candidate, outcome)| Tried {
            change: candidate.change,
            share: candidate.share,
            outcome,
        })
        .collect();
    tried.sort_by(|a, b| {
        let ratio = |tried: &Tried| match &tried.outcome {
            Ok(priced) => priced.ratio.ratio,
            Err(_) => f64::INFINITY,
        };
        ratio(a).total_cmp(&ratio(b))
    });
    Ok(WhatIf {
        before,
        tried,
        left_out,
    })
}

/// Does the same with each item, as many side by side as the compiler has processes.
fn in_parallel<T: Sync, R: Send>(
    compiler: &Compiler,
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done: Vec<Mutex<Option<R>>> = items.iter().map(|_| Mutex::new(None)).collect();
    thread::scope(|scope| {
        for _ in 0..compiler.pool().size().min(items.len()) {
            scope.spawn(|| {
                while let Some((item, slot)) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    items.get(at).zip(done.get(at))
                } {
                    let result = work(item);
                    if let Ok(mut slot) = slot.lock() {
                        *slot = Some(result);
                    }
                }
            });
        }
    });
    done.into_iter()
        .filter_map(|slot| slot.into_inner().ok().flatten())
        .collect()
}

fn price(
    path: &Path,
    text: &str,
    args: &CompileArgs,
    compiler: &Compiler,
    before: &Predicted,
) -> Result<Priced, String> {
    let file = ProgramFile::of_bytes(text.as_bytes()).map_err(|error| error.to_string())?;
    let lazy = Lazy::of(compiler);
    let scheduled = schedule_file(path, file, args, &lazy).map_err(|error| format!("{error:#}"))?;
    let predicted = predict(scheduled, args).map_err(|error| format!("{error:#}"))?;
    let calibration =
        calibration(args, predicted.compiled.as_ref()).map_err(|error| format!("{error:#}"))?;
    let diff = diff(before, &predicted, &args.target);
    let ratio = ratio(before, &predicted, &diff, &calibration)
        .ok_or_else(|| "the original takes no time".to_owned())?;
    Ok(Priced {
        predicted,
        ratio,
        diff,
    })
}

/// Operations that are named for a change.
const SHOWN: usize = 3;

impl WhatIf {
    /// The changes as evidence about a session: the original's own, or a measured one of the same
    /// program.
    #[must_use]
    pub fn changes(&self, target: &Target, session: &Session) -> Vec<CompiledChange> {
        self.tried
            .iter()
            .filter_map(|tried| {
                let priced = tried.outcome.as_ref().ok()?;
                Some(self.compiled_change(tried, priced, target, session))
            })
            .collect()
    }

    fn compiled_change(
        &self,
        tried: &Tried,
        priced: &Priced,
        target: &Target,
        session: &Session,
    ) -> CompiledChange {
        let time = |predicted: &Predicted| predicted.step().map_or(0, |band| band.time_ps);
        let diff = &priced.diff;
        let mut ops: Vec<(OpId, u64)> = diff
            .ops
            .iter()
            .filter(|op| op.time.delta_ms < 0.0)
            .filter_map(|op| {
                let id = op.before.as_ref()?.id;
                let id = self.in_session(id, session)?;
                Some((id, (-op.time.delta_ms * 1e9) as u64))
            })
            .collect();
        ops.sort_by_key(|(id, saved)| (std::cmp::Reverse(*saved), *id));
        let (saved, paid) = movers(diff);
        let peak = |predicted: &Predicted| {
            let compiled = predicted.compiled.as_ref();
            compiled.map_or(0, |compiled| compiled.memory.peak_bytes)
        };
        CompiledChange {
            change: tried.change.to_string(),
            compiled: format!(
                "for {target}, {}",
                priced
                    .predicted
                    .session
                    .prediction
                    .as_ref()
                    .map_or("", |prediction| prediction.provenance.compiler.as_str())
            ),
            before_ps: time(&self.before),
            after_ps: time(&priced.predicted),
            ratio: (priced.ratio.low, priced.ratio.high),
            ops,
            saved,
            paid,
            more_hbm_bytes: peak(&priced.predicted).cast_signed()
                - peak(&self.before).cast_signed(),
        }
    }

    /// The operation of that name in another session of the same program.
    fn in_session(&self, id: OpId, session: &Session) -> Option<OpId> {
        if std::ptr::eq(session, &raw const self.before.session) {
            return Some(id);
        }
        let name = &self.before.session.op(id).name;
        let found = session.ops.iter().position(|op| &op.name == name)?;
        OpId::try_from(found).ok()
    }
}

/// The two programs, operation by operation.
#[must_use]
pub fn diff(before: &Predicted, after: &Predicted, target: &Target) -> Diff {
    let evidence = |session| {
        let chip = Some(target.generation);
        Evidence::gather(session, chip, knowledge::chips::chips())
    };
    Diff::between(&evidence(&before.session), &evidence(&after.session))
}

/// What saves most and what costs most, in words.
fn movers(diff: &Diff) -> (Vec<String>, Vec<String>) {
    // Differences below a thousandth of the step explain nothing.
    let least = diff.window.before_ms / 1e3;
    let mut by_gain: Vec<&OpChange> = diff.ops.iter().collect();
    by_gain.sort_by(|a, b| a.time.delta_ms.total_cmp(&b.time.delta_ms));
    let saved = by_gain
        .iter()
        .take_while(|op| op.time.delta_ms < -least)
        .take(SHOWN);
    let paid = by_gain
        .iter()
        .rev()
        .take_while(|op| op.time.delta_ms > least)
        .take(SHOWN);
    (
        saved.map(|op| words(op)).collect(),
        paid.map(|op| words(op)).collect(),
    )
}

/// `copy.12 bf16[4,1023,50257] (data formatting): 1.03 ms -> 610 us`.
fn words(op: &OpChange) -> String {
    let time = |ms: f64| Picos((ms * 1e9).max(0.0) as u64).to_string();
    let side = op.before.as_ref().or(op.after.as_ref());
    let Some(side) = side else {
        return String::new();
    };
    let what = format!(
        "{} {} ({})",
        side.name,
        without_layout(&side.shape),
        side.category
    );
    match (&op.before, &op.after) {
        (Some(_), None) => format!("{what}: {} -> gone", time(op.time.before_ms)),
        (None, Some(_)) => format!("{what}: new, {}", time(op.time.after_ms)),
        _ => format!(
            "{what}: {} -> {}",
            time(op.time.before_ms),
            time(op.time.after_ms)
        ),
    }
}
