//! Arithmetic of devices, heads, experts and batch.

use knowledge::advice::AdviceKind;
use knowledge::chips::chip;
use profiler::logs::Logs;
use profiler::logs::launch::{Launch, Setting};

use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::launch::setting_place;

/// See the card.
#[derive(Debug)]
pub struct ParallelismArithmetic;

/// Names of the size of tensor parallelism, over all dialects.
const TENSOR: [&str; 5] = [
    "tensor_parallel_size",
    "tp_size",
    "tp",
    "ici_tensor_parallelism",
    "tensor_parallel_degree",
];
const EXPERTS: [&str; 3] = ["num_experts", "num_local_experts", "n_routed_experts"];
const EXPERT_AXIS: [&str; 3] = [
    "ici_expert_parallelism",
    "expert_parallel_degree",
    "expert_parallel_size",
];
const FSDP: [&str; 2] = ["ici_fsdp_parallelism", "data_parallel_shard_degree"];
const HEADS: [&str; 2] = ["base_num_query_heads", "num_attention_heads"];
const KV_HEADS: [&str; 2] = ["base_num_kv_heads", "num_key_value_heads"];

impl Rule for ParallelismArithmetic {
    fn code(&self) -> &'static str {
        "TL605"
    }

    fn name(&self) -> &'static str {
        "parallelism-arithmetic"
    }

    fn card(&self) -> &'static str {
        include_str!("parallelism.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        let mut remarks = Vec::new();
        for launch in &logs.launch.launches {
            remarks.extend(devices(logs, launch));
            remarks.extend(heads(logs, launch));
            remarks.extend(kv_heads(logs, launch));
            remarks.extend(experts(logs, launch));
            remarks.extend(batch(logs, launch));
        }
        remarks
    }
}

/// A number above zero, its name and where it stands.
fn number<'a>(launch: &'a Launch, names: &[&'a str]) -> Option<(u64, &'a str, &'a Setting)> {
    names.iter().find_map(|name| {
        let setting = launch.settings.get(*name)?;
        let number = setting.number().filter(|number| *number > 0)?;
        Some((number, *name, setting))
    })
}

fn remark(
    logs: &Logs,
    severity: Severity,
    title: String,
    settings: &[(&str, &Setting)],
    advice: &str,
) -> Remark {
    let mut remark = Remark::new(AdviceKind::ShardingMesh, severity, title);
    for (name, setting) in settings {
        remark.places.push(setting_place(logs, name, setting));
        remark.evidence.push(Exhibit::text(
            *name,
            setting.value.clone(),
            setting.text.clone(),
        ));
    }
    remark.advice = vec![advice.to_owned()];
    remark
}

/// Sizes of the mesh's axes within a slice, as MaxText and MaxDiffusion name them; `None` where
/// one of them is to be found out (-1) or is no number.
fn mesh(launch: &Launch) -> Option<Vec<(&str, &Setting, u64)>> {
    let axes: Option<Vec<_>> = launch
        .settings
        .iter()
        .filter(|(name, _)| name.starts_with("ici_") && name.ends_with("_parallelism"))
        .map(|(name, setting)| {
            let size = setting.number().filter(|size| *size > 0)?;
            Some((name.as_str(), setting, size))
        })
        .collect();
    axes.filter(|axes| axes.iter().any(|(.., size)| *size > 1))
}

/// Devices as JAX counts them, of one slice.
fn slice_devices(launch: &Launch) -> Option<(u64, &Setting)> {
    let (accelerator, setting) = launch.accelerator()?;
    let per_chip = u64::from(chip(accelerator.generation).devices_per_chip.value.max(1));
    Some((accelerator.chips?.saturating_mul(per_chip), setting))
}

fn devices(logs: &Logs, launch: &Launch) -> Option<Remark> {
    let axes = mesh(launch)?;
    let (devices, device) = slice_devices(launch)?;
    let product = axes
        .iter()
        .fold(1u64, |product, (.., size)| product.saturating_mul(*size));
    if product == devices {
        return None;
    }
    // Axes that are not named keep their defaults, which may be -1: what is left.
    if product < devices && devices % product == 0 {
        return None;
    }
    let sizes: Vec<String> = axes
        .iter()
        .map(|(name, _, size)| format!("{name} {size}"))
        .collect();
    let mut settings: Vec<(&str, &Setting)> = axes
        .iter()
        .map(|(name, setting, _)| (*name, *setting))
        .collect();
    settings.push(("device_type", device));
    Some(remark(
        logs,
        Severity::High,
        format!(
            "the mesh wants {product} devices ({}), a slice of {} has {devices}",
            sizes.join(" x "),
            device.value
        ),
        &settings,
        "choose axes whose product is the number of devices of a slice (two a chip on TPU7x), or leave one at -1",
    ))
}

fn heads(logs: &Logs, launch: &Launch) -> Option<Remark> {
    let (tensor, tensor_name, tensor_at) = number(launch, &TENSOR)?;
    let (heads, name, at) = number(launch, &HEADS)?;
    (heads % tensor != 0).then(|| {
        remark(
            logs,
            Severity::High,
            format!("{heads} attention heads do not divide among {tensor} devices ({tensor_name})"),
            &[(name, at), (tensor_name, tensor_at)],
            "choose a tensor parallelism that divides the heads",
        )
    })
}

fn kv_heads(logs: &Logs, launch: &Launch) -> Option<Remark> {
    let (tensor, tensor_name, tensor_at) = number(launch, &TENSOR)?;
    let (heads, name, at) = number(launch, &KV_HEADS)?;
    if heads % tensor == 0 {
        return None;
    }
    let title = if tensor % heads == 0 {
        format!(
            "{heads} KV heads on {tensor} devices ({tensor_name}): each is held {} times",
            tensor / heads
        )
    } else {
        format!("{heads} KV heads do not divide among {tensor} devices ({tensor_name})")
    };
    let severity = if tensor % heads == 0 {
        Severity::Low
    } else {
        Severity::Medium
    };
    Some(remark(
        logs,
        severity,
        title,
        &[(name, at), (tensor_name, tensor_at)],
        "take no more tensor parallelism than there are KV heads, and use the other devices for data parallelism",
    ))
}

fn experts(logs: &Logs, launch: &Launch) -> Option<Remark> {
    let (experts, name, at) = number(launch, &EXPERTS).filter(|(experts, ..)| *experts > 1)?;
    if let Some((axis, axis_name, axis_at)) = number(launch, &EXPERT_AXIS)
        && experts % axis != 0
    {
        return Some(remark(
            logs,
            Severity::High,
            format!("{experts} experts do not divide among {axis} devices ({axis_name})"),
            &[(name, at), (axis_name, axis_at)],
            "choose an expert axis that divides the experts",
        ));
    }
    let quantization = launch.get(&["quantization"])?;
    let (fsdp, fsdp_name, fsdp_at) = number(launch, &FSDP)?;
    if !quantization.value.to_ascii_lowercase().contains("fp8") || experts % fsdp == 0 {
        return None;
    }
    let mut remark = remark(
        logs,
        Severity::Medium,
        format!(
            "{experts} experts do not divide by {fsdp} ({fsdp_name}): their weights are gathered in bf16, not in {}",
            quantization.value
        ),
        &[
            (name, at),
            (fsdp_name, fsdp_at),
            ("quantization", quantization),
        ],
        "choose an FSDP axis that divides the experts",
    );
    remark.kind = AdviceKind::Dtype;
    remark.evidence.push(Exhibit::text(
        "measured",
        "192 experts over 128, then 64 devices: 594 to 625 TFLOP/s a chip",
        "https://github.com/yangwhale/gpu-tpu-pedia/blob/main/tpu/Hunyuan3-295B-Pretraining/TUNING-v7.en.md",
    ));
    Some(remark)
}

fn batch(logs: &Logs, launch: &Launch) -> Option<Remark> {
    let setting = launch.get(&["per_device_batch_size"])?;
    let batch = setting.float().filter(|batch| *batch > 0.0)?;
    let (devices, device) = slice_devices(launch)?;
    let slices = launch
        .get(&["num_slices"])
        .and_then(Setting::number)
        .unwrap_or(1);
    let devices = devices.saturating_mul(slices);
    let global = batch * devices as f64;
    ((global - global.round()).abs() > 1e-6).then(|| {
        remark(
            logs,
            Severity::High,
            format!(
                "{batch} a device on {devices} devices is a batch of {global}, no whole number"
            ),
            &[("per_device_batch_size", setting), ("device_type", device)],
            "choose a batch per device whose product with the devices is whole",
        )
    })
}
