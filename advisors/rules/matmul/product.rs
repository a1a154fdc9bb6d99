//! A matmul as the rules weigh it: its dimensions, its work with padding, its least time.

use knowledge::efficiency::{Reachable, Work, reachable};
use profiler::evidence::{OpClass, OpProfile};
use profiler::program::matmul::Matmul;
use profiler::program::shape::{Array, MemorySpace};

use crate::rule::Context;

/// A time below the floor by more than this means that the cost or the peak is wrong, and nothing
/// should be concluded from it.
const BELIEVABLE: f64 = 1.05;

/// A matmul that ran.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product<'a> {
    /// The operation.
    pub(crate) op: &'a OpProfile,
    /// Its dimensions, where its shapes tell: `m` rows of activations, `n` columns of the weight.
    pub(crate) dims: Option<Matmul>,
    /// FLOPs of one execution that multiply matrices.
    pub(crate) flops: f64,
    /// At the MXU's peak, without padding, in picoseconds.
    pub(crate) compute_ps: f64,
    /// As `compute_ps`, with the rows and columns of zeros that fill the systolic array.
    pub(crate) padded_ps: f64,
    /// Its HBM traffic at the peak, in picoseconds.
    pub(crate) hbm_ps: f64,
    /// Measured, in picoseconds.
    pub(crate) time_ps: f64,
}

/// Which of the measured ceilings a time is reckoned with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Level {
    /// The unfavourable end of sound shapes.
    Low,
    /// The middle.
    Typical,
    /// The best seen.
    High,
}

impl Level {
    pub(crate) fn of(self, reachable: &Reachable) -> f64 {
        match self {
            Self::Low => reachable.low,
            Self::Typical => reachable.typical,
            Self::High => reachable.high,
        }
    }
}

/// The shares of the MXU's and HBM's peaks that good matmuls reach on the chip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ceilings {
    /// Of the MXU.
    pub(crate) matmul: &'static Reachable,
    /// Of HBM.
    pub(crate) hbm: &'static Reachable,
}

impl Ceilings {
    /// Those of the run's chip, if it is known.
    pub(crate) fn of(context: &Context<'_>) -> Option<Self> {
        let generation = context.evidence.chip.as_ref()?.generation;
        let of = |work| reachable(work, generation).reachable;
        Some(Self {
            matmul: of(Work::Matmul),
            hbm: of(Work::HbmStream),
        })
    }
}

impl<'a> Product<'a> {
    /// Weighs an operation; `None` where it is no matmul, or its cost cannot be right.
    pub(crate) fn of(context: &Context<'_>, op: &'a OpProfile) -> Option<Self> {
        if op.class != OpClass::Matmul {
            return None;
        }
        let evidence = context.evidence;
        let stated = op.cost.flops.filter(|flops| *flops > 0.0);
        let fits = |dims: &Matmul| {
            stated.is_none_or(|stated| (0.7..1.05).contains(&(dims.flops / stated)))
        };
        let dims = match op.model.matmuls.as_slice() {
            [only] if fits(only) => Some(upright(context, op, *only)),
            _ => None,
        };
        let flops = dims.map_or_else(|| stated.unwrap_or(op.model.matmul_flops), |d| d.flops);
        let peak = op.peak_tflops(&evidence.peaks)?;
        let hbm = evidence.peaks.hbm_gb_per_s.as_ref()?.value;
        let side = evidence.chip.as_ref()?.facts.mxu_size.value;
        let used = dims.map_or(1.0, |dims| dims.mxu_utilization_bound(side));
        let compute_ps = flops / peak;
        let product = Self {
            op,
            dims,
            flops,
            compute_ps,
            padded_ps: if used > 0.0 {
                compute_ps / used
            } else {
                compute_ps
            },
            hbm_ps: op.cost.hbm_bytes.map_or(0.0, f64::abs) * 1e3 / hbm,
            time_ps: op.mean_ps(),
        };
        let sound = flops > 0.0
            && product.time_ps > 0.0
            && product.compute_ps.max(product.hbm_ps) <= BELIEVABLE * product.time_ps;
        sound.then_some(product)
    }

    /// All matmuls of a run, longest self time a step first.
    pub(crate) fn all(context: &Context<'a>) -> Vec<Self> {
        let ops = &context.evidence.ops;
        ops.iter().filter_map(|op| Self::of(context, op)).collect()
    }

    /// The least time of one execution at the peaks, padding included.
    pub(crate) fn floor_ps(&self) -> f64 {
        self.padded_ps.max(self.hbm_ps)
    }

    /// The time of one execution that a good matmul of this shape takes.
    pub(crate) fn reach_ps(&self, ceilings: &Ceilings, level: Level) -> f64 {
        let compute = self.padded_ps / level.of(ceilings.matmul);
        compute.max(self.hbm_ps / level.of(ceilings.hbm))
    }

    /// A time of one execution as milliseconds of a step.
    pub(crate) fn per_step_ms(&self, ps: f64) -> f64 {
        if self.time_ps > 0.0 {
            self.op.step_self_ms() * ps / self.time_ps
        } else {
            0.0
        }
    }

    /// Whether both sides are float32, so that the MXU may take several passes.
    pub(crate) fn is_f32(&self) -> bool {
        match self.dims {
            Some(dims) => dims.lhs.name() == "f32" && dims.rhs.name() == "f32",
            None => {
                let mut matrices = matrices(self.op).peekable();
                matrices.peek().is_some() && matrices.all(|array| array.dtype.name() == "f32")
            }
        }
    }
}

/// Operands that a product can have as a side: two dimensions larger than 1.
pub(crate) fn matrices(op: &OpProfile) -> impl Iterator<Item = &Array> {
    let operands = op.instruction.iter().flat_map(|i| &i.operands);
    operands
        .filter_map(|operand| operand.shape.as_ref()?.as_array())
        .filter(|array| {
            let multiplies = array.dtype.is_float() || array.dtype.bits() <= 8;
            multiplies && array.dims.iter().filter(|&&dim| dim > 1).count() >= 2
        })
}

/// The operand that a matmul reads and no operation of the step made: its weight. The largest
/// where there are several.
pub(crate) fn weight<'a>(context: &Context<'_>, op: &'a OpProfile) -> Option<&'a Array> {
    let operands = op.instruction.iter().flat_map(|i| &i.operands);
    let candidates = operands.filter_map(|operand| {
        let array = operand.shape.as_ref()?.as_array()?;
        let made = context.evidence.find_op(op.module, &operand.name);
        // A prefetched weight comes by `copy-done` or `slice-done`, else by no operation at all.
        let moved = made.is_none_or(|made| matches!(made.class, OpClass::AsyncCopy(_)))
            || operand.name.starts_with("slice-done");
        // An element of a tuple is a loop's invariant or a result of an operation with several.
        let made_here =
            || operand.name.starts_with("get-tuple-element") && is_made(context, op, array);
        let is_weight = moved && array.memory_space() != MemorySpace::Host && !made_here();
        // What a bitcast renames may be anything.
        let renamed = operand.name.starts_with("bitcast");
        let rank = array.dims.iter().filter(|&&dim| dim > 1).count();
        (rank >= 2 && is_weight).then_some(((!renamed, rank == 2), array))
    });
    let best = candidates.max_by_key(|(likely, array)| (*likely, array.elements()));
    best.map(|(_, array)| array)
}

/// Whether an operation of the program with several results makes such an array.
fn is_made(context: &Context<'_>, op: &OpProfile, array: &Array) -> bool {
    context.evidence.ops.iter().any(|made| {
        let moves = matches!(made.class, OpClass::ControlFlow | OpClass::AsyncCopy(_));
        let shape = made.instruction.as_ref().map(|i| &i.shape);
        made.module == op.module
            && !moves
            && shape.is_some_and(|shape| {
                let several = shape.elements().iter();
                several
                    .filter_map(|element| element.as_array())
                    .any(|element| element.dtype == array.dtype && element.dims == array.dims)
            })
    })
}

/// The product with the weight on its right side, as people write it.
fn upright(context: &Context<'_>, op: &OpProfile, dims: Matmul) -> Matmul {
    let Some(weight) = weight(context, op).map(Array::elements) else {
        return dims;
    };
    let left = dims.m.saturating_mul(dims.k);
    let right = dims.n.saturating_mul(dims.k);
    if weight == left && weight != right {
        return Matmul {
            m: dims.n,
            n: dims.m,
            lhs: dims.rhs,
            rhs: dims.lhs,
            ..dims
        };
    }
    dims
}

/// The dimensions as people write them: `1024 x 5120 x 27648`, rows, contracted, columns.
pub(crate) fn dimensions(dims: &Matmul) -> String {
    let batch = if dims.batch > 1 {
        format!("{} times ", dims.batch)
    } else {
        String::new()
    };
    format!("{batch}{} x {} x {}", dims.m, dims.k, dims.n)
}
