//! Text evidence: launch.

use crate::cli::Folder;

#[test]
fn a_healthy_launch_says_nothing_above_info() {
    let folder = Folder::new();
    let text = "python3 -m benchmarks.benchmark_runner xpk --device_type=v6e-8 --num_slices=1 --model_name=llama3_1_8b\n";
    folder.write("run.sh", text.as_bytes());
    let ran = folder.run(&["analyze", "run.sh", "--fail-on", "low"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.out.contains("Worth knowing") && ran.out.contains("TL603"),
        "{}",
        ran.out
    );
}

#[test]
fn numbers_that_do_not_divide_fail_the_launch() {
    let folder = Folder::new();
    let text =
        "python -m MaxText.train cfg.yml \\\n  num_experts=160 \\\n  ici_expert_parallelism=64\n";
    folder.write("run.sh", text.as_bytes());
    let ran = folder.run(&["analyze", "run.sh", "--fail-on", "high"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.out.contains("run.sh:2"), "{}", ran.out);
}
