//! The chips that profiles are written for, with the figures libtpu puts on a plane.

/// A TPU generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chip {
    V5e,
    V5p,
    V6e,
    Tpu7x,
}

/// What a device plane says of its chip. Rates are in 10^12 FLOP/s and 10^9 B/s.
#[derive(Clone, Copy, Debug)]
pub struct ChipFigures {
    pub device_type: &'static str,
    pub peak_teraflops: f64,
    pub hbm_gb: f64,
    pub vmem_read_gb: f64,
    pub vmem_write_gb: f64,
    /// HBM of one device that programs may use.
    pub hbm_bytes: u64,
    /// Devices that share one chip; each has its own plane.
    pub devices_per_chip: u32,
    pub has_megacore: bool,
}

impl Chip {
    /// The figures on a plane of this chip.
    ///
    /// v6e is as a real capture says; the others follow the same pattern from
    /// the public peaks of each generation.
    pub const fn figures(self) -> ChipFigures {
        match self {
            Self::V5e => ChipFigures {
                device_type: "TPU v5 lite",
                peak_teraflops: 197.0,
                hbm_gb: 819.0,
                vmem_read_gb: 9830.4,
                vmem_write_gb: 6553.6,
                hbm_bytes: 16_911_433_728,
                devices_per_chip: 1,
                has_megacore: false,
            },
            Self::V5p => ChipFigures {
                device_type: "TPU v5",
                // Of a core: each has its own plane, though JAX joins two to a device.
                peak_teraflops: 233.4,
                hbm_gb: 1382.4,
                vmem_read_gb: 11468.8,
                vmem_write_gb: 7372.8,
                hbm_bytes: 102_800_000_000,
                devices_per_chip: 1,
                has_megacore: true,
            },
            Self::V6e => ChipFigures {
                device_type: "TPU v6 Lite",
                peak_teraflops: 918.0,
                hbm_gb: 1_637.993_152_512,
                vmem_read_gb: 23_296.009_987_686_4,
                vmem_write_gb: 16_128.031_693_209_601,
                hbm_bytes: 33_550_237_696,
                devices_per_chip: 1,
                has_megacore: false,
            },
            Self::Tpu7x => ChipFigures {
                device_type: "TPU7x",
                peak_teraflops: 1153.5,
                hbm_gb: 3690.0,
                vmem_read_gb: 31129.6,
                vmem_write_gb: 20752.0,
                hbm_bytes: 101_700_000_000,
                devices_per_chip: 2,
                has_megacore: false,
            },
        }
    }
}
