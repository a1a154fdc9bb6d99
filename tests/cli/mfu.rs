//! `tpu-tune mfu`.

use serde_json::Value;

use super::Folder;

/// A configuration of `tests/fixtures/models`.
fn config(name: &str) -> String {
    format!(
        "{}/tests/fixtures/models/{name}.json",
        env!("CARGO_MANIFEST_DIR")
    )
}

/// The run that was published for TorchTPU.
fn published<'a>(config: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let run = [
        "mfu", config, "--chip", "tpu7x", "--chips", "8192", "--batch", "262144", "--seq", "4096",
    ];
    [&run, more].concat()
}

fn near(value: &Value, expected: f64, off: f64) {
    let value = value.as_f64().expect("a number");
    assert!((value - expected).abs() <= off, "{value}, not {expected}");
}

#[test]
fn the_published_run_comes_out_from_its_tokens_a_second() {
    let path = config("qwen3_235b_a22b");
    let folder = Folder::new();
    let args = published(
        &path,
        &[
            "--tokens-per-s",
            "2104/core",
            "--remat",
            "full",
            "--format",
            "json",
        ],
    );
    let answer = folder.run(&args).json();
    assert_eq!(answer["params"]["total"], 235_093_634_560_u64);
    assert_eq!(answer["params"]["active"], 22_190_763_520_u64);
    assert_eq!(answer["tensor_cores"], 16_384);
    let run = &answer["run"];
    near(&run["step_s"], 31.15, 0.005);
    near(&run["mfu"], 0.2706, 0.00005);
    near(&run["tokens_per_s_per_chip"], 4208.0, 1e-6);
    // A forward pass more, its output not.
    near(&run["hfu"], 0.2706 * 4.0 / 3.0, 0.003);
    let rows = answer["conventions"].as_array().expect("rows");
    let shares: Vec<String> = rows
        .iter()
        .map(|row| {
            format!(
                "{:.1}",
                row["utilization"].as_f64().expect("measured") * 100.0
            )
        })
        .collect();
    assert_eq!(shares, ["27.1", "27.7", "30.5", "23.6", "13.5"]);
}

#[test]
fn and_from_its_time_a_step() {
    let path = config("qwen3_235b_a22b");
    let folder = Folder::new();
    let args = published(&path, &["--step-time", "31.2s"]);
    let answer = folder
        .run(&[&args[..], &["--format", "json"]].concat())
        .json();
    near(&answer["run"]["tokens_per_s_per_core"], 2100.5, 0.05);
    // What is published lies within what 31.2 may have been rounded from.
    let range = answer["run"]["mfu_range"].as_array().expect("two ends");
    assert!(range[0].as_f64() < Some(0.2700) && range[1].as_f64() > Some(0.2705));

    let text = folder.run(&args).ok();
    for words in [
        "6*N + 6*L*S*H*D = 6*2.1568e10 + 6*94*4096*64*128 = 1.4834e11",
        "31.20 s a step",
        "623 of 2307 TFLOP/s bf16 a chip",
        "It fits with --microbatches 16.",
    ] {
        assert!(text.contains(words), "no {words:?} in:\n{text}");
    }
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn chips_are_added_until_collectives_bound_the_step() {
    let path = config("llama_3_8b");
    let answer = Folder::new()
        .run(&[
            "mfu",
            &path,
            "--chip",
            "v6e",
            "--chips",
            "256",
            "--batch",
            "4096",
            "--seq",
            "4096",
            "--fsdp",
            "64",
            "--remat",
            "full",
            "--loss-chunks",
            "8",
            "--scale-to",
            "2048",
            "--format",
            "json",
        ])
        .json();
    let points = answer["scaling"]["points"].as_array().expect("points");
    let of = |chips: u64| {
        let point = points.iter().find(|point| point["chips"] == chips);
        point.unwrap_or_else(|| panic!("no {chips} in {points:?}"))
    };
    assert_eq!(of(256)["split"]["data"], 4);
    assert_eq!(
        (&of(256)["slices"], &of(1024)["slices"]),
        (&1.into(), &4.into())
    );
    let data = |chips: u64| {
        let axes = of(chips)["collectives"].as_array().expect("axes").clone();
        axes.into_iter()
            .find(|axis| axis["axis"] == "data")
            .expect("data")
    };
    // Slices of v6e have 256 chips: only beyond is the data centre's network used.
    assert_eq!(data(256)["dcn_seconds"], 0.0);
    assert!(data(1024)["dcn_seconds"].as_f64() > Some(0.0));
    let compute = |chips: u64| of(chips)["compute_s"].as_f64().expect("a time");
    assert!((compute(256) / compute(1024) - 4.0).abs() < 1e-9);
}

#[test]
fn sizes_that_pad_are_named_with_their_rules() {
    let text = Folder::new()
        .run(&["mfu", &config("gpt2"), "--chip", "v6e"])
        .ok();
    for words in ["50257 is stored as 50304", "TS401", "a head of 64", "TS404"] {
        assert!(text.contains(words), "no {words:?} in:\n{text}");
    }
}

#[test]
fn what_cannot_be_is_said() {
    let folder = Folder::new();
    let path = config("qwen3_235b_a22b");
    let run = |more: &[&str]| folder.run(&published(&path, more));
    run(&["--step-time", "31.2"]).refused(&["31.2", "unit", "31.2s"]);
    run(&["--tokens-per-s", "fast"]).refused(&["fast", "2104/core"]);
    run(&["--tensor", "3"]).refused(&["3", "16384 devices"]);
    let text = run(&["--tokens-per-s", "2104"]).ok();
    assert!(text.contains("2104/core"), "{text}");
    let text = run(&["--step-time", "3s", "--expert", "64", "--tensor", "64"]).ok();
    for words in [
        "281 % of the peak cannot be",
        "4 key and value heads on tensor 64",
    ] {
        assert!(text.contains(words), "no {words:?} in:\n{text}");
    }
    folder.write("bert.json", br#"{"architectures": ["BertForMaskedLM"], "model_type": "bert", "hidden_size": 768, "vocab_size": 30522, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}"#);
    folder
        .run(&["mfu", "bert.json", "--chip", "v6e"])
        .refused(&["bert", "llama", "qwen3_moe"]);
    folder.write("other.json", b"{\"a\": 1}");
    folder
        .run(&["mfu", "other.json", "--chip", "v6e"])
        .refused(&["hidden_size", "config.json"]);
    folder.write("cut.json", b"{\"hidden_size\": 768, \"vocab_size\": 100");
    folder
        .run(&["mfu", "cut.json", "--chip", "v6e"])
        .refused(&["not a model's configuration", "EOF"]);
    folder.write(
        "huge.json",
        br#"{"model_type": "llama", "hidden_size": 1e300, "vocab_size": 30522}"#,
    );
    folder
        .run(&["mfu", "huge.json", "--chip", "v6e"])
        .refused(&["hidden_size", "1e+300"]);
}

#[test]
fn an_unknown_decoder_is_counted_like_a_llama_and_says_so() {
    let folder = Folder::new();
    folder.write("config.json", br#"{"architectures": ["NewForCausalLM"], "model_type": "new", "hidden_size": 4096, "vocab_size": 32000, "num_hidden_layers": 32, "num_attention_heads": 32, "intermediate_size": 11008}"#);
    let text = folder.run(&["mfu", "config.json", "--chip", "v5p"]).ok();
    assert!(text.contains("6,738,415,616"), "{text}");
    assert!(text.contains("assumed: new is not known here"), "{text}");
}
