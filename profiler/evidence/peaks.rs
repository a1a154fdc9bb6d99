//! Which chip it is and what it can do, each figure with where it comes from.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::chip::{ChipFacts, Generation};
use crate::program::parse_instruction;
use crate::session::{ModuleId, Session};

/// How the chip is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChipBasis {
    /// The profile's plane says so.
    Stated,
    /// The user said so.
    Given,
    /// It follows from the evidence, and could be wrong.
    Inferred,
}

/// The chip of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Chip {
    /// Which generation.
    pub generation: Generation,
    /// How it is known.
    pub basis: ChipBasis,
    /// Why, in words.
    pub reason: String,
    /// What is known of the generation.
    pub facts: ChipFacts,
}

/// A rate with its source.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Peak {
    /// The value in the unit that the field's name says.
    pub value: f64,
    /// Where it is from.
    pub source: String,
}

/// Peaks of one device.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Peaks {
    /// bf16 matmul rate in TFLOP/s (10¹²).
    pub bf16_tflops: Option<Peak>,
    /// fp8 matmul rate in TFLOP/s.
    pub fp8_tflops: Option<Peak>,
    /// int8 matmul rate in TOP/s.
    pub int8_tops: Option<Peak>,
    /// HBM bandwidth in GB/s (10⁹).
    pub hbm_gb_per_s: Option<Peak>,
    /// VMEM read bandwidth in GB/s (10⁹).
    pub vmem_read_gb_per_s: Option<Peak>,
    /// VMEM write bandwidth in GB/s (10⁹).
    pub vmem_write_gb_per_s: Option<Peak>,
    /// ICI, all links of the device, in one direction, in GB/s (10⁹).
    pub ici_gb_per_s: Option<Peak>,
    /// PCIe in one direction, in GB/s (10⁹).
    pub pcie_gb_per_s: Option<Peak>,
    /// HBM of the device in bytes.
    pub hbm_bytes: Option<Peak>,
}

impl Peaks {
    /// The matmul rate for an operand dtype (HLO name) in TFLOP/s.
    #[must_use]
    pub fn matmul_tflops(&self, dtype: &str) -> Option<f64> {
        let bf16 = self.bf16_tflops.as_ref().map(|peak| peak.value);
        let or_bf16 = |peak: &Option<Peak>| peak.as_ref().map(|peak| peak.value).or(bf16);
        match dtype {
            dtype if dtype.starts_with("f8") => or_bf16(&self.fp8_tflops),
            "s8" | "u8" | "s4" | "u4" => or_bf16(&self.int8_tops),
            _ => bf16,
        }
    }

    /// The rate of products in TFLOP/s: operands of two dtypes are multiplied at the rate of the
    /// slower one (int8 weights of bf16 activations at that of bf16). Of several the slowest;
    /// `None` where there is no product or no peak.
    #[must_use]
    pub fn product_tflops<'d>(
        &self,
        operands: impl IntoIterator<Item = (&'d str, &'d str)>,
    ) -> Option<f64> {
        let of = |(lhs, rhs)| Some(self.matmul_tflops(lhs)?.min(self.matmul_tflops(rhs)?));
        operands.into_iter().filter_map(of).min_by(f64::total_cmp)
    }

    /// Peaks of one device of a chip.
    #[must_use]
    pub fn of_facts(facts: &ChipFacts) -> Self {
        Self::of_part(facts, f64::from(facts.devices_per_chip.value.max(1)))
    }

    /// Peaks of a plane: of the `planes` that share a chip, each has its part of the FLOPs and of
    /// the HBM bandwidth; links and memory are those of the device.
    fn of_part(facts: &ChipFacts, planes: f64) -> Self {
        let devices = f64::from(facts.devices_per_chip.value.max(1));
        let rate = |dtype: &str| {
            facts.peak_tflops_per_chip.get(dtype).map(|peak| Peak {
                value: peak.value / planes,
                source: peak.source.clone(),
            })
        };
        let share = |figure: &Option<crate::chip::Sourced<f64>>, factor: f64| {
            figure.as_ref().map(|f| Peak {
                value: f.value * factor / devices,
                source: f.source.clone(),
            })
        };
        Self {
            bf16_tflops: rate("bf16"),
            fp8_tflops: rate("fp8"),
            int8_tops: rate("int8"),
            hbm_gb_per_s: share(&Some(facts.hbm_gb_per_s_per_chip.clone()), devices / planes),
            vmem_read_gb_per_s: None,
            vmem_write_gb_per_s: None,
            // The facts add both directions of all links.
            ici_gb_per_s: share(&facts.ici_gb_per_s_per_chip, 0.5),
            pcie_gb_per_s: share(&facts.pcie_gb_per_s_per_chip, 1.0),
            hbm_bytes: share(&Some(facts.hbm_gib_per_chip.clone()), (1u64 << 30) as f64),
        }
    }

    /// Peaks of a device: what the profile states, else the chip's facts.
    #[must_use]
    pub fn of(session: &Session, chip: Option<&Chip>) -> Self {
        let plane = session.tensor_cores().next().map(|(_, device)| device);
        let stated_tflops = plane.and_then(|device| device.peaks.peak_tflops);
        let mut peaks = chip
            .map(|chip| Self::of_part(&chip.facts, planes_per_chip(&chip.facts, stated_tflops)))
            .unwrap_or_default();
        let Some(device) = plane else {
            return peaks;
        };
        // A predicted plane states what the facts say, and theirs is the better source.
        let is_stated = session.prediction.is_none();
        let stated = |value: Option<f64>, name: &str| {
            value.filter(|_| is_stated).map(|value| Peak {
                value,
                source: format!("plane stat {name}"),
            })
        };
        let given = &device.peaks;
        let prefer = |slot: &mut Option<Peak>, value: Option<Peak>| {
            if value.is_some() {
                *slot = value;
            }
        };
        prefer(
            &mut peaks.bf16_tflops,
            stated(given.peak_tflops, "peak_teraflops_per_second"),
        );
        prefer(
            &mut peaks.hbm_gb_per_s,
            stated(given.peak_hbm_gb_per_s, "peak_hbm_bw_gigabytes_per_second"),
        );
        prefer(
            &mut peaks.vmem_read_gb_per_s,
            stated(
                given.peak_vmem_read_gb_per_s,
                "peak_vmem_rd_bw_gigabytes_per_second",
            ),
        );
        prefer(
            &mut peaks.vmem_write_gb_per_s,
            stated(
                given.peak_vmem_write_gb_per_s,
                "peak_vmem_wr_bw_gigabytes_per_second",
            ),
        );
        peaks
    }
}

/// How many planes share a chip: one for each TensorCore, also where JAX joins the cores of a chip
/// to one device (megacore, v4 and v5p). Where the plane states its bf16 peak, the peak tells, and
/// its ratio to the chip's need not be whole: rates of other dtypes follow the stated one.
fn planes_per_chip(facts: &ChipFacts, stated_tflops: Option<f64>) -> f64 {
    let cores = f64::from(facts.tensor_cores_per_chip.value.max(1));
    let ratio = stated_tflops
        .zip(facts.peak_tflops_per_chip("bf16"))
        .map(|(stated, chip)| chip / stated);
    ratio
        .filter(|ratio| (0.5..=2.0 * cores).contains(ratio))
        .unwrap_or(cores)
}

impl Chip {
    /// Finds the chip: the plane's word first, then the user's, then what the evidence allows.
    ///
    /// `facts` are those of all generations.
    #[must_use]
    pub fn find(session: &Session, given: Option<Generation>, facts: &[ChipFacts]) -> Option<Self> {
        let of =
            |generation: Generation| facts.iter().find(|f| f.generation == generation).cloned();
        let stated = session.devices.iter().find_map(|device| {
            let name = device.peaks.device_type.as_deref()?;
            Some((Generation::parse(name)?, name))
        });
        if let Some((generation, name)) = stated {
            let reason = match &session.prediction {
                Some(found) => format!("predicted for {}", found.provenance.target),
                None => format!("plane stat device_type_string is {name:?}"),
            };
            return Some(Self {
                generation,
                basis: ChipBasis::Stated,
                reason,
                facts: of(generation)?,
            });
        }
        if let Some(generation) = given {
            let reason = "given with --chip".to_owned();
            return Some(Self {
                generation,
                basis: ChipBasis::Given,
                reason,
                facts: of(generation)?,
            });
        }
        let (generation, reason) = infer(session, facts)?;
        Some(Self {
            generation,
            basis: ChipBasis::Inferred,
            reason,
            facts: of(generation)?,
        })
    }
}

/// Infers the chip by exclusion: a matmul faster than a chip's peak excludes it, parameters that do
/// not fit in its HBM exclude it, and a line that only one generation writes decides. Of the chips
/// left, the one with the lowest peak is taken.
fn infer(session: &Session, facts: &[ChipFacts]) -> Option<(Generation, String)> {
    if session.device_lines.contains("TC Overlay") {
        let reason =
            "the profile has a \"TC Overlay\" line, which TPU7x writes; give --chip to be sure";
        return Some((Generation::Tpu7x, reason.to_owned()));
    }
    let (fastest, fastest_op) = fastest_matmul(session)?;
    let parameters = parameter_bytes(session);
    let mut fitting: Vec<(f64, &ChipFacts)> = facts
        .iter()
        .filter_map(|f| Some((f.peak_tflops_per_core("bf16")?, f)))
        .filter(|(peak, f)| fastest <= *peak && parameters <= f.hbm_bytes_per_device())
        .collect();
    fitting.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (peak, chip) = *fitting.first()?;
    Some((
        chip.generation,
        format!(
            "the fastest matmul ({fastest_op}) runs at {fastest:.0} TFLOP/s, {:.0} % of {}'s peak and more than smaller chips reach, and its parameters ({}) fit; give --chip to be sure",
            100.0 * fastest / peak,
            chip.generation.name(),
            crate::units::Bytes(parameters),
        ),
    ))
}

/// The highest FLOP rate of a matmul, in TFLOP/s, and the op that reached it.
fn fastest_matmul(session: &Session) -> Option<(f64, &str)> {
    let mut fastest: Option<(f64, &str)> = None;
    for (_, device) in session.tensor_cores() {
        for (id, duration) in device.ops.id.iter().zip(&device.op_device_duration_ps) {
            let Some(op) = session.ops.get(*id as usize) else {
                continue;
            };
            // Durations below a microsecond are too coarse to judge a rate by.
            if !op.category.starts_with("convolution") || *duration < 1_000_000 {
                continue;
            }
            let rate = op.flops.or(op.model_flops).unwrap_or(0) as f64 / *duration as f64;
            if rate > fastest.map_or(0.0, |(rate, _)| rate) {
                fastest = Some((rate, &op.name));
            }
        }
    }
    fastest
}

/// Bytes of the parameters that the largest module's operations read: a lower bound of its HBM.
fn parameter_bytes(session: &Session) -> u64 {
    let mut parameters: BTreeMap<(Option<ModuleId>, String), u64> = BTreeMap::new();
    for op in &session.ops {
        let Ok(instruction) = parse_instruction(&op.hlo_text) else {
            continue;
        };
        for operand in instruction.operands {
            let is_parameter = ["param", "arg", "Arg_"]
                .iter()
                .any(|p| operand.name.starts_with(p));
            if let Some(shape) = operand.shape.filter(|_| is_parameter) {
                parameters.insert((op.module, operand.name), shape.padded_bytes().0);
            }
        }
    }
    let mut sums: BTreeMap<Option<ModuleId>, u64> = BTreeMap::new();
    for ((module, _), bytes) in parameters {
        let sum = sums.entry(module).or_default();
        *sum = sum.saturating_add(bytes);
    }
    sums.into_values().max().unwrap_or(0)
}
