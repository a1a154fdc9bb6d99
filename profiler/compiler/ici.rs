//! What a collective takes over the links between chips, from its bytes and where its group lies.
//!
//! ```text
//! all-gather of S bytes over n devices:  each receives S·(n-1)/n
//!   over the axes that its group spans, each bringing 1 link (an open line) or 2 (a ring)
//! reduce-scatter: the same backwards;  all-reduce: both
//! all-to-all: what crosses the middle of the longest axis
//! permute: what the busiest link carries
//! ```
//!
//! The time is that over the links' bandwidth times the share of it that collectives were measured
//! to reach, plus a start and the hops. The compiler prices none of this. Few collectives were
//! measured in public, so the band is wide: a factor of 1.5 to 2 either way. Contention with other
//! collectives and waiting for slower chips are not in it.

mod chain;
mod topology;
mod transfer;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::chip::ChipFacts;
use crate::compiler::pricer::{OpKind, Price, PriceBasis};
use crate::evidence::class::CollectiveKind;

pub use chain::{Chain, ChainPart};
pub use topology::{AxisUse, Placement, Topology};
pub use transfer::Transfer;

/// A figure that was reached, and how far it spreads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reached {
    /// The unfavourable end.
    pub low: f64,
    /// What is expected.
    pub typical: f64,
    /// The best seen.
    pub high: f64,
    /// Where it was measured.
    pub source: String,
}

/// How well collectives of a generation use the links. Callers pass it in: the figures and their
/// sources stand in `knowledge`.
#[derive(Clone, Debug, PartialEq)]
pub struct IciCalibration {
    /// What a collective takes before the first byte moves, in microseconds.
    pub start_us: f64,
    /// What each chip on the way adds, in microseconds.
    pub hop_us: f64,
    /// Share of the links' bandwidth, for kinds that are not in `by_kind`.
    pub any: Reached,
    /// The same by the collective's name.
    pub by_kind: BTreeMap<String, Reached>,
    /// Between the devices of a chip, GB/s (10⁹) in one direction; absent where it is not known.
    pub on_chip_gb_per_s: Option<Reached>,
}

/// Latencies spread by this factor either way.
const LATENCY_SPREAD: f64 = 2.0;
/// How much wider a band is where the group is no box along whole axes, and its links are guessed.
const IRREGULAR_SPREAD: f64 = 1.5;
/// Pairs of a permute that are routed; of more, the first ones stand for all.
const MAX_PAIRS: usize = 4096;
/// Links that one pair may pass.
const MAX_ROUTE: u64 = 4096;
const PS_PER_US: f64 = 1e6;

/// The links of a slice.
#[derive(Clone, Debug, PartialEq)]
pub struct Ici {
    topology: Topology,
    /// One link in one direction, GB/s (10⁹).
    link_gb_per_s: f64,
    calibration: IciCalibration,
    /// One chip's share of the data centre network, GB/s (10⁹).
    dcn_gb_per_s: Option<f64>,
}

/// The time of one execution, in parts.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Parts {
    /// At the links' full bandwidth, or the bandwidth within the chip, picoseconds.
    bytes_ps: f64,
    /// Chips on the way.
    hops: f64,
}

impl Ici {
    /// The links of a slice of a chip; none where the chip's ICI is not published.
    #[must_use]
    pub fn new(facts: &ChipFacts, calibration: IciCalibration, topology: Topology) -> Option<Self> {
        let links = f64::from(facts.ici_links_per_chip.as_ref()?.value.max(1));
        // The facts add both directions of all links.
        let link_gb_per_s = facts.ici_gb_per_s_per_chip.as_ref()?.value / links / 2.0;
        (link_gb_per_s > 0.0).then_some(Self {
            topology,
            link_gb_per_s,
            calibration,
            dcn_gb_per_s: facts.dcn_gb_per_s_per_chip.as_ref().map(|f| f.value),
        })
    }

    /// The slice.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// What one execution of a collective takes.
    #[must_use]
    pub fn price(&self, transfer: &Transfer) -> Price {
        let size = transfer.group_size();
        if size <= 1 && transfer.pairs.is_empty() {
            return Price::exact(0, PriceBasis::Free, OpKind::Collective);
        }
        if transfer.is_dcn {
            return self.over_dcn(transfer);
        }
        let placement = self.topology.place(&transfer.group);
        let on_one_chip = placement
            .as_ref()
            .is_some_and(|placement| placement.axes.is_empty());
        if on_one_chip && let Some(rate) = &self.calibration.on_chip_gb_per_s {
            let ps = |gb_per_s: f64| transfer.wire_bytes() * 1e3 / gb_per_s.max(1e-9);
            return self.banded(
                [ps(rate.low), ps(rate.typical), ps(rate.high)],
                1.0,
                self.starts(transfer.kind),
                1.0,
            );
        }
        let is_regular = placement.as_ref().is_some_and(|p| p.is_regular);
        let parts = match &placement {
            Some(placement) => self.parts(transfer, placement),
            // Members that the slice has not: a ring of one link.
            None => Parts {
                bytes_ps: self.link_ps(transfer.wire_bytes()),
                hops: size as f64,
            },
        };
        let reached = self
            .calibration
            .by_kind
            .get(transfer.kind.name())
            .unwrap_or(&self.calibration.any);
        let share = |share: f64| parts.bytes_ps / share.clamp(0.01, 1.0);
        let spread = if is_regular { 1.0 } else { IRREGULAR_SPREAD };
        self.banded(
            [
                share(reached.low),
                share(reached.typical),
                share(reached.high),
            ],
            parts.hops,
            self.starts(transfer.kind),
            spread,
        )
    }

    /// A price from what the bytes take at the low, typical and high rate.
    fn banded(
        &self,
        [slow, typical, fast]: [f64; 3],
        hops: f64,
        starts: f64,
        spread: f64,
    ) -> Price {
        let latency =
            starts * (self.calibration.start_us + hops * self.calibration.hop_us) * PS_PER_US;
        let picos = |ps: f64| ps.clamp(0.0, 1e18) as u64;
        Price {
            time_ps: picos(typical + latency),
            low_ps: picos((fast + latency / LATENCY_SPREAD) / spread),
            high_ps: picos((slow + latency * LATENCY_SPREAD) * spread),
            basis: PriceBasis::Collective,
            kind: OpKind::Collective,
        }
    }

    /// An all-reduce is a reduce-scatter and an all-gather, one after the other.
    fn starts(&self, kind: CollectiveKind) -> f64 {
        if kind == CollectiveKind::AllReduce {
            2.0
        } else {
            1.0
        }
    }

    fn link_ps(&self, bytes: f64) -> f64 {
        bytes * 1e3 / self.link_gb_per_s
    }

    fn parts(&self, transfer: &Transfer, placement: &Placement) -> Parts {
        let hops: u64 = placement
            .axes
            .iter()
            .fold(0, |sum, axis| sum.saturating_add(axis.hops()));
        let bytes_ps = match transfer.kind {
            CollectiveKind::AllReduce
            | CollectiveKind::AllGather
            | CollectiveKind::ReduceScatter
            | CollectiveKind::CollectiveBroadcast => {
                let links: f64 = placement.axes.iter().map(AxisUse::links_in).sum();
                let chips = placement.chips().max(1) as f64;
                // What the devices of a chip receive, they receive once and share.
                let received = match transfer.kind {
                    CollectiveKind::CollectiveBroadcast => transfer.payload_bytes,
                    CollectiveKind::AllReduce => {
                        2.0 * transfer.payload_bytes * (chips - 1.0) / chips
                    }
                    _ => transfer.payload_bytes * (chips - 1.0) / chips,
                };
                self.link_ps(received * placement.sharing as f64) / links.max(1e-3)
            }
            CollectiveKind::AllToAll => {
                // Of an axis of n chips, half of what its chips hold goes to the other half, over
                // the links in the middle.
                let of_axis = |axis: &AxisUse| {
                    let per_chip = transfer.payload_bytes
                        * placement.on_chip.max(1) as f64
                        * placement.sharing as f64;
                    self.link_ps(axis.size as f64 * per_chip / 4.0) / axis.links_in()
                };
                placement.axes.iter().map(of_axis).fold(0.0, f64::max)
            }
            CollectiveKind::CollectivePermute => {
                self.link_ps(transfer.payload_bytes * self.busiest_link(&transfer.pairs).max(1.0))
            }
        };
        let hops = match transfer.kind {
            CollectiveKind::CollectivePermute => 1.0,
            _ => hops as f64,
        };
        Parts { bytes_ps, hops }
    }

    /// How many pairs pass the link that most do, each going the short way along one axis after
    /// the other.
    fn busiest_link(&self, pairs: &[(i64, i64)]) -> f64 {
        let mut load: BTreeMap<(Vec<u64>, usize, bool), u64> = BTreeMap::new();
        for (from, to) in pairs.iter().take(MAX_PAIRS) {
            let (Some(mut at), Some(to)) =
                (self.topology.chip_of(*from), self.topology.chip_of(*to))
            else {
                continue;
            };
            let mut passed = 0;
            for axis in 0..at.len() {
                let size = self.topology.axes.get(axis).copied().unwrap_or(1).max(1);
                let wraps = self.topology.wraps.get(axis).copied().unwrap_or(false);
                let (Some(here), Some(there)) = (at.get(axis).copied(), to.get(axis).copied())
                else {
                    continue;
                };
                let ahead = (there + size - here) % size;
                let goes_up = if wraps {
                    ahead <= size - ahead
                } else {
                    there >= here
                };
                while at.get(axis) != Some(&there) && passed < MAX_ROUTE {
                    *load.entry((at.clone(), axis, goes_up)).or_default() += 1;
                    if let Some(place) = at.get_mut(axis) {
                        *place = if goes_up {
                            (*place + 1) % size
                        } else {
                            (*place + size - 1) % size
                        };
                    }
                    passed += 1;
                }
            }
        }
        load.into_values().max().unwrap_or(0) as f64
    }

    /// Between slices over the data centre network: its bandwidth is published, how much of it
    /// collectives reach is not.
    fn over_dcn(&self, transfer: &Transfer) -> Price {
        let Some(rate) = self.dcn_gb_per_s.filter(|rate| *rate > 0.0) else {
            return Price {
                basis: PriceBasis::Unknown,
                kind: OpKind::Collective,
                ..Price::default()
            };
        };
        let ps = transfer.wire_bytes() * 1e3 / rate;
        let any = &self.calibration.any;
        self.banded(
            [ps / any.low, ps / any.typical, ps / any.high],
            10.0,
            1.0,
            1.0,
        )
    }
}

#[cfg(test)]
#[path = "ici/tests.rs"]
mod tests;
