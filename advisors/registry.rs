//! All rules, read top to bottom. A new rule is one file, one card, and one line here.
//!
//! Codes: 1xx capture quality, 2xx idle time and the host, 3xx host memory, 4xx collectives,
//! 5xx matmuls and kernels, 6xx layouts and data movement, 7xx operations and fusion, 8xx memory.

use crate::rule::Rule;
use crate::rules;

/// Every rule.
pub const RULES: &[&dyn Rule] = &[
    &rules::memory::exposed_host_offload::ExposedHostOffload,
    &rules::collectives::exposed_collective::ExposedCollective,
    &rules::collectives::small_repeated_collectives::SmallRepeatedCollectives,
    &rules::collectives::all_reduce_to_reduce_scatter::AllReduceToReduceScatter,
    &rules::collectives::straggler_skew::StragglerSkew,
    &rules::collectives::full_resharding::FullResharding,
    &rules::layout::copies_around_kernels::CopiesAroundKernels,
    &rules::layout::whole_buffer_copy::WholeBufferCopy,
    &rules::layout::data_formatting::DataFormatting,
    &rules::layout::dus_on_minor_scan_axis::DusOnMinorScanAxis,
    &rules::layout::stacked_copies::StackedCopies,
    &rules::ops::scatter_gather::ScatterGather,
    &rules::ops::sort_topk::SortTopk,
    &rules::ops::tiny_ops_loop::TinyOpsLoop,
    &rules::ops::elementwise_chains::ElementwiseChains,
    &rules::ops::casts::Casts,
    &rules::ops::random_numbers::RandomNumbers,
    &rules::memory::remat_with_free_hbm::RematWithFreeHbm,
    &rules::memory::memory_near_limit::MemoryNearLimit,
    &rules::memory::padded_buffers::PaddedBuffers,
    &rules::matmul::below_shape_limit::MatmulBelowShapeLimit,
    &rules::matmul::f32_matmul::F32Matmul,
    &rules::matmul::mxu_padding_waste::MxuPaddingWaste,
    &rules::kernels::kernel_far_from_roof::KernelFarFromRoof,
    &rules::kernels::kernel_without_cost::KernelWithoutCost,
    &rules::kernels::naive_attention::NaiveAttention,
    &rules::matmul::weight_bound_decode::WeightBoundDecode,
    &rules::matmul::small_expert_matmul::SmallExpertMatmul,
    &rules::capture::truncated::TruncatedCapture,
    &rules::capture::missing_hlo::MissingHlo,
    &rules::capture::missing_steps::MissingSteps,
    &rules::capture::asymmetric_cores::AsymmetricCores,
    &rules::capture::rates_above_peak::RatesAbovePeak,
    &rules::capture::unsteady_steps::UnsteadySteps,
    &rules::idle::device_idle::DeviceIdle,
    &rules::idle::many_small_programs::ManySmallPrograms,
    &rules::idle::compile_during_capture::CompileDuringCapture,
    &rules::idle::input_stall::InputStall,
    &rules::idle::idle_inside::IdleInside,
    &rules::idle::host_reads::HostReads,
    &rules::memory::exposed_host_offload::ExposedHostOffload,
];

/// The rule of that code or name, in any case.
#[must_use]
pub fn find(code_or_name: &str) -> Option<&'static dyn Rule> {
    RULES
        .iter()
        .find(|rule| {
            rule.code().eq_ignore_ascii_case(code_or_name)
                || rule.name().eq_ignore_ascii_case(code_or_name)
        })
        .copied()
}
