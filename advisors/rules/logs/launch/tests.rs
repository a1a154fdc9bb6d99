//! Rules on launches of our own making.

use std::path::Path;

use knowledge::chips::chips;
use profiler::evidence::Evidence;
use profiler::session::Session;

use crate::finding::{Finding, Severity};
use crate::rank::advise;
use crate::registry::RULES;

fn findings(text: &str) -> Vec<Finding> {
    let mut session = Session::default();
    let path = Path::new("run.sh");
    profiler::logs::read(path, text.as_bytes(), &mut session.logs, &mut session.notes);
    let evidence = Evidence::gather(&session, None, chips());
    let mut findings = advise(&evidence, RULES).findings;
    findings.retain(|finding| finding.code.starts_with("TL6"));
    findings
}

/// The one finding.
fn only(text: &str) -> (String, Severity, String) {
    let found = findings(text);
    assert_eq!(found.len(), 1, "{text}: {found:#?}");
    let first = found.into_iter().next().expect("there is one");
    (first.code, first.severity, first.title)
}

#[test]
fn settings_left_on_are_one_finding() {
    let (code, severity, title) =
        only("export TPU_LAUNCH_BLOCKING=1\nexport JAX_ENABLE_CHECKS=true\n");
    assert_eq!((code.as_str(), severity), ("TL601", Severity::Medium));
    assert!(
        title.starts_with("TPU_LAUNCH_BLOCKING is left on"),
        "{title}"
    );
    assert!(title.ends_with("and 1 more such settings"), "{title}");
    assert_eq!(findings("export TPU_LAUNCH_BLOCKING=0\n"), []);
}

#[test]
fn a_flag_is_judged_on_its_chip_alone() {
    let flags = "--xla_tpu_scoped_vmem_limit_kib=524288 --xla_tpu_rwb_fusion=false\n";
    let (code, severity, title) = only(&format!("--device_type=v6e-4\n{flags}"));
    assert_eq!((code.as_str(), severity), ("TL602", Severity::Low));
    assert!(title.contains("-13.8 % on v6e"), "{title}");
    assert_eq!(findings(&format!("--device_type=v5e-4\n{flags}")), []);
    assert_eq!(findings(flags), []);
    assert_eq!(
        findings("--device_type=v6e-4 --xla_tpu_scoped_vmem_limit_kib=98304\n"),
        []
    );
}

#[test]
fn published_recipes() {
    let (code, severity, title) = only("--device_type=v6e-8 --model_name=llama3_1_8b_2048\n");
    assert_eq!((code.as_str(), severity), ("TL603", Severity::Info));
    assert!(
        title.contains("413.4 TFLOP/s a chip, 45.0 % of 918"),
        "{title}"
    );
    let (_, severity, title) = only("--device_type=v6e-256 --model_name=mixtral-8x7b\n");
    assert_eq!(severity, Severity::Low);
    assert!(
        title.contains("302.3 TFLOP/s a chip, 32.9 % of 918"),
        "{title}"
    );
    let found = findings(
        "model_name=wan2.1 height=480 width=832 num_frames=81 --device-type=tpu7x-4x4x4\n",
    );
    // 21 latent frames of 30 by 52 patches.
    assert!(format!("{:?}", found[0].evidence).contains("32760 tokens a video"));
}

#[test]
fn samplers_are_compared_with_the_best() {
    let (code, severity, title) =
        only("no sampling: 6.0 req/s\ntop-p by sort: 0.25 req/s\ntop-p without sort: 5.5 req/s\n");
    assert_eq!((code.as_str(), severity), ("TL604", Severity::High));
    assert_eq!(
        title,
        "top-p by sort serves 0.25 req/s, no sampling 6: 24.0 times fewer"
    );
    assert_eq!(findings("greedy: 6.0 req/s\ntop-k: 5.9 req/s\n"), []);
}

#[test]
fn a_mesh_must_be_the_slice() {
    let mesh = |fsdp: u64| {
        format!("device_type=v6e-8 ici_fsdp_parallelism={fsdp} ici_tensor_parallelism=2\n")
    };
    let (code, severity, title) = only(&mesh(8));
    assert_eq!((code.as_str(), severity), ("TL605", Severity::High));
    assert_eq!(
        title,
        "the mesh wants 16 devices (ici_fsdp_parallelism 8 x ici_tensor_parallelism 2), a slice of v6e-8 has 8"
    );
    assert_eq!(findings(&mesh(4)), []);
    // Two devices a chip on TPU7x.
    let tpu7x = "device_type=tpu7x-2x2x1 ici_fsdp_parallelism=8\n";
    assert_eq!(findings(tpu7x), []);
    assert_eq!(
        findings("device_type=v6e-8 ici_fsdp_parallelism=-1 ici_tensor_parallelism=4\n"),
        []
    );
}

#[test]
fn heads_must_divide() {
    let (_, severity, title) =
        only("vllm serve x --tensor-parallel-size 6\n\"num_attention_heads\": 32,\n");
    assert_eq!(severity, Severity::High);
    assert!(
        title.starts_with("32 attention heads do not divide among 6 devices"),
        "{title}"
    );
    let (_, severity, title) = only(
        "--tensor-parallel-size 16\n\"num_attention_heads\": 32, \"num_key_value_heads\": 8\n",
    );
    assert_eq!(severity, Severity::Low);
    assert!(title.ends_with("each is held 2 times"), "{title}");
    assert_eq!(
        findings(
            "--tensor-parallel-size 8\n\"num_attention_heads\": 32, \"num_key_value_heads\": 8\n"
        ),
        []
    );
}

#[test]
fn experts_must_divide() {
    let (_, severity, title) = only("num_experts=160 ici_expert_parallelism=64\n");
    assert_eq!(severity, Severity::High);
    assert!(
        title.starts_with("160 experts do not divide among 64 devices"),
        "{title}"
    );
    let fp8 = "num_experts=192 ici_fsdp_parallelism=128 quantization=fp8_full\n";
    let (_, severity, title) = only(fp8);
    assert_eq!(severity, Severity::Medium);
    assert!(
        title.starts_with("192 experts do not divide by 128"),
        "{title}"
    );
    assert_eq!(findings(&fp8.replace("fp8_full", "none")), []);
    assert_eq!(findings(&fp8.replace("=128", "=64")), []);
}

#[test]
fn the_batch_must_be_whole() {
    let (_, _, title) = only("device_type=v6e-16 per_device_batch_size=0.3\n");
    assert!(
        title.starts_with("0.3 a device on 16 devices is a batch of 4.8"),
        "{title}"
    );
    assert_eq!(
        findings("device_type=v6e-16 per_device_batch_size=0.25\n"),
        []
    );
}
