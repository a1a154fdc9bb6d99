//! All rules, read top to bottom. A new rule is one file, one card, and one line here.
//!
//! Codes: 1xx capture quality, 2xx idle time and the host, 3xx host memory, 4xx collectives,
//! 5xx matmuls and kernels, 6xx layouts and data movement, 7xx operations and fusion, 8xx memory,
//! 9xx changes that were compiled. `TL` are rules of logs and other text, `TS` of source code.

use crate::rule::Rule;
use crate::rules;

/// Every rule.
pub const RULES: &[&dyn Rule] = &[
    // Capture quality.
    &rules::capture::truncated_capture::TruncatedCapture,
    &rules::capture::missing_hlo::MissingHlo,
    &rules::capture::missing_steps::MissingSteps,
    &rules::capture::asymmetric_cores::AsymmetricCores,
    &rules::capture::rates_above_peak::RatesAbovePeak,
    &rules::capture::unsteady_steps::UnsteadySteps,
    // Idle time and the host.
    &rules::idle::device_idle_between_programs::DeviceIdle,
    &rules::idle::many_small_programs::ManySmallPrograms,
    &rules::idle::compile_during_capture::CompileDuringCapture,
    &rules::idle::input_or_transfer_stall::InputStall,
    &rules::idle::idle_inside_programs::IdleInside,
    &rules::idle::host_read_in_step::HostReads,
    // Host memory.
    &rules::memory::exposed_host_offload::ExposedHostOffload,
    // Collectives.
    &rules::collectives::exposed_collective::ExposedCollective,
    &rules::collectives::small_repeated_collectives::SmallRepeatedCollectives,
    &rules::collectives::all_reduce_to_reduce_scatter::AllReduceToReduceScatter,
    &rules::collectives::straggler_skew::StragglerSkew,
    &rules::collectives::full_resharding::FullResharding,
    // Matmuls and kernels.
    &rules::matmul::matmul_below_shape_limit::MatmulBelowShapeLimit,
    &rules::matmul::f32_matmul::F32Matmul,
    &rules::matmul::mxu_padding_waste::MxuPaddingWaste,
    &rules::kernels::kernel_far_from_roof::KernelFarFromRoof,
    &rules::kernels::kernel_without_cost::KernelWithoutCost,
    &rules::kernels::naive_attention::NaiveAttention,
    &rules::matmul::weight_bound_decode::WeightBoundDecode,
    &rules::matmul::small_expert_matmul::SmallExpertMatmul,
    // Layouts and data movement.
    &rules::layout::layout_copies_around_custom_calls::CopiesAroundKernels,
    &rules::layout::whole_buffer_copy::WholeBufferCopy,
    &rules::layout::data_formatting::DataFormatting,
    &rules::layout::dus_on_minor_scan_axis::DusOnMinorScanAxis,
    &rules::layout::stacked_copies_in_loop::StackedCopies,
    // Operations and fusion.
    &rules::ops::scatter_gather_slow::ScatterGather,
    &rules::ops::sort_topk_sampling::SortTopk,
    &rules::ops::tiny_ops_loop::TinyOpsLoop,
    &rules::ops::unfused_elementwise_chains::ElementwiseChains,
    &rules::ops::casts_of_their_own::Casts,
    &rules::ops::random_number_cost::RandomNumbers,
    // Memory.
    &rules::memory::remat_with_free_hbm::RematWithFreeHbm,
    &rules::memory::memory_near_limit::MemoryNearLimit,
    &rules::memory::padded_buffers::PaddedBuffers,
    // Compiled both ways.
    &rules::what_if::compiled_change::CompiledChangeRule,
    // Text, TL1xx: recompilation.
    // Text, TL2xx: the host: reads, transfers, fallbacks, launches.
    // Text, TL3xx: memory.
    &rules::logs::memory::padded_allocations::PaddedAllocations,
    &rules::logs::memory::program_exceeds_memory::ProgramExceedsMemory,
    &rules::logs::memory::fragmented_memory::FragmentedMemory,
    &rules::logs::memory::program_exceeds_free_memory::ProgramExceedsFreeMemory,
    &rules::logs::memory::scoped_vmem_exceeded::ScopedVmemExceeded,
    &rules::logs::memory::register_spills::RegisterSpills,
    &rules::logs::memory::kernel_buffer_too_large::KernelBufferTooLarge,
    // Text, TL4xx: sharding and the compiler.
    &rules::logs::sharding::full_rematerialization::InvoluntaryRematerialization,
    &rules::logs::sharding::compiler_alarms::SlowCompile,
    &rules::logs::sharding::compiler_alarms::ConstantFolding,
    &rules::logs::sharding::compiler_alarms::DonationUnused,
    &rules::logs::sharding::compiler_alarms::UntunedKernel,
    &rules::logs::sharding::compiler_alarms::HostCompute,
    // Text, TL5xx: throughput.
    // Text, TL6xx: launch commands and configurations.
    &rules::logs::launch::debug_settings::DebugSettings,
    &rules::logs::launch::measured_flags::MeasuredFlags,
    &rules::logs::launch::published_recipe::PublishedRecipe,
    &rules::logs::launch::sampler_rates::SamplerRates,
    &rules::logs::launch::parallelism::ParallelismArithmetic,
    // Source, TS1xx: recompilation.
    // Source, TS2xx: host synchronisation.
    // Source, TS3xx: operations that are slow on a TPU, or lose their fast kernel.
    // Source, TS4xx: shapes.
    // Source, TS5xx: migration to TorchTPU.
    // Source, TS6xx: coverage of operations.
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

#[cfg(test)]
mod tests {
    use super::RULES;

    #[test]
    fn codes_count_up_and_names_are_unique() {
        let key = |rule: &'static dyn crate::Rule| {
            let kind = ["TT", "TL", "TS"]
                .iter()
                .position(|p| rule.code().starts_with(p));
            (kind.expect("a known prefix"), rule.code())
        };
        assert!(RULES.windows(2).all(|pair| key(pair[0]) < key(pair[1])));
        let mut names: Vec<&str> = RULES.iter().map(|rule| rule.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), RULES.len());
    }

    #[test]
    fn every_card_has_its_headings_in_order() {
        for rule in RULES {
            let card = rule.card();
            assert!(
                card.starts_with(&format!("# {} {}\n", rule.code(), rule.name())),
                "{}",
                rule.code()
            );
            let mut from = 0;
            for heading in [
                "## What it does",
                "## Why it is slow",
                "## Example",
                "## Expected finding",
                "## What to do",
                "## When not to",
                "## Fix safety",
                "## References",
            ] {
                let at = card[from..].find(heading);
                let at =
                    at.unwrap_or_else(|| panic!("{}: no {heading:?} in its place", rule.code()));
                from += at;
            }
            assert!(!rule.summary().is_empty(), "{}", rule.code());
        }
    }
}
