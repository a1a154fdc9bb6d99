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
    &rules::logs::recompilation::eager_recompiles::EagerRecompiles,
    &rules::logs::recompilation::dynamo_recompiles::DynamoRecompiles,
    &rules::logs::recompilation::failed_compiles::FailedCompiles,
    &rules::logs::recompilation::xla_recompilation::XlaRecompilation,
    &rules::logs::recompilation::xla_late_variant::XlaLateVariant,
    &rules::logs::recompilation::xla_compile_time::XlaCompileTime,
    &rules::logs::recompilation::xla_graph_variants::XlaGraphVariants,
    &rules::logs::recompilation::dynamic_shape_ir::DynamicShapeIr,
    &rules::logs::recompilation::jax_recompilation::JaxRecompilation,
    &rules::logs::recompilation::jax_persistent_cache::JaxPersistentCache,
    &rules::logs::recompilation::server_recompilation::ServerRecompilation,
    // Text, TL2xx: the host: reads, transfers, fallbacks, launches.
    &rules::logs::host::eager_launches::EagerLaunches,
    &rules::logs::host::host_reads::HostReads,
    &rules::logs::host::graph_breaks::GraphBreaks,
    &rules::logs::host::collective_launches::CollectiveLaunches,
    &rules::logs::host::cpu_fallback::CpuFallback,
    &rules::logs::host::slow_attention::SlowAttention,
    &rules::logs::host::debug_settings::DebugSettings,
    &rules::logs::host::aborts::Aborts,
    &rules::logs::host::xla_host_reads::XlaHostReads,
    &rules::logs::host::xla_cpu_fallback::XlaCpuFallback,
    &rules::logs::host::large_transfers::LargeTransfers,
    &rules::logs::host::many_executions::ManyExecutions,
    &rules::logs::host::input_transfers::InputTransfers,
    &rules::logs::host::graph_cuts::GraphCuts,
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
    &rules::logs::sharding::indivisible_axis::IndivisibleAxis,
    &rules::logs::sharding::slow_compile::SlowCompile,
    &rules::logs::sharding::constant_folding::ConstantFolding,
    &rules::logs::sharding::donation_unused::DonationUnused,
    &rules::logs::sharding::untuned_kernel::UntunedKernel,
    &rules::logs::sharding::compute_on_host::HostCompute,
    // Text, TL5xx: throughput.
    &rules::logs::throughput::step_throughput::StepThroughput,
    &rules::logs::throughput::slow_steps::SlowSteps,
    &rules::logs::throughput::step_drift::StepDrift,
    &rules::logs::throughput::loss_not_finite::LossNotFinite,
    &rules::logs::throughput::kv_cache_full::KvCacheFull,
    &rules::logs::throughput::empty_profile::EmptyProfile,
    &rules::logs::throughput::input_wait::InputWait,
    // Text, TL6xx: launch commands and configurations.
    &rules::logs::launch::debug_settings::DebugSettings,
    &rules::logs::launch::measured_flags::MeasuredFlags,
    &rules::logs::launch::published_recipe::PublishedRecipe,
    &rules::logs::launch::sampler_rates::SamplerRates,
    &rules::logs::launch::parallelism::ParallelismArithmetic,
    // Source, TS1xx: recompilation.
    &rules::source::recompilation::unpadded_batches::UnpaddedBatches,
    &rules::source::recompilation::partial_batch::PartialBatch,
    &rules::source::recompilation::growing_cache::GrowingCache,
    &rules::source::recompilation::changing_scalars::ChangingScalars,
    &rules::source::recompilation::jit_in_loop::JitInLoop,
    &rules::source::recompilation::weak_types::WeakTypes,
    &rules::source::recompilation::changing_statics::ChangingStatics,
    &rules::source::recompilation::compile_options::CompileOptions,
    &rules::source::recompilation::runtime_slices::RuntimeSlices,
    &rules::source::recompilation::short_buffer::ShortBuffer,
    &rules::source::recompilation::dynamic_section::DynamicSection,
    &rules::source::recompilation::missing_mark_step::MissingMarkStep,
    &rules::source::recompilation::host_random::HostRandom,
    &rules::source::recompilation::no_compilation_cache::NoCompilationCache,
    // Source, TS2xx: host synchronisation.
    &rules::source::host_sync::host_reads::HostReads,
    &rules::source::host_sync::tensor_condition::TensorCondition,
    &rules::source::host_sync::printed_tensors::PrintedTensors,
    &rules::source::host_sync::metrics_each_step::MetricsEachStep,
    &rules::source::host_sync::hidden_sync::HiddenSync,
    &rules::source::host_sync::per_tensor_transfers::PerTensorTransfers,
    &rules::source::host_sync::loader_without_workers::LoaderWithoutWorkers,
    &rules::source::host_sync::compile_in_loop::CompileInLoop,
    // Source, TS3xx: operations that are slow on a TPU, or lose their fast kernel.
    &rules::source::attention::flex_attention::FlexAttention,
    &rules::source::attention::flex_attention_setting::FlexAttentionSetting,
    &rules::source::attention::hand_written_attention::HandWrittenAttention,
    &rules::source::attention::attention_on_torch_xla::AttentionOnTorchXla,
    &rules::source::attention::expanded_heads::ExpandedHeads,
    &rules::source::attention::explicit_causal_mask::ExplicitCausalMask,
    &rules::source::operations::boolean_mask_assignment::BooleanMaskAssignment,
    &rules::source::operations::data_dependent_shape::DataDependentShape,
    &rules::source::operations::scatter_in_step::ScatterInStep,
    &rules::source::operations::vmapped_update_slice::VmappedUpdateSlice,
    &rules::source::operations::vmapped_random::VmappedRandom,
    &rules::source::operations::sampler_by_sort::SamplerBySort,
    &rules::source::operations::pool_with_indices::PoolWithIndices,
    &rules::source::operations::resize_by_factor::ResizeByFactor,
    &rules::source::operations::float64_in_step::Float64InStep,
    &rules::source::operations::masks_as_long::MasksAsLong,
    &rules::source::operations::unrolled_recurrence::UnrolledRecurrence,
    &rules::source::operations::matmul_precision::MatmulPrecision,
    &rules::source::operations::transposed_experts::TransposedExperts,
    &rules::source::operations::masked_update::MaskedUpdate,
    // Source, TS4xx: shapes.
    &rules::source::shapes::odd_vocabulary::OddVocabulary,
    &rules::source::shapes::odd_width::OddWidth,
    &rules::source::shapes::odd_sequence::OddSequence,
    &rules::source::shapes::narrow_head::NarrowHead,
    &rules::source::shapes::odd_batch::OddBatch,
    // Source, TS5xx: migration to TorchTPU.
    &rules::source::migration::cuda_device::CudaDevice,
    &rules::source::migration::cuda_or_cpu::CudaOrCpu,
    &rules::source::migration::cuda_autocast::CudaAutocast,
    &rules::source::migration::grad_scaler::GradScaler,
    &rules::source::migration::torch_cuda_call::TorchCudaCall,
    &rules::source::migration::nccl_backend::NcclBackend,
    &rules::source::migration::device_per_process::DevicePerProcess,
    &rules::source::migration::compile_options::CompileOptions,
    &rules::source::migration::gpu_package::GpuPackage,
    &rules::source::migration::pytorch_xla::PytorchXla,
    &rules::source::migration::checkpoint_location::CheckpointLocation,
    &rules::source::migration::cuda_settings::CudaSettings,
    // Source, TS6xx: coverage of operations.
    &rules::source::coverage::unsupported_op::UnsupportedOp,
    // Source, TS7xx: sharding.
    &rules::source::sharding::conflicting_specs::ConflictingSpecs,
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
