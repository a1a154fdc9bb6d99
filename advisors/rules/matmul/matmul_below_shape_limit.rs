//! Matmuls that are slower than their shape allows.

use std::collections::BTreeMap;

use knowledge::advice::AdviceKind;
use profiler::evidence::{OpClass, OpProfile};
use profiler::program::matmul::Matmul;
use profiler::units::{self, Bytes, percent};

use crate::finding::{Basis, Bucket, Claim, Draft, Exhibit};
use crate::rule::{Context, Rule};
use crate::rules::matmul::precision::passes;
use crate::rules::matmul::product::{Ceilings, Level, Product, dimensions, matrices};
use crate::rules::matmul::projection::projection;

/// See the card.
#[derive(Debug)]
pub struct MatmulBelowShapeLimit;

/// A saving below this share of the step is not worth a line.
const MIN_SHARE: f64 = 0.005;
/// Findings of this rule, the largest first.
const MAX_FINDINGS: usize = 4;
/// Rows below this many times the ridge leave little time to hide the weights' way from HBM.
const FEW_ROWS: f64 = 4.0;

impl Rule for MatmulBelowShapeLimit {
    fn code(&self) -> &'static str {
        "TT501"
    }

    fn name(&self) -> &'static str {
        "matmul-below-shape-limit"
    }

    fn card(&self) -> &'static str {
        include_str!("matmul_below_shape_limit.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        let Some(ceilings) = Ceilings::of(context) else {
            return Vec::new();
        };
        let mut found: Vec<(f64, Draft)> = groups(context)
            .into_iter()
            .filter_map(|group| group.draft(context, &ceilings))
            .collect();
        found.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.title.cmp(&b.1.title)));
        found.truncate(MAX_FINDINGS);
        found.into_iter().map(|(_, draft)| draft).collect()
    }
}

/// Matmuls of one projection and one shape: all layers of it.
struct Group<'a> {
    name: String,
    dims: Matmul,
    products: Vec<Product<'a>>,
}

fn groups<'a>(context: &Context<'a>) -> Vec<Group<'a>> {
    let mut groups: BTreeMap<_, Group<'a>> = BTreeMap::new();
    for product in Product::all(context) {
        let Some(dims) = product.dims else { continue };
        // What several passes cost is another rule's business, and no question of shape.
        if product.is_f32() && passes(context, &product).count > 1 {
            continue;
        }
        let name = projection(&context.op(product.op).framework_op);
        let key = (
            product.op.module,
            name.clone(),
            [dims.batch, dims.m, dims.k, dims.n],
            [dims.lhs, dims.rhs],
        );
        let group = groups.entry(key).or_insert_with(|| Group {
            name,
            dims,
            products: Vec::new(),
        });
        group.products.push(product);
    }
    groups.into_values().collect()
}

impl Group<'_> {
    fn sum_ms(&self, of: impl Fn(&Product<'_>) -> f64) -> f64 {
        let each = |product: &Product<'_>| product.per_step_ms(of(product));
        self.products.iter().map(each).sum()
    }

    fn label(&self) -> String {
        let shape = dimensions(&self.dims);
        if self.name.is_empty() {
            format!("the matmul {shape}")
        } else {
            format!("{} {shape}", self.name)
        }
    }

    fn draft(&self, context: &Context<'_>, ceilings: &Ceilings) -> Option<(f64, Draft)> {
        let time = self.sum_ms(|product| product.time_ps);
        let reach = |level| self.sum_ms(|product| product.reach_ps(ceilings, level));
        let saving = |level| (time - reach(level)).max(0.0);
        let expected = saving(Level::Typical);
        if time <= reach(Level::Low) || context.share(expected) < MIN_SHARE {
            return None;
        }
        let peak_share = self.sum_ms(|product| product.compute_ps) / time;
        let padded = self.sum_ms(|product| product.padded_ps);
        let hbm = self.sum_ms(|product| product.hbm_ps);
        let limit = if padded >= hbm {
            format!("{:.0} % of the MXU's peak", 100.0 * peak_share)
        } else {
            format!("{:.0} % of HBM's bandwidth", 100.0 * hbm / time)
        };
        let first = self.products.first()?;
        let peak = first.flops / first.compute_ps;
        let mut exhibits = self.rates(peak, peak_share, time);
        exhibits.push(Exhibit::text(
            "least time of this shape",
            format!(
                "{} at the peaks: MXU {}{}, HBM {}",
                units::ms(self.sum_ms(|product| product.floor_ps())),
                units::ms(padded),
                if padded > 1.01 * self.sum_ms(|product| product.compute_ps) {
                    " with padding"
                } else {
                    ""
                },
                units::ms(hbm),
            ),
            "FLOPs of the padded shape over the peak; bytes of operands and result in HBM over the bandwidth",
        ));
        let (more, advice) = self.causes(context, first, hbm / padded);
        exhibits.extend(more);
        let claim = Claim {
            expected_ms: expected,
            low_ms: saving(Level::Low),
            high_ms: saving(Level::High),
            upper_bound_ms: (time - self.sum_ms(|product| product.floor_ps())).max(0.0),
            basis: Basis::Modelled,
            formula: format!(
                "{} measured - {} at {:.0} % of the MXU's peak (or {:.0} % of HBM's where that is longer), which good matmuls reach; low at {:.0} %, high at {:.0} %",
                units::ms(time),
                units::ms(reach(Level::Typical)),
                100.0 * ceilings.matmul.typical,
                100.0 * ceilings.hbm.typical,
                100.0 * ceilings.matmul.low,
                100.0 * ceilings.matmul.high,
            ),
            buckets: self.products.iter().map(|p| Bucket::Op(p.op.id)).collect(),
        };
        let draft = Draft {
            title: format!(
                "{} runs at {limit}: {} of each {} step",
                self.label(),
                units::ms(time),
                context.evidence.step_time(),
            ),
            kind: AdviceKind::MatmulShape,
            ops: self.products.iter().map(|product| product.op.id).collect(),
            evidence: exhibits,
            claim: Some(claim),
            advice,
            caveats: vec![
                format!(
                    "the ceilings were measured on other matmuls: {}",
                    ceilings.matmul.source
                ),
                "do not replace the fusion by a hand-written kernel for the norm or the activation: XLA has fused them already, and such a kernel lost 8 % where it was tried"
                    .to_owned(),
            ],
        };
        Some((expected, draft))
    }

    fn rates(&self, peak: f64, peak_share: f64, time: f64) -> Vec<Exhibit> {
        let count: f64 = self.products.iter().map(|p| p.op.step_occurrences).sum();
        let mean_us = if count > 0.0 { time * 1e3 / count } else { 0.0 };
        vec![
            Exhibit::text(
                "rate",
                format!(
                    "{:.0} TFLOP/s of {peak:.1}: {:.0} % of the peak",
                    peak_share * peak,
                    100.0 * peak_share
                ),
                "FLOPs 2 x rows x contracted x columns, without what is fused to the product, over the mean duration",
            ),
            Exhibit::text(
                "runs",
                format!(
                    "{count:.0} of {} each step, {} each",
                    self.dims.lhs.name(),
                    units::ms(mean_us / 1e3)
                ),
                "rows x contracted x columns as in the title",
            ),
        ]
    }

    /// What in the fusions could be the cause, and what to do about it.
    fn causes(
        &self,
        context: &Context<'_>,
        first: &Product<'_>,
        hbm_share: f64,
    ) -> (Vec<Exhibit>, Vec<String>) {
        let (mut exhibits, mut advice) = (Vec::new(), Vec::new());
        if let Some(maker) = maker(context, first.op) {
            exhibits.push(Exhibit::text(
                "reads the result of",
                maker,
                "the operations that make its operands",
            ));
        }
        let dims = &self.dims;
        let rows = dims.m.saturating_mul(dims.k);
        let columns = dims.n.saturating_mul(dims.k);
        let sizes = || matrices(first.op).map(|array| array.elements());
        let wide = sizes().find(|elements| {
            *elements != columns && (2..=4).any(|parts| rows.checked_mul(parts) == Some(*elements))
        });
        let plain = sizes().any(|elements| elements == rows);
        if let Some(elements) = wide.filter(|_| dims.batch == 1 && !plain) {
            let parts = elements / rows.max(1);
            exhibits.push(Exhibit::text(
                "computed on the way in",
                format!(
                    "its left side of {} is made from an array {parts} times as large while the product reads it (as in silu(gate) * up)",
                    Bytes(rows.saturating_mul(u64::from(dims.lhs.bits())) / 8),
                ),
                "the shapes of the fusion's operands",
            ));
            let bytes = 2.0 * rows as f64 * f64::from(dims.lhs.bits()) / 8.0;
            let hbm = context.evidence.peaks.hbm_gb_per_s.as_ref();
            let price = hbm.map_or(0.0, |peak| bytes / peak.value / 1e6);
            let count: f64 = self.products.iter().map(|p| p.op.step_occurrences).sum();
            advice.push(format!(
                "compute the activation apart from this product (or at the end of the one before, gate and up interleaved) and measure both: the extra write and read cost about {} a step, so it pays only where the product gains more",
                units::ms(price * count)
            ));
        }
        if hbm_share * FEW_ROWS > 1.0 {
            advice.push(format!(
                "give it more rows ({} now): at the peaks its bytes take {} as long as its products, and larger batches or longer chunks read the weights for more work",
                dims.m,
                percent(hbm_share)
            ));
        }
        advice.push(
            "compile this product alone in the same shape and compare: if it is as slow alone, change its shape (join products that share an input, other sharding); if not, look at what is fused into it"
                .to_owned(),
        );
        (exhibits, advice)
    }
}

/// The nearest matmul or kernel that an operand comes from, by its layer.
fn maker(context: &Context<'_>, op: &OpProfile) -> Option<String> {
    let mut ring: Vec<&OpProfile> = vec![op];
    for _ in 0..4 {
        let before: Vec<&OpProfile> = ring
            .iter()
            .flat_map(|op| context.evidence.producers_of(op))
            .take(32)
            .collect();
        for made in &before {
            let name = &context.op(made).framework_op;
            match made.class {
                OpClass::Matmul => return Some(projection(name)).filter(|name| !name.is_empty()),
                OpClass::CustomCall if made.step_self_ps > 0.0 => {
                    return Some(context.op(made).name.clone());
                }
                _ => {}
            }
        }
        ring = before;
    }
    None
}
