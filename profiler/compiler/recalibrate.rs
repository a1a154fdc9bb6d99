//! Calibrates anew from a trace: the measured times of a program's operations and the program.
//!
//! The same constants, fitted to what this very chip, this build of the compiler and these shapes
//! do. Constants and spreads that the operations tell nothing of stay as they were.

use crate::chip::ChipFacts;
use crate::compiler::calibration::Calibration;
use crate::compiler::cost_model::rates::Rates;
use crate::compiler::cost_model::work::Work;
use crate::compiler::fit::{Sample, fit};
use crate::compiler::pricer::OpKind;
use crate::program::cost::CostModel;
use crate::program::{OpId, Program};

/// What a trace says of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredOp {
    /// The operation.
    pub op: OpId,
    /// The time of one execution, in picoseconds: the median of several is best.
    pub time_ps: u64,
    /// How often it ran.
    pub executions: u64,
}

/// Operations shorter than this say more of the start of an operation than of its work: 2 µs.
const LEAST_PS: u64 = 2_000_000;
/// Of the remaining ones so many are taken, those that took most time in all.
const MOST_OPS: usize = 200;
/// Fewer tell too little to replace a calibration.
const LEAST_OPS: usize = 10;
/// Parts into which operations are split; each is predicted by a fit to the others.
const FOLDS: usize = 10;

/// The calibration that a trace's operations ask for; `None` where fewer than ten of them say
/// something. `source` says where the trace is from, and becomes the calibration's.
#[must_use]
pub fn recalibrate(
    base: &Calibration,
    program: &Program,
    facts: &ChipFacts,
    measured: &[MeasuredOp],
    source: &str,
) -> Option<Calibration> {
    let rates = Rates::of(facts);
    let mut costs = CostModel::new(program);
    let mut ops: Vec<(u64, Work, u64)> = Vec::new();
    for one in measured.iter().filter(|one| one.time_ps >= LEAST_PS) {
        let work = Work::of(program, &mut costs, &rates, one.op);
        if !work.is_free && !work.is_async {
            let total = one.time_ps.saturating_mul(one.executions.max(1));
            ops.push((total, work, one.time_ps));
        }
    }
    ops.sort_by_key(|(total, ..)| std::cmp::Reverse(*total));
    ops.truncate(MOST_OPS);
    if ops.len() < LEAST_OPS {
        return None;
    }
    let samples: Vec<Sample> = (0usize..)
        .zip(&ops)
        .map(|(i, (total, work, time))| {
            let fold = format!("{}", i % FOLDS);
            Sample::of_op(&fold, *work, *time, *total as f64)
        })
        .collect();
    let found = fit(&samples, &base.constants);
    let has = |kinds: &[OpKind]| ops.iter().any(|(_, work, _)| kinds.contains(&work.kind));
    let mut spread = found.spread;
    for (kinds, mine, theirs) in [
        (
            &[OpKind::Matmul][..],
            &mut spread.matmul,
            base.spread.matmul,
        ),
        (
            &[OpKind::Convolution],
            &mut spread.convolution,
            base.spread.convolution,
        ),
        (
            &[OpKind::Loop, OpKind::Reduce, OpKind::Copy, OpKind::Other],
            &mut spread.vector,
            base.spread.vector,
        ),
        (&[OpKind::Kernel], &mut spread.kernel, base.spread.kernel),
    ] {
        if !has(kinds) {
            *mine = theirs;
        }
    }
    Some(Calibration {
        generation: facts.generation,
        source: source.to_owned(),
        measured: true,
        constants: found.constants,
        accuracy: found.accuracy(""),
        spread,
        ..base.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compiler::cost_model::tests::{calibration, chip};
    use crate::compiler::cost_model::time_of;
    use crate::program::hlo_text::parse_module;

    /// Loops over arrays of growing size, bound by HBM.
    fn loops(count: usize) -> Program {
        let mut text = String::from("HloModule m\n\nENTRY %main (a: f32[8]) -> f32[8] {\n");
        for i in 0..count {
            let shape = format!("f32[{},1024]{{1,0}}", 1024 * (i + 1));
            text += &format!("  %p{i} = {shape} parameter({i})\n");
            text += &format!(
                "  %op{i} = {shape} negate(%p{i}), backend_config={{\"estimated_cycles\":\"10\"}}\n"
            );
        }
        text += "  ROOT %r = f32[8]{0:S(1)} constant({0,0,0,0,0,0,0,0})\n}\n";
        parse_module(&text).0
    }

    fn measured(program: &Program, hbm: f64) -> Vec<MeasuredOp> {
        let mut made = calibration().constants;
        made.hbm = hbm;
        let (mut costs, rates) = (CostModel::new(program), Rates::of(&chip()));
        let ops = program.ops().filter(|(_, op)| op.name.starts_with("op"));
        ops.map(|(op, _)| {
            let work = Work::of(program, &mut costs, &rates, op);
            MeasuredOp {
                op,
                time_ps: time_of(&work, &made).0.round() as u64,
                executions: 3,
            }
        })
        .collect()
    }

    #[test]
    fn a_trace_of_loops_moves_the_bandwidth_and_nothing_else() {
        let program = loops(20);
        let base = calibration();
        let ops = measured(&program, 0.6);
        let found = recalibrate(&base, &program, &chip(), &ops, "a trace").expect("enough");
        assert!((found.constants.hbm / 0.6 - 1.0).abs() < 0.02);
        assert_eq!(found.constants.mxu, base.constants.mxu);
        assert_eq!(found.constants.kernel, base.constants.kernel);
        assert_eq!(found.spread.matmul, base.spread.matmul);
        assert!(found.spread.vector < base.spread.vector);
        assert_eq!(found.accuracy.programs, 20);
        assert_eq!(found.source, "a trace");
    }

    #[test]
    fn a_few_operations_do_not_replace_a_calibration() {
        let program = loops(20);
        let ops = measured(&program, 0.6);
        assert_eq!(
            recalibrate(&calibration(), &program, &chip(), &ops[..9], "x"),
            None
        );
        let short: Vec<MeasuredOp> = ops
            .iter()
            .map(|one| MeasuredOp {
                time_ps: 1000,
                ..*one
            })
            .collect();
        assert_eq!(
            recalibrate(&calibration(), &program, &chip(), &short, "x"),
            None
        );
    }
}
