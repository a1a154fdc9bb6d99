//! How a job is split over its devices.

use serde::Serialize;

/// The ways of splitting: the product is the number of devices.
///
/// What talks most sits closest: tensor, then expert, FSDP, data and pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Parallelism {
    /// Copies of the model with batches of their own, gradients added.
    pub data: u64,
    /// Shards of all weights, gathered layer by layer; each with a batch of its own.
    pub fsdp: u64,
    /// Shards of each matrix, activations added.
    pub tensor: u64,
    /// Shards of the experts; each with a batch of its own.
    pub expert: u64,
    /// Groups of layers, one after the other.
    pub pipeline: u64,
}

/// An axis of the mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Axis {
    /// Tensor.
    Tensor,
    /// Expert.
    Expert,
    /// FSDP.
    Fsdp,
    /// Data.
    Data,
    /// Pipeline.
    Pipeline,
}

impl Axis {
    /// All axes, the one that talks most first.
    pub const ALL: [Self; 5] = [
        Self::Tensor,
        Self::Expert,
        Self::Fsdp,
        Self::Data,
        Self::Pipeline,
    ];
}

/// Axes as they were asked for: none where nothing was said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Data.
    pub data: Option<u64>,
    /// FSDP.
    pub fsdp: Option<u64>,
    /// Tensor.
    pub tensor: Option<u64>,
    /// Expert.
    pub expert: Option<u64>,
    /// Pipeline.
    pub pipeline: Option<u64>,
}

/// Why axes do not fit a number of devices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParallelismError {
    /// Their product does not divide it.
    #[error(
        "the axes come to {product}, which does not divide the {devices} devices: choose sizes whose product does"
    )]
    Devices {
        /// Product of the axes.
        product: u64,
        /// Devices.
        devices: u64,
    },
    /// All axes are given, and some devices are left.
    #[error(
        "data {data} x fsdp {fsdp} x tensor, expert and pipeline come to {product} of {devices} devices: leave one of --data and --fsdp out, and it takes the rest"
    )]
    Left {
        /// Data axis.
        data: u64,
        /// FSDP axis.
        fsdp: u64,
        /// Product of the axes.
        product: u64,
        /// Devices.
        devices: u64,
    },
}

impl Asked {
    /// The axes for so many devices. What is left goes to FSDP, or to data where FSDP is given.
    ///
    /// # Errors
    /// When the axes do not fit the devices.
    pub fn over(&self, devices: u64) -> Result<Parallelism, ParallelismError> {
        let size = |asked: Option<u64>| asked.unwrap_or(1).max(1);
        let mut split = Parallelism {
            data: size(self.data),
            fsdp: size(self.fsdp),
            tensor: size(self.tensor),
            expert: size(self.expert),
            pipeline: size(self.pipeline),
        };
        let product = split.devices();
        if product > devices || !devices.is_multiple_of(product) {
            return Err(ParallelismError::Devices { product, devices });
        }
        let left = devices / product;
        match (self.fsdp, self.data) {
            (None, _) => split.fsdp = left,
            (Some(_), None) => split.data = left,
            (Some(fsdp), Some(data)) if left > 1 => {
                return Err(ParallelismError::Left {
                    data,
                    fsdp,
                    product,
                    devices,
                });
            }
            _ => {}
        }
        Ok(split)
    }
}

impl Parallelism {
    /// Devices.
    #[must_use]
    pub fn devices(&self) -> u64 {
        [
            self.data,
            self.fsdp,
            self.tensor,
            self.expert,
            self.pipeline,
        ]
        .into_iter()
        .fold(1, u64::saturating_mul)
    }

    /// Parts that the batch is split into.
    #[must_use]
    pub fn batch_shards(&self) -> u64 {
        self.data
            .saturating_mul(self.fsdp)
            .saturating_mul(self.expert)
    }

    /// Parts that a weight and its optimizer state are split into: all axes but data.
    #[must_use]
    pub fn weight_shards(&self) -> u64 {
        self.fsdp
            .saturating_mul(self.expert)
            .saturating_mul(self.tensor)
            .saturating_mul(self.pipeline)
    }

    /// Size of an axis.
    #[must_use]
    pub fn size(&self, axis: Axis) -> u64 {
        match axis {
            Axis::Tensor => self.tensor,
            Axis::Expert => self.expert,
            Axis::Fsdp => self.fsdp,
            Axis::Data => self.data,
            Axis::Pipeline => self.pipeline,
        }
    }

    /// The axes that are more than one, as `fsdp 512 x tensor 4`.
    #[must_use]
    pub fn words(&self) -> String {
        let named = [
            ("data", self.data),
            ("fsdp", self.fsdp),
            ("expert", self.expert),
            ("tensor", self.tensor),
            ("pipeline", self.pipeline),
        ];
        let words: Vec<String> = named
            .into_iter()
            .filter(|(_, size)| *size > 1)
            .map(|(name, size)| format!("{name} {size}"))
            .collect();
        if words.is_empty() {
            "one device".to_owned()
        } else {
            words.join(" x ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Asked, Parallelism};

    #[test]
    fn what_is_left_goes_to_fsdp_then_to_data() {
        let asked = Asked {
            tensor: Some(4),
            ..Asked::default()
        };
        let split = asked.over(64).expect("fits");
        assert_eq!((split.fsdp, split.data), (16, 1));
        let asked = Asked {
            fsdp: Some(8),
            ..asked
        };
        let split = asked.over(64).expect("fits");
        assert_eq!((split.fsdp, split.data), (8, 2));
        assert!(asked.over(48).is_err() && asked.over(16).is_err());
        let all = Asked {
            data: Some(1),
            ..asked
        };
        assert!(all.over(32).is_ok() && all.over(64).is_err());
    }

    #[test]
    fn a_batch_is_not_split_by_tensor_and_weights_not_by_data() {
        let split = Parallelism {
            data: 2,
            fsdp: 3,
            tensor: 5,
            expert: 7,
            pipeline: 11,
        };
        assert_eq!(split.devices(), 2310);
        assert_eq!(split.batch_shards(), 42);
        assert_eq!(split.weight_shards(), 1155);
    }
}
