//! What is known of a TPU generation, and how a profile names it.
//!
//! The profiler defines the nouns; `knowledge` fills them from its data files, where each figure
//! stands with its source; callers pass them in.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A TPU generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Generation {
    /// TPU v2.
    V2,
    /// TPU v3.
    V3,
    /// TPU v4.
    V4,
    /// TPU v5e ("v5 lite").
    V5e,
    /// TPU v5p.
    V5p,
    /// TPU v6e ("v6 lite", Trillium).
    V6e,
    /// TPU7x (Ironwood).
    Tpu7x,
}

impl Generation {
    /// All generations, oldest first.
    pub const ALL: [Self; 7] = [
        Self::V2,
        Self::V3,
        Self::V4,
        Self::V5e,
        Self::V5p,
        Self::V6e,
        Self::Tpu7x,
    ];

    /// The name that `--chip` takes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::V2 => "v2",
            Self::V3 => "v3",
            Self::V4 => "v4",
            Self::V5e => "v5e",
            Self::V5p => "v5p",
            Self::V6e => "v6e",
            Self::Tpu7x => "tpu7x",
        }
    }

    /// Reads a name as people, JAX (`device_kind`) and XPlane (`device_type_string`) write it:
    /// `v6e`, `TPU v6 lite`, `TPU v5`, `Ironwood`, `tpu7x`.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let lower = name.to_ascii_lowercase();
        let squeezed: String = lower
            .chars()
            .filter(|c| c.is_ascii_alphanumeric())
            .collect::<String>();
        let bare = squeezed.strip_prefix("tpu").unwrap_or(&squeezed);
        Some(match bare {
            "v2" => Self::V2,
            "v3" => Self::V3,
            "v4" => Self::V4,
            "v5e" | "v5lite" | "v5litepod" => Self::V5e,
            "v5p" | "v5" => Self::V5p,
            "v6e" | "v6lite" | "v6" | "trillium" => Self::V6e,
            "7x" | "v7x" | "v7" | "7" | "ironwood" => Self::Tpu7x,
            _ => return None,
        })
    }
}

/// A figure and where it comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sourced<T> {
    /// The figure, in the unit that the field's name says.
    pub value: T,
    /// A document, a data sheet, or a measurement: enough to check it.
    pub source: String,
}

/// One generation's figures. A *core* is a TensorCore; a *device* is what JAX counts (a chip on
/// v4, v5e, v5p, v6e; a TensorCore on v2, v3 and TPU7x).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChipFacts {
    /// Which generation.
    pub generation: Generation,
    /// Google's product name.
    pub product_name: String,
    /// TensorCores on a chip.
    pub tensor_cores_per_chip: Sourced<u32>,
    /// Devices on a chip as JAX and XPlane count them by default.
    pub devices_per_chip: Sourced<u32>,
    /// SparseCores on a chip; absent where the generation has none or it is not published.
    pub sparse_cores_per_chip: Option<Sourced<u32>>,
    /// Peak dense FLOP/s of a chip in TFLOP/s (10¹²) by dtype: `bf16`, `int8`, `fp8`, …
    pub peak_tflops_per_chip: BTreeMap<String, Sourced<f64>>,
    /// HBM of a chip in GiB.
    pub hbm_gib_per_chip: Sourced<f64>,
    /// HBM bandwidth of a chip in GB/s (10⁹).
    pub hbm_gb_per_s_per_chip: Sourced<f64>,
    /// VMEM of a TensorCore in MiB.
    pub vmem_mib_per_core: Option<Sourced<f64>>,
    /// ICI bandwidth of a chip over all its links, both directions added, in GB/s (10⁹).
    pub ici_gb_per_s_per_chip: Option<Sourced<f64>>,
    /// ICI links of a chip.
    pub ici_links_per_chip: Option<Sourced<u32>>,
    /// Dimensions of the torus (2 or 3).
    pub ici_dimensions: Option<Sourced<u32>>,
    /// Host link (PCIe) of a chip in one direction, in GB/s (10⁹).
    pub pcie_gb_per_s_per_chip: Option<Sourced<f64>>,
    /// DCN of a chip in GB/s (10⁹), where published.
    pub dcn_gb_per_s_per_chip: Option<Sourced<f64>>,
    /// TensorCore clock in MHz.
    pub clock_mhz: Option<Sourced<f64>>,
    /// MXUs of a TensorCore.
    pub mxus_per_core: Option<Sourced<u32>>,
    /// Side of the square systolic array: 128 or 256.
    pub mxu_size: Sourced<u32>,
    /// Vector register lanes: the tile's minor dimension.
    pub lanes: Sourced<u32>,
    /// Vector register sublanes: the tile's second-minor dimension for 32-bit types.
    pub sublanes: Sourced<u32>,
}

impl ChipFacts {
    /// Peak of one device in TFLOP/s for a dtype, falling back to bf16.
    #[must_use]
    pub fn peak_tflops_per_device(&self, dtype: &str) -> Option<f64> {
        let peak = self
            .peak_tflops_per_chip
            .get(dtype)
            .or_else(|| self.peak_tflops_per_chip.get("bf16"))?;
        Some(peak.value / f64::from(self.devices_per_chip.value.max(1)))
    }

    /// HBM bandwidth of one device in GB/s.
    #[must_use]
    pub fn hbm_gb_per_s_per_device(&self) -> f64 {
        self.hbm_gb_per_s_per_chip.value / f64::from(self.devices_per_chip.value.max(1))
    }

    /// HBM of one device in bytes.
    #[must_use]
    pub fn hbm_bytes_per_device(&self) -> u64 {
        (self.hbm_gib_per_chip.value / f64::from(self.devices_per_chip.value.max(1))
            * (1u64 << 30) as f64) as u64
    }
}
