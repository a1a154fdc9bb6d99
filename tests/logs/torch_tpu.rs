//! What TorchTPU prints, as `analyze` tells it.

use crate::cli::Folder;

fn analyzed(log: &str) -> String {
    let folder = Folder::new();
    folder.write("run.log", log.as_bytes());
    folder.run(&["analyze", "run.log"]).ok()
}

#[test]
fn fallbacks_refusals_and_debug_settings_are_findings() {
    let log = include_str!("../fixtures/logs/torch_tpu/refusals.log");
    let out = analyzed(log);
    for said in [
        "TL205 high   `aten::median`, `aten::kthvalue.values` are not implemented",
        "TL206 medium scaled_dot_product_attention runs without the flash kernel",
        "TL207 medium TORCH_TPU_LAUNCH_BLOCKING is set",
        "TL208 high   TorchTPU refuses torch.compile(dynamic=True)",
    ] {
        assert!(out.contains(said), "{said}\n{out}");
    }
}

#[test]
fn a_log_in_utf_16_tells_the_same() {
    let log = include_str!("../fixtures/logs/torch_tpu/limit.log");
    let wide: Vec<u8> = std::iter::once(0xfeff_u16)
        .chain(log.encode_utf16())
        .flat_map(u16::to_le_bytes)
        .collect();
    let folder = Folder::new();
    folder.write("run.log", &wide);
    assert_eq!(
        folder
            .run(&["analyze", "run.log"])
            .ok()
            .lines()
            .skip(1)
            .collect::<Vec<_>>(),
        analyzed(log).lines().skip(1).collect::<Vec<_>>()
    );
}
