//! Rules on texts of real compilers, and on texts in their form with sizes of our own.

use std::path::Path;

use knowledge::chips::chips;
use profiler::evidence::Evidence;
use profiler::session::Session;

use crate::finding::Finding;
use crate::rank::advise;
use crate::registry::RULES;

fn findings(text: &str) -> Vec<Finding> {
    let mut session = Session::default();
    let path = Path::new("run.log");
    profiler::logs::read(path, text.as_bytes(), &mut session.logs, &mut session.notes);
    let evidence = Evidence::gather(&session, None, chips());
    let mut findings = advise(&evidence, RULES).findings;
    findings.retain(|finding| finding.code.starts_with("TL3"));
    findings
}

fn titles(text: &str) -> Vec<(String, String)> {
    let findings = findings(text);
    findings.into_iter().map(|f| (f.code, f.title)).collect()
}

macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!("../../../../tests/fixtures/logs/memory/", $name))
    };
}

fn expect(text: &str, expected: &[(&str, &str)]) {
    let found = titles(text);
    let expected: Vec<(String, String)> = expected
        .iter()
        .map(|(code, title)| ((*code).to_owned(), (*title).to_owned()))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn scoped_limits_of_real_kernels() {
    expect(
        fixture!("pallas_scoped_vmem.txt"),
        &[(
            "TL305",
            "the kernel %f.1 = f32[8192,2048] needs 64.00 MiB of scoped VMEM, its limit is 32.00 MiB: 32.00 MiB too much",
        )],
    );
    let found = findings(fixture!("pallas_vmem_limit_bytes.txt"));
    assert_eq!(
        found[0].title,
        "the kernel %mm.1 = f32[4096,4096] needs 72.00 MiB of scoped VMEM, its limit is 40.00 MiB: 32.00 MiB too much"
    );
    // 72 MiB fit a core of v5e and v6e (128 MiB), not one of v5p or TPU7x (64 MiB).
    assert!(found[0].advice[0].contains("vmem_limit_bytes=75497472"));
    let room = format!("{:?}", found[0].evidence);
    assert!(room.contains("v5e (128 MiB), v6e (128 MiB)") && !room.contains("v5p"));
}

#[test]
fn a_kernel_that_no_core_holds_is_told_to_shrink() {
    let text = "Scoped allocation with size 300.00M and limit 32.00M exceeded scoped vmem limit by 268.00M.";
    let found = findings(text);
    assert_eq!(found.len(), 1);
    assert!(found[0].advice[0].contains("no TPU has so much VMEM"));
    assert!(
        found[0].advice[0].contains("9.38 times"),
        "{}",
        found[0].advice[0]
    );
}

#[test]
fn buffers_larger_than_the_core_are_no_matter_of_limits() {
    expect(
        fixture!("pallas_scratch_over_vmem.txt"),
        &[(
            "TL307",
            "a buffer of the kernel big_scratch.1 (f32[65536,1024]) takes 256 MiB, the core has 128 MiB of VMEM",
        )],
    );
    expect(
        fixture!("pallas_smem.txt"),
        &[(
            "TL307",
            "a buffer of the kernel smemy.1 takes 4.00 MiB, the core has 1.00 MiB of SMEM",
        )],
    );
}

#[test]
fn the_short_message_of_current_compilers() {
    expect(
        fixture!("hbm_temporaries_e1000.txt"),
        &[(
            "TL302",
            "the program jit_f needs 34.00 GiB of 31.24 GiB HBM: 2.76 GiB too much",
        )],
    );
}

#[test]
fn padding_that_explains_the_excess_is_the_one_finding() {
    let found = findings(fixture!("hbm_table_channels.txt"));
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(
        found[0].title,
        "padding takes 3.88 GiB of 4.00 GiB in each of 2 buffers: bf16[512,1024,32,4] is padded 32-fold, axis 3 (size 4) is the minor one and takes 128 lanes"
    );
    assert_eq!(
        found[0].advice[0],
        "fold axis 3 into axis 2: [512,1024,128] holds the same elements in 128 MiB"
    );
    assert!(format!("{:?}", found[0].evidence).contains("it fits"));
    // The sentence, then the line of the allocation.
    assert_eq!((found[0].places[0].line, found[0].places[1].line), (2, 18));
}

#[test]
fn arguments_that_fill_memory_are_named_behind_a_log_prefix() {
    let found = findings(fixture!("hbm_table_arguments.txt"));
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(
        found[0].title,
        "the program needs 24.25 GiB of 15.75 GiB HBM: 8.50 GiB too much"
    );
    assert!(found[0].advice[0].starts_with("arguments are the larger part (16.0 GiB)"));
    assert!(found[0].advice[1].contains("over axis 2 of 32768"));
}

#[test]
fn run_time_messages_are_told_apart_by_their_figures() {
    let mut found = titles(fixture!("run_time.txt"));
    found.sort();
    let expected = [
        (
            "TL303",
            "memory is fragmented: a buffer wants 300.00 MiB, 900.00 MiB is free, but the largest piece is 250.00 MiB",
        ),
        (
            "TL303",
            "memory is fragmented: a program wants 2.50 GiB, 4.00 GiB is free, but only 1.75 GiB of it can be reserved in one piece",
        ),
        (
            "TL304",
            "the buffer wants 640.00 MiB, only 212.50 MiB is free: 428 MiB too much",
        ),
        (
            "TL304",
            "the program jit_decode wants 9.50 GiB, only 7.25 GiB is free: 2.25 GiB too much",
        ),
    ];
    let expected = expected.map(|(code, title)| (code.to_owned(), title.to_owned()));
    assert_eq!(found, expected);
    let findings = findings(fixture!("run_time.txt"));
    let repeated = findings.iter().find(|f| f.title.contains("2.50 GiB"));
    assert_eq!(repeated.expect("it is there").places.len(), 2);
}

#[test]
fn spills_in_vmem_get_no_advice_on_padding() {
    expect(
        fixture!("vmem_spills.txt"),
        &[(
            "TL306",
            "registers that do not fit take 18.25 MiB of VMEM (18.50 MiB used of 16.00 MiB): one operation was unrolled too far",
        )],
    );
}

#[test]
fn a_reshape_that_reads_a_padded_array_is_found_without_a_headline() {
    let text = "     Shape: f32[1024,2048]{1,0:T(8,128)}\n     Unpadded size: 8.00M\n     XLA label: %r = f32[1024,2048]{1,0:T(8,128)} reshape(f32[262144,8]{1,0:T(8,128)} %x)\n";
    let found = findings(text);
    assert_eq!(found.len(), 1);
    assert_eq!(
        found[0].title,
        "f32[262144,8] is padded 16-fold (8.00 MiB of elements take 128 MiB): axis 1 (size 8) is the minor one and takes 128 lanes"
    );
    assert_eq!(
        found[0].advice[0],
        "fold axis 1 into axis 0: [2097152] holds the same elements in 8.00 MiB"
    );
}

#[test]
fn a_convolution_with_few_channels_is_known_by_its_size() {
    // 2 of 128 lanes: 64 · 256 · 256 places of 128 lanes in f32 are 2 GiB.
    let text = "Program hbm requirement 2.10G:\n    HLO temp          2.10G (2.0% utilization: Unpadded (43.00M) Padded (2.10G), 0.0% fragmentation (0B))\n\n  Largest program allocations in hbm:\n\n  1. Size: 2.00G\n     Operator: op_type=\"conv_general_dilated\" op_name=\"jit(f)/conv_general_dilated[dimension_numbers=ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2)) lhs_shape=(64, 256, 256, 2) rhs_shape=(3, 3, 2, 4)]\"\n";
    let found = findings(text);
    assert_eq!(found.len(), 1);
    assert!(
        found[0].title.ends_with(
            "a convolution has channels of 2 (64x) and 4 (32x) where 128 lanes are filled"
        ),
        "{}",
        found[0].title
    );
}

#[test]
fn texts_that_only_sound_like_it_say_nothing() {
    for text in [
        "Attempting to reserve a table for two",
        "Shape: (8, 128)\nUnpadded size: none\n",
        "Ran out of memory in memory space",
        "3. Size: large\n",
        "Total items usage >= many\n",
    ] {
        assert_eq!(titles(text), [], "{text}");
    }
}
