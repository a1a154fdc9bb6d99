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

    /// The name that XPlane gives a device of it (`device_type_string`).
    #[must_use]
    pub fn device_type(self) -> &'static str {
        match self {
            Self::V2 => "TPU v2",
            Self::V3 => "TPU v3",
            Self::V4 => "TPU v4",
            Self::V5e => "TPU v5 lite",
            Self::V5p => "TPU v5",
            Self::V6e => "TPU v6 Lite",
            Self::Tpu7x => "TPU7x",
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
#[serde(deny_unknown_fields)]
pub struct Sourced<T> {
    /// The figure, in the unit that the field's name says.
    pub value: T,
    /// A document, a data sheet, or a measurement: enough to check it.
    pub source: String,
}

/// One generation's figures. A *core* is a TensorCore; a *device* is what JAX counts (a chip on
/// v4, v5e, v5p, v6e; a TensorCore on v2, v3 and TPU7x).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChipFacts {
    /// Which generation.
    pub generation: Generation,
    /// Google's product name.
    pub product_name: String,
    /// TensorCores on a chip.
    pub tensor_cores_per_chip: Sourced<u32>,
    /// Devices on a chip as JAX counts them by default. On v4 and v5p that is one device of two
    /// cores, of which XPlane writes a plane each with the peaks of a core: compare the times of
    /// such a plane with the figures `_per_core`, not `_per_device`.
    pub devices_per_chip: Sourced<u32>,
    /// SparseCores on a chip; absent where the generation has none or it is not published.
    pub sparse_cores_per_chip: Option<Sourced<u32>>,
    /// Peak dense FLOP/s of a chip in TFLOP/s (10¹²) by dtype: `bf16`, `fp8`, `int8`, `int4`. A
    /// dtype is absent where the MXU has no rate of its own for it.
    pub peak_tflops_per_chip: BTreeMap<String, Sourced<f64>>,
    /// HBM of a chip in GiB.
    pub hbm_gib_per_chip: Sourced<f64>,
    /// HBM of a device in GiB that a program may use: what the compiler's out-of-memory message
    /// calls the capacity, after the system's reserve.
    pub hbm_usable_gib_per_device: Option<Sourced<f64>>,
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
    /// TensorCore clock in MHz: the one in which the compiler's cost model counts cycles, where it
    /// prints it. It need not be the clock that the peak is quoted at (TPU7x: 1900 and 2200).
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
    /// Peak of one chip in TFLOP/s for operands of a dtype, as people (`bf16`, `int8`) or HLO
    /// (`s8`, `f8e4m3fn`) write it. A dtype without a rate of its own has that of bf16: `f32` at
    /// default precision is one bf16 pass.
    #[must_use]
    pub fn peak_tflops_per_chip(&self, dtype: &str) -> Option<f64> {
        let peak = self
            .peak_tflops_per_chip
            .get(mxu_dtype(dtype))
            .or_else(|| self.peak_tflops_per_chip.get("bf16"))?;
        Some(peak.value)
    }

    /// Peak of one device in TFLOP/s for a dtype, see [`Self::peak_tflops_per_chip`].
    #[must_use]
    pub fn peak_tflops_per_device(&self, dtype: &str) -> Option<f64> {
        Some(self.peak_tflops_per_chip(dtype)? / self.devices())
    }

    /// Peak of one TensorCore in TFLOP/s for a dtype, see [`Self::peak_tflops_per_chip`].
    #[must_use]
    pub fn peak_tflops_per_core(&self, dtype: &str) -> Option<f64> {
        Some(self.peak_tflops_per_chip(dtype)? / self.cores())
    }

    /// HBM bandwidth of one device in GB/s.
    #[must_use]
    pub fn hbm_gb_per_s_per_device(&self) -> f64 {
        self.hbm_gb_per_s_per_chip.value / self.devices()
    }

    /// One TensorCore's share of the HBM bandwidth in GB/s.
    #[must_use]
    pub fn hbm_gb_per_s_per_core(&self) -> f64 {
        self.hbm_gb_per_s_per_chip.value / self.cores()
    }

    /// HBM of one device in bytes.
    #[must_use]
    pub fn hbm_bytes_per_device(&self) -> u64 {
        (self.hbm_gib_per_chip.value / self.devices() * GIB) as u64
    }

    /// HBM of one device that a program may use, in bytes; all of it where the reserve is unknown.
    #[must_use]
    pub fn hbm_usable_bytes_per_device(&self) -> u64 {
        match &self.hbm_usable_gib_per_device {
            Some(usable) => (usable.value * GIB) as u64,
            None => self.hbm_bytes_per_device(),
        }
    }

    fn devices(&self) -> f64 {
        f64::from(self.devices_per_chip.value.max(1))
    }

    fn cores(&self) -> f64 {
        f64::from(self.tensor_cores_per_chip.value.max(1))
    }
}

const GIB: f64 = (1u64 << 30) as f64;

/// The MXU's class of a dtype: the key into the peaks.
fn mxu_dtype(dtype: &str) -> &str {
    match dtype {
        "int8" | "uint8" | "s8" | "u8" => "int8",
        "int4" | "uint4" | "s4" | "u4" => "int4",
        _ if dtype.starts_with("f8") || dtype.starts_with("float8") || dtype == "fp8" => "fp8",
        _ => dtype,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sourced<T>(value: T) -> Sourced<T> {
        Sourced {
            value,
            source: "test".to_owned(),
        }
    }

    fn two_core_chip(devices: u32) -> ChipFacts {
        ChipFacts {
            generation: Generation::V5p,
            product_name: "test".to_owned(),
            tensor_cores_per_chip: sourced(2),
            devices_per_chip: sourced(devices),
            sparse_cores_per_chip: None,
            peak_tflops_per_chip: [("bf16", 400.0), ("int8", 800.0)]
                .map(|(dtype, peak)| (dtype.to_owned(), sourced(peak)))
                .into(),
            hbm_gib_per_chip: sourced(96.0),
            hbm_usable_gib_per_device: None,
            hbm_gb_per_s_per_chip: sourced(2000.0),
            vmem_mib_per_core: None,
            ici_gb_per_s_per_chip: None,
            ici_links_per_chip: None,
            ici_dimensions: None,
            pcie_gb_per_s_per_chip: None,
            dcn_gb_per_s_per_chip: None,
            clock_mhz: None,
            mxus_per_core: None,
            mxu_size: sourced(128),
            lanes: sourced(128),
            sublanes: sourced(8),
        }
    }

    #[test]
    fn a_megacore_device_has_the_chips_peak_and_its_cores_half_of_it() {
        let chip = two_core_chip(1);
        assert_eq!(chip.peak_tflops_per_device("bf16"), Some(400.0));
        assert_eq!(chip.peak_tflops_per_core("bf16"), Some(200.0));
        assert_eq!(chip.hbm_gb_per_s_per_core(), 1000.0);
    }

    #[test]
    fn a_dtype_of_hlo_finds_its_rate_and_one_without_a_rate_that_of_bf16() {
        let chip = two_core_chip(2);
        assert_eq!(chip.peak_tflops_per_device("s8"), Some(400.0));
        assert_eq!(chip.peak_tflops_per_device("f8e4m3fn"), Some(200.0));
        assert_eq!(chip.peak_tflops_per_device("f32"), Some(200.0));
    }

    #[test]
    fn usable_memory_falls_back_to_the_devices_share_of_the_chip() {
        let mut chip = two_core_chip(2);
        assert_eq!(chip.hbm_usable_bytes_per_device(), 48 << 30);
        chip.hbm_usable_gib_per_device = Some(sourced(47.5));
        assert_eq!(chip.hbm_usable_bytes_per_device(), (47 << 30) + (1 << 29));
    }

    #[test]
    fn generations_are_read_as_jax_and_people_write_them() {
        for (name, generation) in [
            ("TPU v5 lite", Generation::V5e),
            ("TPU v5", Generation::V5p),
            ("TPU v6 lite", Generation::V6e),
            ("TPU7x", Generation::Tpu7x),
            ("ironwood", Generation::Tpu7x),
        ] {
            assert_eq!(Generation::parse(name), Some(generation), "{name}");
        }
        for generation in Generation::ALL {
            assert_eq!(Generation::parse(generation.name()), Some(generation));
            assert_eq!(
                Generation::parse(generation.device_type()),
                Some(generation)
            );
        }
        assert_eq!(Generation::parse("H100"), None);
    }
}
