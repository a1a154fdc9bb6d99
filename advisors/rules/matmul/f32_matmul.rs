//! Matmuls of float32.

use knowledge::advice::AdviceKind;
use profiler::evidence::{OpClass, OpProfile};
use profiler::units::{self, percent};

use crate::finding::{Basis, Bucket, Claim, Draft, Exhibit};
use crate::rule::{Context, Rule};
use crate::rules::matmul::precision::{Passes, passes};
use crate::rules::matmul::product::{Ceilings, Product, dimensions};

/// See the card.
#[derive(Debug)]
pub struct F32Matmul;

/// Below this share of the step an operation is left out.
const MIN_SHARE: f64 = 0.005;

impl Rule for F32Matmul {
    fn code(&self) -> &'static str {
        "TT502"
    }

    fn name(&self) -> &'static str {
        "f32-matmul"
    }

    fn card(&self) -> &'static str {
        include_str!("f32_matmul.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        let Some(ceilings) = Ceilings::of(context) else {
            return Vec::new();
        };
        let found: Vec<Single<'_>> = Product::all(context)
            .into_iter()
            .filter(Product::is_f32)
            .map(|product| Single::of(context, product, &ceilings))
            .filter(|single| context.share(single.worth_ms()) >= MIN_SHARE)
            .collect();
        // Passes and bytes are different remedies: one finding for each.
        let (many, one): (Vec<_>, Vec<_>) = found.into_iter().partition(|s| s.passes.count > 1);
        let passes = (!many.is_empty()).then(|| passes_draft(context, &many));
        let bytes = (!one.is_empty()).then(|| bytes_draft(context, &one));
        passes.into_iter().chain(bytes).collect()
    }
}

/// One product of float32 and what it would take otherwise, in milliseconds a step.
struct Single<'a> {
    product: Product<'a>,
    passes: Passes,
    time_ms: f64,
    /// Saved with half the passes, or with operands in bf16 where there is one pass only.
    expected_ms: f64,
    /// Saved with one pass and operands in bf16, at the typical ceilings.
    high_ms: f64,
    /// As `high_ms` at the peaks.
    upper_ms: f64,
}

impl<'a> Single<'a> {
    fn of(context: &Context<'_>, product: Product<'a>, ceilings: &Ceilings) -> Self {
        let passes = passes(context, &product);
        let count = f64::from(passes.count);
        let in_bf16 =
            |mxu: f64, hbm: f64| (product.padded_ps / mxu).max(product.hbm_ps / 2.0 / hbm);
        let saved = |left_ps: f64| product.per_step_ms((product.time_ps - left_ps).max(0.0));
        let high = saved(in_bf16(ceilings.matmul.typical, ceilings.hbm.typical));
        let expected = if passes.count > 1 {
            // The same efficiency with half the passes (6 to 3, 3 to 1 at least).
            let share = if passes.count == 6 { 0.5 } else { 1.0 / count };
            let left = (product.time_ps * share).max(product.hbm_ps / ceilings.hbm.typical);
            saved(left)
        } else {
            // Only where bytes are the limit does half of them help.
            let now = product.padded_ps.max(product.hbm_ps);
            saved(product.time_ps * in_bf16(1.0, 1.0) / now)
        };
        Self {
            product,
            passes,
            time_ms: product.op.step_self_ms(),
            expected_ms: expected.min(high.max(0.0)),
            high_ms: high,
            upper_ms: saved(in_bf16(1.0, 1.0)).max(expected),
        }
    }

    /// What must be worth a line: where there is one pass, only what fewer bytes are sure to save.
    fn worth_ms(&self) -> f64 {
        if self.passes.count > 1 {
            self.upper_ms
        } else {
            self.expected_ms
        }
    }

    fn exhibit(&self, context: &Context<'_>) -> Exhibit {
        let product = &self.product;
        let shape = product
            .dims
            .map_or_else(String::new, |dims| format!("{}, ", dimensions(&dims)));
        let share = product.compute_ps / product.time_ps;
        let passes = match self.passes {
            Passes { count: 1, .. } => "one pass (faster than more allow)".to_owned(),
            Passes {
                count,
                certain: true,
            } => format!("{count} bf16 passes by its precision"),
            Passes { count, .. } => {
                format!("no faster than {count} bf16 passes allow")
            }
        };
        Exhibit::text(
            context.op(product.op).name.clone(),
            format!(
                "f32 {shape}{} a step at {} of the bf16 peak: {passes}",
                units::ms(self.time_ms),
                percent(share)
            ),
            "FLOPs of the shape over the duration; n passes cannot exceed 1/n of the peak",
        )
    }
}

fn sum(singles: &[Single<'_>], of: impl Fn(&Single<'_>) -> f64) -> f64 {
    singles.iter().map(of).sum()
}

fn exhibits(context: &Context<'_>, singles: &[Single<'_>]) -> Vec<Exhibit> {
    let mut exhibits: Vec<Exhibit> = singles
        .iter()
        .take(8)
        .map(|single| single.exhibit(context))
        .collect();
    let mut converts: Vec<&OpProfile> = singles
        .iter()
        .flat_map(|single| {
            let evidence = context.evidence;
            evidence
                .producers_of(single.product.op)
                .chain(evidence.users_of(single.product.op))
        })
        .filter(|op| is_convert(context, op))
        .collect();
    converts.sort_by_key(|op| op.id);
    converts.dedup_by_key(|op| op.id);
    let time: f64 = converts.iter().map(|op| op.step_self_ms()).sum();
    if time > 0.0 {
        exhibits.push(Exhibit::number(
            "conversions around them",
            time,
            "ms/step",
            format!(
                "self time of {} conversions next to these products",
                converts.len()
            ),
        ));
    }
    exhibits
}

fn is_convert(context: &Context<'_>, op: &OpProfile) -> bool {
    let op_name = context.op(op).framework_op.trim_end_matches(':');
    op.class == OpClass::Elementwise && op_name.ends_with("convert_element_type")
}

const NUMERICS: &str = "this changes the numbers: compare losses or outputs before and after; parts that need range (logits, softmax, norms, router) may have to stay in f32";

fn passes_draft(context: &Context<'_>, singles: &[Single<'_>]) -> Draft {
    let time = sum(singles, |single| single.time_ms);
    let expected = sum(singles, |single| single.expected_ms);
    let certain = singles.iter().all(|single| single.passes.certain);
    let mut caveats = vec![NUMERICS.to_owned()];
    if !certain {
        caveats.push(
            "the profile does not hold the precision of these products: it is inferred from their rate, and a product that is slow for another reason looks the same; the HLO (operand_precision) tells"
                .to_owned(),
        );
    }
    Draft {
        title: format!(
            "float32 matmuls {} several bf16 passes: {} of each {} step",
            if certain { "take" } else { "seem to take" },
            units::ms(time),
            context.evidence.step_time(),
        ),
        kind: AdviceKind::Dtype,
        ops: singles.iter().map(|single| single.product.op.id).collect(),
        evidence: exhibits(context, singles),
        claim: Some(Claim {
            expected_ms: expected,
            low_ms: if certain { expected } else { 0.0 },
            high_ms: sum(singles, |single| single.high_ms),
            upper_bound_ms: sum(singles, |single| single.upper_ms),
            basis: Basis::Modelled,
            formula: format!(
                "{} measured - {} with 3 passes for 6 and 1 for 3; high: one pass at the typical share of peak; never more than down to one pass at the peak",
                units::ms(time),
                units::ms(time - expected)
            ),
            buckets: buckets(singles),
        }),
        advice: vec![
            "find what asks for the precision (jax.default_matmul_precision, precision=HIGHEST, torch.set_float32_matmul_precision) and ask for less where accuracy allows: `high` is 3 passes for 6, the default is 1".to_owned(),
            "or keep operands in bf16 and accumulate in f32 (preferred_element_type): one pass and half the bytes".to_owned(),
        ],
        caveats,
    }
}

fn bytes_draft(context: &Context<'_>, singles: &[Single<'_>]) -> Draft {
    let time = sum(singles, |single| single.time_ms);
    let expected = sum(singles, |single| single.expected_ms);
    Draft {
        title: format!(
            "float32 matmuls wait for HBM: {} of each {} step, half of the bytes would do",
            units::ms(time),
            context.evidence.step_time(),
        ),
        kind: AdviceKind::Dtype,
        ops: singles.iter().map(|single| single.product.op.id).collect(),
        evidence: exhibits(context, singles),
        claim: Some(Claim {
            expected_ms: expected,
            low_ms: 0.0,
            high_ms: sum(singles, |single| single.high_ms).max(expected),
            upper_bound_ms: sum(singles, |single| single.upper_ms).max(expected),
            basis: Basis::Modelled,
            formula: format!(
                "{} measured - {} with half of the bytes at the same efficiency; high: at the typical share of the peak bandwidth; never more than at the peak; the MXU rounds f32 to bf16 at the default precision anyway",
                units::ms(time),
                units::ms(time - expected)
            ),
            buckets: buckets(singles),
        }),
        advice: vec![
            "keep what they read and write in bf16, with f32 accumulation (preferred_element_type): the MXU rounds the operands to bf16 at the default precision in any case".to_owned(),
        ],
        caveats: vec![NUMERICS.to_owned()],
    }
}

fn buckets(singles: &[Single<'_>]) -> Vec<Bucket> {
    singles
        .iter()
        .map(|single| Bucket::Op(single.product.op.id))
        .collect()
}
