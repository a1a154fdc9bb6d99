//! Rules on what must change for TorchTPU.
//!
//! Code that only runs where a GPU was found (`if device.type == "cuda":`) is right as it is, and so
//! is code of files that serve several kinds of devices: see `guard.rs`.

pub mod checkpoint_location;
pub mod compile_options;
pub mod cuda_autocast;
pub mod cuda_device;
pub mod cuda_or_cpu;
pub mod cuda_settings;
pub mod device_per_process;
pub mod gpu_package;
pub mod grad_scaler;
pub(crate) mod guard;
pub mod nccl_backend;
pub mod pytorch_xla;
pub(crate) mod rewrite;
pub mod torch_cuda_call;

#[cfg(test)]
mod tests;

use knowledge::advice::AdviceKind;

use crate::finding::{Applicability, Edit, Fix, Numerics, Place, Remark, Severity};

/// Places of one kind in a file, and the edits that answer them: they become one remark.
#[derive(Debug, Default)]
pub(crate) struct Places {
    places: Vec<Place>,
    edits: Vec<Edit>,
}

impl Places {
    /// Adds a place and what to change there.
    pub(crate) fn add(&mut self, place: Place, edits: impl IntoIterator<Item = Edit>) {
        self.places.push(place);
        self.edits.extend(edits);
    }

    /// How many places there are.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// A remark about them.
    pub(crate) fn remark(self, severity: Severity, title: impl Into<String>) -> Remark {
        let mut remark = Remark::new(AdviceKind::Migration, severity, title);
        remark.places = self.places;
        remark
    }

    /// A remark with a fix that makes all of the edits.
    pub(crate) fn fixed(
        mut self,
        severity: Severity,
        title: impl Into<String>,
        fix: &str,
        applicability: Applicability,
        numerics: Numerics,
    ) -> Remark {
        let edits = std::mem::take(&mut self.edits);
        let mut remark = self.remark(severity, title);
        if !edits.is_empty() {
            remark.fix = Some(Fix {
                title: fix.to_owned(),
                applicability,
                numerics,
                edits,
            });
        }
        remark
    }
}
