//! Matmuls whose sizes leave parts of the MXU's arrays holding zeros.

use std::collections::BTreeMap;

use knowledge::advice::AdviceKind;
use profiler::program::matmul::Matmul;
use profiler::units::{self, percent};

use crate::finding::{Basis, Bucket, Claim, Draft, Exhibit};
use crate::rule::{Context, Rule};
use crate::rules::matmul::product::{Product, dimensions};
use crate::rules::matmul::projection::projection;

/// See the card.
#[derive(Debug)]
pub struct MxuPaddingWaste;

/// A waste below this share of the step is not worth a line.
const MIN_SHARE: f64 = 0.005;
/// A product with less padding than this is as good as full.
const MIN_PADDING: f64 = 0.01;
/// Products that are named one by one.
const LISTED: usize = 6;

impl Rule for MxuPaddingWaste {
    fn code(&self) -> &'static str {
        "TT503"
    }

    fn name(&self) -> &'static str {
        "mxu-padding-waste"
    }

    fn card(&self) -> &'static str {
        include_str!("mxu_padding_waste.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        let Some(chip) = &context.evidence.chip else {
            return Vec::new();
        };
        let side = chip.facts.mxu_size.value;
        let mut groups: BTreeMap<_, Waste<'_>> = BTreeMap::new();
        for product in Product::all(context) {
            let Some(dims) = product.dims else { continue };
            let padding = 1.0 - product.compute_ps / product.padded_ps;
            // Where HBM is the limit, zeros in the MXU cost nothing.
            let bound = product.floor_ps() - product.compute_ps.max(product.hbm_ps);
            if padding < MIN_PADDING || bound <= 0.0 {
                continue;
            }
            let name = projection(&context.op(product.op).framework_op);
            let key = (name.clone(), [dims.batch, dims.m, dims.k, dims.n]);
            let waste = groups.entry(key).or_insert_with(|| Waste {
                name,
                dims,
                padding,
                floor_ms: 0.0,
                measured_ms: 0.0,
                products: Vec::new(),
            });
            waste.floor_ms += product.per_step_ms(bound);
            waste.measured_ms += product.op.step_self_ms() * bound / product.floor_ps();
            waste.products.push(product);
        }
        let mut wastes: Vec<Waste<'_>> = groups.into_values().collect();
        wastes.sort_by(|a, b| b.floor_ms.total_cmp(&a.floor_ms));
        let total: f64 = wastes.iter().map(|waste| waste.floor_ms).sum();
        if context.share(total) < MIN_SHARE {
            return Vec::new();
        }
        vec![draft(context, &wastes, side)]
    }
}

/// One shape's zeros.
struct Waste<'a> {
    name: String,
    dims: Matmul,
    /// Share of the MXU's work that is zeros.
    padding: f64,
    /// What the zeros take at the peak, in milliseconds a step.
    floor_ms: f64,
    /// What they take at the measured efficiency, in milliseconds a step.
    measured_ms: f64,
    products: Vec<Product<'a>>,
}

impl Waste<'_> {
    /// The dimensions that are padded, as `k 1200 to 1280`, and the shape that is computed.
    fn padded(&self, side: u32) -> Vec<String> {
        let side = u64::from(side.max(1));
        let full = |size: u64, step: u64| size.div_ceil(step).saturating_mul(step);
        let dims = &self.dims;
        // One of m and n streams in rows of 8, whichever way costs less; the other fills arrays.
        let work = |m: u64, n: u64| m as f64 * n as f64;
        let [by_m, by_n] = [
            [full(dims.m, 8), full(dims.n, side)],
            [full(dims.m, side), full(dims.n, 8)],
        ];
        let [m, n] = if work(by_m[0], by_m[1]) <= work(by_n[0], by_n[1]) {
            by_m
        } else {
            by_n
        };
        [
            ("rows", dims.m, m),
            ("contracted", dims.k, full(dims.k, side)),
            ("columns", dims.n, n),
        ]
        .into_iter()
        .filter(|(_, size, padded)| padded > size)
        .map(|(what, size, padded)| format!("{what} {size} to {padded}"))
        .collect()
    }

    fn exhibit(&self, side: u32) -> Exhibit {
        let name = if self.name.is_empty() {
            "matmul".to_owned()
        } else {
            self.name.clone()
        };
        Exhibit::text(
            name,
            format!(
                "{} computes {}: {} of its work is zeros, {} a step",
                dimensions(&self.dims),
                self.padded(side).join(", "),
                percent(self.padding),
                units::ms(self.floor_ms),
            ),
            format!(
                "columns and contracted size in arrays of {side}, rows in 8; time of the zeros at the MXU's peak"
            ),
        )
    }
}

fn draft(context: &Context<'_>, wastes: &[Waste<'_>], side: u32) -> Draft {
    let floor: f64 = wastes.iter().map(|waste| waste.floor_ms).sum();
    let measured: f64 = wastes.iter().map(|waste| waste.measured_ms).sum();
    let products = || wastes.iter().flat_map(|waste| &waste.products);
    let mut named: Vec<String> = Vec::new();
    for name in wastes.iter().flat_map(|waste| waste.padded(side)) {
        if !named.contains(&name) {
            named.push(name);
        }
    }
    named.truncate(3);
    Draft {
        title: format!(
            "matmuls multiply zeros: {} ({} of each {} step)",
            named.join(", "),
            units::ms(floor),
            context.evidence.step_time(),
        ),
        kind: AdviceKind::Padding,
        ops: products().map(|product| product.op.id).collect(),
        evidence: wastes
            .iter()
            .take(LISTED)
            .map(|waste| waste.exhibit(side))
            .collect(),
        claim: Some(Claim {
            expected_ms: floor,
            low_ms: 0.0,
            high_ms: measured,
            upper_bound_ms: measured,
            basis: Basis::Modelled,
            formula: format!(
                "padded minus real FLOPs over the peak, where the MXU and not HBM is the limit: {}; at the measured efficiency {}",
                units::ms(floor),
                units::ms(measured)
            ),
            buckets: products().map(|product| Bucket::Op(product.op.id)).collect(),
        }),
        advice: vec![
            format!(
                "choose sizes that fill arrays of {side}: either just below the boundary (saves the time), or grown to it (costs no time: the work is done already)"
            ),
            "where a checkpoint fixes the size, leave it: XLA pads by itself, and padding in the program only adds work".to_owned(),
        ],
        caveats: vec![
            "a model of the MXU, not a measurement: it agrees with the compiler's own schedules, which fusions and copies around an odd size can outweigh; price a change by compiling the whole program both ways".to_owned(),
        ],
    }
}
