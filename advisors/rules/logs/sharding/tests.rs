//! Rules on warnings of real compilers.

use std::path::Path;

use knowledge::advice::AdviceKind;
use knowledge::chips::chips;
use profiler::evidence::Evidence;
use profiler::session::Session;

use crate::finding::{Finding, Severity};
use crate::rank::advise;
use crate::registry::RULES;

fn findings(text: &str) -> Vec<Finding> {
    let mut session = Session::default();
    let path = Path::new("run.log");
    profiler::logs::read(path, text.as_bytes(), &mut session.logs, &mut session.notes);
    let evidence = Evidence::gather(&session, None, chips());
    let mut findings = advise(&evidence, RULES).findings;
    findings.retain(|finding| finding.code.starts_with("TL4"));
    findings
}

const REAL: &str = include_str!("../../../../tests/fixtures/logs/memory/spmd_shardy_jax_0_12.txt");

#[test]
fn both_shardings_and_the_op_are_named() {
    let found = findings(REAL);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].code, "TL401");
    assert_eq!(found[0].confidence.kind, AdviceKind::Resharding.name());
    assert_eq!(
        found[0].title,
        "the partitioner replicates bf16[4,4,8,64] at reshape (jit(g)/reshape): from axis 0 over 8 devices to axis 1 over 4 devices and axis 2 over 2 devices"
    );
    // 16 KiB: hardly worth a change.
    assert_eq!(found[0].severity, Severity::Low);
    assert!(found[0].advice[0].contains("before and after it"));
}

#[test]
fn a_large_tensor_weighs_more_and_repeats_are_counted() {
    let large = REAL.replace("bf16[4,4,8,64]", "bf16[4,4096,8,64]");
    let found = findings(&large.repeat(3));
    assert_eq!((found.len(), found[0].severity), (1, Severity::Medium));
    assert!(
        found[0].title.ends_with("(3 warnings)"),
        "{}",
        found[0].title
    );
}

#[test]
fn a_tensor_on_one_device_gets_its_own_advice() {
    let text = REAL.replace(
        "from sharding {devices=[8,1,1,1]<=[8]}",
        "from sharding {maximal device=0}",
    );
    let found = findings(&text);
    assert!(
        found[0]
            .title
            .contains("the whole tensor on device 0 alone")
    );
    assert!(
        found[0].advice[0].contains("where it is made"),
        "{:?}",
        found[0].advice
    );
}

#[test]
fn many_pairs_are_three_findings() {
    let lines: String = (2..9)
        .map(|n| REAL.replace("[8,1,1,1]<=[8]", &format!("[{n},1,1,1]<=[{n}]")))
        .collect();
    let found = findings(&lines);
    assert_eq!(found.len(), 3);
    assert!(
        found
            .iter()
            .any(|f| f.evidence.iter().any(|e| e.what == "also"))
    );
}

#[test]
fn alarms_of_a_real_compile() {
    let text =
        include_str!("../../../../tests/fixtures/logs/memory/constant_folding_and_donation.txt");
    let found = findings(text);
    let titles: Vec<(&str, &str)> = found
        .iter()
        .map(|f| (f.code.as_str(), f.title.as_str()))
        .collect();
    assert_eq!(
        titles,
        [
            (
                "TL411",
                "the compiler spends more than 1 s on computing %sort.0 itself"
            ),
            (
                "TL412",
                "donated buffers are not used: float32[1024,1024] stay beside their results"
            ),
        ]
    );
}

#[test]
fn slow_compiles_and_untuned_kernels() {
    let text = "x] The operation took 2m30s\n[Compiling module jit_step] Very slow compile? If\nAutotuning cache miss for ragged_dot with 192 groups\nAutotuning cache miss for ragged_dot with 192 groups\nFound an instruction (\"add.5\") which does device compute in host memory space. Converting\n";
    let found = findings(text);
    let of = |code: &str| found.iter().find(|f| f.code == code).expect(code);
    assert_eq!(of("TL410").title, "jit_step takes 150 s to compile");
    assert_eq!(of("TL410").lost_s, Some(150.0));
    assert_eq!(
        of("TL413").title,
        "a kernel runs with default block sizes (2 lines): Autotuning cache miss for ragged_dot with 192 groups"
    );
    assert!(
        of("TL414")
            .title
            .starts_with("the compiler moved add.5 to the host")
    );
}
