//! Compute against collectives as chips are added: what bounds a step at which count.
//!
//! ```text
//! fsdp      each layer's weights in bf16: gathered forward and backward, gradients scattered
//! expert    each token to its experts and back, forward and backward (once more with full remat)
//! tensor    activations added twice a layer forward, twice backward (twice more with full remat)
//! data      gradients in f32 added once a step
//! pipeline  activations of a micro-batch handed on, forward and backward
//! ```
//!
//! The batch stays the same, so each chip gets less to do as chips are added: strong scaling. Where
//! a step does not fit, the batch is worked through in more parts, and FSDP gathers for each. A
//! collective is priced as [`Ici`] does it, by where its group lies in the torus; one that leaves a
//! slice moves its part within the slice over ICI and the rest over the data centre's network.
//! Whether the times hide behind compute depends on the program: at best a step takes the longest
//! of them, at worst their sum.

use serde::Serialize;

use super::config::{Decoder, Mlp};
use super::flops::{Flops, Remat};
use super::memory::{MemoryPlan, Stored};
use super::mesh::{Group, Mesh};
use super::parallelism::{Asked, Axis, Parallelism};
use super::params::LayerParams;
use super::utilization::Fleet;
use crate::chip::ChipFacts;
use crate::compiler::ici::{Ici, IciCalibration, Topology, Transfer};
use crate::evidence::class::CollectiveKind;

const BF16: f64 = 2.0;
const F32: f64 = 4.0;
const PS: f64 = 1e-12;

/// What is scaled.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// The model.
    pub model: &'a Decoder,
    /// FLOPs of a token.
    pub flops: Flops,
    /// Sequences in a step.
    pub batch: u64,
    /// Tokens in a sequence.
    pub seq: u64,
    /// The axes as asked for: what is left goes to FSDP or data.
    pub asked: Asked,
    /// How the step stores what it keeps.
    pub stored: Stored,
    /// The chip.
    pub chip: &'a ChipFacts,
    /// How well collectives use the links.
    pub links: &'a IciCalibration,
    /// Share of the peak that matmuls reach.
    pub matmul_share: f64,
    /// The dtype whose peak counts.
    pub dtype: &'a str,
    /// Chips of one slice, at most: more are several, over the data centre's network.
    pub slice_chips: u64,
}

/// Times of a step at one count of chips, in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Chips.
    pub chips: u64,
    /// Slices.
    pub slices: u64,
    /// How the job is split.
    pub split: Parallelism,
    /// Sequences of a device's batch.
    pub sequences_per_device: f64,
    /// Parts that the batch is worked through in: as many as were asked for, or as memory needs.
    pub microbatches: u64,
    /// Matmuls and attention, with what is computed again.
    pub compute_s: f64,
    /// Collectives of each axis.
    pub collectives: Vec<Collective>,
    /// Share of the time in which stages of a pipeline wait for each other.
    pub bubble: f64,
    /// Memory of a device in bytes.
    pub memory_bytes: f64,
    /// Whether that fits.
    pub fits: bool,
}

/// The collectives of one axis in a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Collective {
    /// The axis.
    pub axis: Axis,
    /// Seconds.
    pub seconds: f64,
    /// Part of it over the data centre's network.
    pub dcn_seconds: f64,
}

impl Point {
    /// Seconds of an axis.
    #[must_use]
    pub fn seconds(&self, axis: Axis) -> f64 {
        self.collectives
            .iter()
            .filter(|of_axis| of_axis.axis == axis)
            .map(|of_axis| of_axis.seconds)
            .sum()
    }

    /// The most that a step takes: no collective hidden.
    #[must_use]
    pub fn step_at_worst_s(&self) -> f64 {
        let collectives: f64 = self.collectives.iter().map(|axis| axis.seconds).sum();
        (self.compute_s + collectives) / (1.0 - self.bubble).max(0.01)
    }

    /// What takes longest: `compute`, an axis, or an axis over DCN.
    #[must_use]
    pub fn bound(&self) -> String {
        let longest = self
            .collectives
            .iter()
            .max_by(|a, b| a.seconds.total_cmp(&b.seconds));
        match longest {
            Some(axis) if axis.seconds > self.compute_s => {
                let name = match axis.axis {
                    Axis::Tensor => "tensor",
                    Axis::Expert => "expert",
                    Axis::Fsdp => "fsdp",
                    Axis::Data => "data",
                    Axis::Pipeline => "pipeline",
                };
                let wire = if axis.dcn_seconds > axis.seconds / 2.0 {
                    "DCN"
                } else {
                    "ICI"
                };
                format!("{name} ({wire})")
            }
            _ => "compute".to_owned(),
        }
    }

    /// The least that a step takes: all hidden behind what takes longest.
    #[must_use]
    pub fn step_at_best_s(&self) -> f64 {
        let longest = self
            .collectives
            .iter()
            .map(|axis| axis.seconds)
            .fold(self.compute_s, f64::max);
        longest / (1.0 - self.bubble).max(0.01)
    }
}

/// Counts that are shown: powers of two up to and with the job's own.
#[must_use]
pub fn counts(chips: u64, most: u64) -> Vec<u64> {
    let most = most.max(chips).min(1 << 20);
    let mut counts: Vec<u64> = (0..=20)
        .map(|power| 1u64 << power)
        .filter(|count| *count <= most)
        .collect();
    if !counts.contains(&chips) {
        counts.push(chips);
        counts.sort_unstable();
    }
    counts
}

impl Plan<'_> {
    /// A step at so many chips; none where the axes do not fit them, a device has no whole
    /// sequence, or the links are not known.
    #[must_use]
    pub fn at(&self, chips: u64) -> Option<Point> {
        let fleet = Fleet {
            chip: self.chip,
            chips,
        };
        let split = self.asked.over(fleet.devices()).ok()?;
        let sequences_per_device = self.batch as f64 / split.batch_shards().max(1) as f64;
        if sequences_per_device < 1.0 {
            return None;
        }
        // Slices are alike: the fewest that divide the chips.
        let least = chips.div_ceil(self.slice_chips.max(1));
        let slices = (least..=chips).find(|slices| chips.is_multiple_of(*slices))?;
        let topology = Topology::of_devices(self.chip, fleet.devices() / slices);
        let links = Links {
            mesh: Mesh::lay(&topology, &split),
            ici: Ici::new(self.chip, self.links.clone(), topology)?,
        };
        let tokens = self.batch.saturating_mul(self.seq);
        let usable = self.chip.hbm_usable_bytes_per_device() as f64;
        let fitting = MemoryPlan::microbatches_to_fit(
            self.model,
            self.batch,
            self.seq,
            &split,
            &self.stored,
            usable,
        );
        let microbatches = fitting.unwrap_or(self.stored.microbatches.max(1));
        let stored = Stored {
            microbatches,
            ..self.stored
        };
        let executed = self.flops.executed(self.stored.remat) * tokens as f64;
        let reached = fleet.peak_flops(self.dtype) * self.matmul_share;
        let memory = MemoryPlan::of(self.model, tokens, &split, &stored);
        let micro = microbatches as f64;
        let stages = split.pipeline.max(1) as f64;
        let memory_bytes = memory.total();
        Some(Point {
            chips,
            slices,
            split,
            sequences_per_device,
            microbatches,
            compute_s: executed / reached,
            collectives: self.collectives(&split, &links, micro),
            bubble: (stages - 1.0) / (micro + stages - 1.0),
            memory_bytes,
            fits: memory_bytes <= usable,
        })
    }

    fn collectives(&self, split: &Parallelism, links: &Links, micro: f64) -> Vec<Collective> {
        let hidden = self.model.hidden as f64;
        let tensor = split.tensor.max(1) as f64;
        let stages = split.pipeline.max(1) as f64;
        // Of a micro-batch on a device.
        let local =
            self.batch as f64 * self.seq as f64 / split.batch_shards().max(1) as f64 / micro;
        let again = u32::from(self.stored.remat == Remat::Full);
        let sum = |layers: &dyn Fn(&super::config::Layer) -> Time| {
            let mut total = Time::default();
            let mut last: Option<(super::config::Layer, Time)> = None;
            for layer in &self.model.layers {
                // Layers repeat: price each kind once.
                let time = match last {
                    Some((before, time)) if before == *layer => time,
                    _ => layers(layer),
                };
                last = Some((*layer, time));
                total = total.plus(time);
            }
            // Each stage works through its own layers for all micro-batches.
            total.times(micro / stages)
        };
        let mut all = Vec::new();
        let mut push = |axis: Axis, time: Time| {
            if time.all > 0.0 {
                all.push(Collective {
                    axis,
                    seconds: time.all,
                    dcn_seconds: time.dcn,
                });
            }
        };
        let group = |axes: &[Axis]| links.mesh.group(axes);
        let (dense_group, expert_group) =
            (group(&[Axis::Expert, Axis::Fsdp]), group(&[Axis::Fsdp]));
        let of_experts = group(&[Axis::Expert]);
        let of_tensor = group(&[Axis::Tensor]);
        push(
            Axis::Fsdp,
            sum(&|layer| {
                let params = LayerParams::of(layer, self.model.hidden);
                let dense = params.shared() as f64 / tensor;
                let experts = params.experts as f64 / tensor / split.expert.max(1) as f64;
                let gather = |bytes: f64, group: &Group| {
                    let gathered = links.price(CollectiveKind::AllGather, bytes * BF16, group);
                    let scattered = links.price(CollectiveKind::ReduceScatter, bytes * BF16, group);
                    gathered.times(2.0).plus(scattered)
                };
                gather(dense, &dense_group).plus(gather(experts, &expert_group))
            }),
        );
        push(
            Axis::Expert,
            sum(&|layer| match layer.mlp {
                Mlp::Sparse { per_token, .. } => {
                    let bytes = local * per_token as f64 * hidden * BF16 / tensor;
                    links
                        .price(CollectiveKind::AllToAll, bytes, &of_experts)
                        .times(f64::from(4 + 2 * again))
                }
                Mlp::Dense { .. } => Time::default(),
            }),
        );
        push(
            Axis::Tensor,
            sum(&|_| {
                let bytes = local * hidden * BF16;
                links
                    .price(CollectiveKind::AllReduce, bytes, &of_tensor)
                    .times(f64::from(4 + 2 * again))
            }),
        );
        let params = super::params::Params::of(self.model).total() as f64;
        let gradients = params * F32 / split.weight_shards().max(1) as f64;
        push(
            Axis::Data,
            links.price(CollectiveKind::AllReduce, gradients, &group(&[Axis::Data])),
        );
        let handed = local * hidden * BF16 / tensor;
        if split.pipeline > 1 {
            push(Axis::Pipeline, links.hand_on(handed).times(2.0 * micro));
        }
        all
    }
}

/// A time, and its part over the data centre's network, in seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Time {
    all: f64,
    dcn: f64,
}

impl Time {
    fn plus(self, other: Self) -> Self {
        Self {
            all: self.all + other.all,
            dcn: self.dcn + other.dcn,
        }
    }

    fn times(self, factor: f64) -> Self {
        Self {
            all: self.all * factor,
            dcn: self.dcn * factor,
        }
    }
}

/// The links of one slice, and where the axes lie in it.
struct Links {
    ici: Ici,
    mesh: Mesh,
}

impl Links {
    /// What one collective of a group takes.
    fn price(&self, kind: CollectiveKind, bytes: f64, group: &Group) -> Time {
        let within = group.members.len().max(1);
        if bytes <= 0.0 {
            return Time::default();
        }
        let one = |payload_bytes: f64, group: Vec<i64>, is_dcn: bool| {
            let price = self.ici.price(&Transfer {
                kind,
                payload_bytes,
                group,
                pairs: Vec::new(),
                is_dcn,
            });
            price.time_ps as f64 * PS
        };
        let near = if within > 1 {
            one(bytes, group.members.clone(), false)
        } else {
            0.0
        };
        let far = if group.slices > 1 {
            // The members in a slice share what crosses.
            let slices = (0..i64::try_from(group.slices).unwrap_or(i64::MAX)).collect();
            one(bytes / within as f64, slices, true)
        } else {
            0.0
        };
        Time {
            all: near + far,
            dcn: far,
        }
    }

    /// What it takes to hand something on to the next stage.
    fn hand_on(&self, bytes: f64) -> Time {
        let next = self.mesh.next(Axis::Pipeline);
        let to = next.unwrap_or(1);
        let price = self.ici.price(&Transfer {
            kind: CollectiveKind::CollectivePermute,
            payload_bytes: bytes,
            group: vec![0, to],
            pairs: vec![(0, to)],
            is_dcn: next.is_none(),
        });
        let seconds = price.time_ps as f64 * PS;
        Time {
            all: seconds,
            dcn: if next.is_none() { seconds } else { 0.0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Plan, counts};
    use crate::chip::{ChipFacts, Generation, Sourced};
    use crate::compiler::ici::{IciCalibration, Reached};
    use crate::model::parallelism::{Asked, Axis};
    use crate::model::{Convention, Decoder, Flops, Optimizer, Remat, Stored};

    fn sourced<T>(value: T) -> Sourced<T> {
        Sourced {
            value,
            source: "test".to_owned(),
        }
    }

    /// A chip of 1 PFLOP/s, 100 GiB, and 3 axes of links of 100 GB/s each way.
    fn chip() -> ChipFacts {
        ChipFacts {
            generation: Generation::V5p,
            product_name: "test".to_owned(),
            tensor_cores_per_chip: sourced(1),
            devices_per_chip: sourced(1),
            sparse_cores_per_chip: None,
            peak_tflops_per_chip: [("bf16".to_owned(), sourced(1000.0))].into(),
            hbm_gib_per_chip: sourced(100.0),
            hbm_usable_gib_per_device: None,
            hbm_gb_per_s_per_chip: sourced(2000.0),
            vmem_mib_per_core: None,
            ici_gb_per_s_per_chip: Some(sourced(1200.0)),
            ici_links_per_chip: Some(sourced(6)),
            ici_dimensions: Some(sourced(3)),
            pcie_gb_per_s_per_chip: None,
            dcn_gb_per_s_per_chip: Some(sourced(10.0)),
            clock_mhz: None,
            mxus_per_core: None,
            mxu_size: sourced(128),
            lanes: sourced(128),
            sublanes: sourced(8),
        }
    }

    fn links() -> IciCalibration {
        IciCalibration {
            start_us: 0.0,
            hop_us: 0.0,
            any: Reached {
                low: 1.0,
                typical: 1.0,
                high: 1.0,
                source: "test".to_owned(),
            },
            by_kind: BTreeMap::new(),
            on_chip_gb_per_s: None,
        }
    }

    fn with_plan<T>(asked: Asked, slice_chips: u64, look: impl FnOnce(&Plan<'_>) -> T) -> T {
        let text = include_str!("../../tests/fixtures/models/llama_3_8b.json");
        let model = Decoder::parse(text).expect("a fixture");
        let (chip, links) = (chip(), links());
        look(&Plan {
            model: &model,
            flops: Flops::of(&model, 4096, Convention::default()),
            batch: 1024,
            seq: 4096,
            asked,
            stored: Stored {
                weight_bytes: 4.0,
                gradient_bytes: 4.0,
                optimizer: Optimizer::Adamw,
                remat: Remat::Full,
                microbatches: 1,
                loss_chunks: 1,
            },
            chip: &chip,
            links: &links,
            matmul_share: 0.8,
            dtype: "bf16",
            slice_chips,
        })
    }

    #[test]
    fn gathering_takes_as_long_on_more_chips_while_compute_shrinks() {
        with_plan(Asked::default(), 4096, |plan| {
            let (few, many) = (plan.at(64).expect("fits"), plan.at(512).expect("fits"));
            assert_eq!(few.microbatches, many.microbatches);
            assert!((few.compute_s / many.compute_s - 8.0).abs() < 1e-9);
            // Weights of all layers in bf16 over six links: twice gathered, once scattered.
            let layers = 8_030_261_248.0 - 2.0 * 525_336_576.0;
            let expected = 3.0 * layers * 2.0 / 600e9;
            let found = many.seconds(Axis::Fsdp);
            assert!((found / expected - 1.0).abs() < 0.01, "{found} {expected}");
            assert_eq!(
                plan.at(512).map(|point| point.bound()),
                Some("compute".to_owned())
            );
            assert!(many.step_at_best_s() < many.step_at_worst_s());
            // Not a sequence for each.
            assert!(plan.at(2048).is_none());
        });
    }

    #[test]
    fn gradients_of_several_slices_cross_the_data_centres_network() {
        let asked = Asked {
            fsdp: Some(64),
            ..Asked::default()
        };
        with_plan(asked, 64, |plan| {
            let point = plan.at(256).expect("fits");
            assert_eq!((point.slices, point.split.data), (4, 4));
            // Of a device a 64th of the gradients in f32, sent and received as in a ring of 4.
            let expected = 8_030_261_248.0 * 4.0 / 64.0 * 2.0 * 3.0 / 4.0 / 10e9;
            let found = point.seconds(Axis::Data);
            assert!((found / expected - 1.0).abs() < 0.01, "{found} {expected}");
            let data = point
                .collectives
                .iter()
                .find(|axis| axis.axis == Axis::Data);
            assert_eq!(data.map(|axis| axis.dcn_seconds), Some(found));
        });
    }

    #[test]
    fn the_jobs_own_count_is_among_those_shown() {
        assert_eq!(counts(6, 8), [1, 2, 4, 6, 8]);
        assert_eq!(counts(16, 8), [1, 2, 4, 8, 16]);
    }
}
