//! Matmuls of few rows that wait for their weights.

use knowledge::advice::AdviceKind;
use profiler::program::shape::{Array, MemorySpace};
use profiler::units::{self, Bytes, percent, with_digits};

use crate::finding::{Basis, Bucket, Claim, Draft, Exhibit};
use crate::rule::{Context, Rule};
use crate::rules::matmul::product::{Ceilings, Product, weight};
use crate::rules::matmul::projection::projection;

/// See the card.
#[derive(Debug)]
pub struct WeightBoundDecode;

/// Below this share of the step it is not worth a line.
const MIN_SHARE: f64 = 0.01;
/// Rows up to this share of the ridge count as few.
const FEW: f64 = 0.5;

impl Rule for WeightBoundDecode {
    fn code(&self) -> &'static str {
        "TT507"
    }

    fn name(&self) -> &'static str {
        "weight-bound-decode"
    }

    fn card(&self) -> &'static str {
        include_str!("weight_bound_decode.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        let found: Vec<Reader<'_>> = Product::all(context)
            .into_iter()
            .filter_map(|product| Reader::of(context, product))
            .collect();
        let time: f64 = found.iter().map(|reader| reader.time_ms).sum();
        if context.share(time) < MIN_SHARE {
            return Vec::new();
        }
        vec![draft(context, &found)]
    }
}

/// A matmul that reads a weight for few rows.
struct Reader<'a> {
    product: Product<'a>,
    time_ms: f64,
    /// Rows that share one reading of the weight.
    rows: f64,
    /// Rows from which on the MXU would be the limit.
    ridge: f64,
    bits: f64,
    /// HBM bytes of a step.
    bytes: f64,
    /// Of those the weight's.
    weight_bytes: f64,
}

impl<'a> Reader<'a> {
    fn of(context: &Context<'_>, product: Product<'a>) -> Option<Self> {
        let weight: &Array = weight(context, product.op)?;
        let bytes = product.op.cost.hbm_bytes.filter(|bytes| *bytes > 0.0)?;
        // Scores, caches and other activations are read here too: the weight must be most of it.
        let is_most = weight.padded_bytes().0 as f64 >= 0.5 * bytes;
        let batched = product.dims.is_some_and(|dims| dims.batch > 1);
        if batched
            || !is_most
            || weight.memory_space() != MemorySpace::Hbm
            || product.hbm_ps <= product.padded_ps
        {
            return None;
        }
        let bits = f64::from(weight.element_bits());
        // Of a stack of weights only a slice may be read.
        let weight_bytes = (weight.padded_bytes().0 as f64).min(bytes);
        // Without dimensions, what is read for each multiplication tells the rows.
        let rows = product.dims.map_or_else(
            || product.flops / 2.0 / (weight_bytes * 8.0 / bits),
            // Few rows: the weight has the larger dimension, whichever side it is on.
            |dims| dims.m.min(dims.n) as f64,
        );
        let ridge = rows * product.hbm_ps / product.compute_ps;
        (rows <= FEW * ridge).then_some(Self {
            product,
            time_ms: product.op.step_self_ms(),
            rows,
            ridge,
            bits,
            bytes: bytes * product.op.step_occurrences,
            weight_bytes: weight_bytes * product.op.step_occurrences,
        })
    }

    /// Bytes of a step that a weight of 8 bits spares; none where it has no more.
    fn spared_bytes(&self) -> f64 {
        self.weight_bytes * (1.0 - 8.0 / self.bits).max(0.0)
    }

    /// What sparing them saves at the bandwidth measured, in milliseconds a step.
    fn saved_ms(&self) -> f64 {
        self.time_ms * self.spared_bytes() / self.bytes
    }

    /// What weights of 8 bits save if the rest is then read at a rate in GB/s.
    fn saved_at_ms(&self, rate: f64) -> f64 {
        let left = (self.bytes - self.spared_bytes()) / rate.max(1.0) / 1e6;
        if self.spared_bytes() > 0.0 {
            (self.time_ms - left).max(self.saved_ms())
        } else {
            0.0
        }
    }
}

/// Widths of the weights that could be smaller, in words: `16 bits`, `16 to 32 bits`.
fn widths(found: &[Reader<'_>]) -> String {
    let wide = found
        .iter()
        .map(|reader| reader.bits)
        .filter(|bits| *bits > 8.0);
    let (least, most) = wide.fold((f64::INFINITY, 0.0_f64), |(least, most), bits| {
        (least.min(bits), most.max(bits))
    });
    if least < most {
        format!("{least:.0} to {most:.0} bits")
    } else {
        format!("{most:.0} bits")
    }
}

fn draft(context: &Context<'_>, found: &[Reader<'_>]) -> Draft {
    let evidence = context.evidence;
    let time: f64 = found.iter().map(|reader| reader.time_ms).sum();
    let bytes: f64 = found.iter().map(|reader| reader.bytes).sum();
    let peaks = &evidence.peaks;
    let peak = peaks.hbm_gb_per_s.as_ref().map_or(0.0, |peak| peak.value);
    let rate = if time > 0.0 { bytes / time / 1e6 } else { 0.0 };
    let longest = found.iter().max_by(|a, b| a.time_ms.total_cmp(&b.time_ms));
    let (rows, ridge) = longest.map_or((0.0, 0.0), |reader| (reader.rows, reader.ridge));
    // Weights of 8 bits or less are left as they are.
    let saved: f64 = found.iter().map(Reader::saved_ms).sum();
    let spared: f64 = found.iter().map(Reader::spared_bytes).sum();
    let at = |rate: f64| {
        found
            .iter()
            .map(|reader| reader.saved_at_ms(rate))
            .sum::<f64>()
    };
    let typical = Ceilings::of(context).map_or(1.0, |ceilings| ceilings.hbm.typical);
    let mut exhibits = vec![
        Exhibit::number(
            "time",
            time,
            "ms/step",
            "self times of the matmuls below, mean over cores",
        ),
        Exhibit::text(
            "weights read",
            format!(
                "{} each step at {} of {}: {} of the peak",
                Bytes(bytes as u64),
                with_digits(rate, "GB/s"),
                with_digits(peak, "GB/s"),
                percent(rate / peak.max(1.0)),
            ),
            "HBM bytes of their operands and results over their time",
        ),
        Exhibit::text(
            "rows",
            format!(
                "about {rows:.0} for each reading of a weight; from {ridge:.0} on the MXU would be the limit"
            ),
            "FLOPs over twice the elements read; peak FLOP/s times bytes of an element over twice the bandwidth",
        ),
    ];
    let mut layers: Vec<(f64, String)> = Vec::new();
    for reader in found {
        let name = projection(&context.op(reader.product.op).framework_op);
        match layers.iter_mut().find(|(_, known)| *known == name) {
            Some((sum, _)) => *sum += reader.time_ms,
            None => layers.push((reader.time_ms, name)),
        }
    }
    layers.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    for (ms, name) in layers
        .into_iter()
        .filter(|(_, name)| !name.is_empty())
        .take(4)
    {
        exhibits.push(Exhibit::number(
            name,
            ms,
            "ms/step",
            "its matmuls' self time",
        ));
    }
    let bf16 = peaks.bf16_tflops.as_ref().map_or(0.0, |peak| peak.value);
    let faster = |peak: &Option<profiler::evidence::peaks::Peak>| {
        peak.as_ref().is_some_and(|peak| peak.value > bf16 * 1.01)
    };
    let dtype = match (faster(&peaks.fp8_tflops), faster(&peaks.int8_tops)) {
        (true, _) => "fp8",
        (false, true) => "int8",
        (false, false) => "8-bit",
    };
    let mut advice = vec![format!(
        "decode more sequences at once: the weights are read once for all, so each of up to {ridge:.0} rows is nearly free; what limits them is memory for the KV cache"
    )];
    if saved > 0.0 {
        advice.push(format!(
            "or store the weights in {dtype} instead of {}: {} of {} need not be read, {} less a step, if the conversion stays inside the matmul",
            widths(found),
            Bytes(spared as u64),
            Bytes(bytes as u64),
            units::ms(saved)
        ));
    }
    let mut caveats = vec![
        "more rows raise throughput, not the speed of one sequence; the saving stated is that of smaller weights".to_owned(),
        "weights of 8 bits change the numbers: check the quality of the outputs".to_owned(),
    ];
    if dtype == "fp8" && !faster(&peaks.int8_tops) {
        caveats.push(
            "int8 is no remedy on this chip: its MXU has no int8 rate, and int8 runs were slower where they were measured"
                .to_owned(),
        );
    }
    Draft {
        title: format!(
            "matmuls of about {rows:.0} rows wait for their weights: {} of each {} step",
            units::ms(time),
            evidence.step_time(),
        ),
        kind: AdviceKind::Dtype,
        ops: found.iter().map(|reader| reader.product.op.id).collect(),
        evidence: exhibits,
        claim: (saved > 0.0).then(|| Claim {
            expected_ms: saved,
            low_ms: 0.0,
            high_ms: at(peak * typical),
            upper_bound_ms: at(peak),
            basis: Basis::Modelled,
            formula: format!(
                "{} measured, of which reading weights in 8 bits instead of {} takes {} off at the same bandwidth ({} of all bytes); high: the rest at {} of the peak bandwidth; never more than at the peak",
                units::ms(time),
                widths(found),
                units::ms(saved),
                percent(spared / bytes.max(1.0)),
                percent(typical),
            ),
            buckets: found.iter().map(|reader| Bucket::Op(reader.product.op.id)).collect(),
        }),
        advice,
        caveats,
    }
}
