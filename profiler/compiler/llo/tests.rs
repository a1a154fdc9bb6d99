//! Listings of kernels that the project wrote, compiled for v6e by libtpu 0.0.50.1 and trimmed by
//! hand: vector instructions are left out where a bundle has others, and comments but for regions.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// `matmul` of bf16[512,384] and bf16[384,256] in blocks of 128.
const MATMUL: &str = include_str!("testdata/matmul.bundles.txt");
/// Causal attention of bf16[1,2,512,128] in blocks of 128.
const CAUSAL: &str = include_str!("testdata/causal.bundles.txt");
/// `grouped_matmul` of bf16[512,256] with groups of 256, 128, 0 and 128 rows, in blocks of 128.
const GROUPED: &str = include_str!("testdata/grouped.bundles.txt");

/// Bytes of a block of bf16[128,128].
const BLOCK: u64 = 2 * 128 * 128;

fn setting() -> Setting {
    let mut setting = Setting::new(Memory {
        bytes_per_cycle: 800.0,
        latency_cycles: 900,
    });
    setting.step_limit = 1_000_000;
    setting
}

fn schedule_of(listing: &str, setting: &Setting) -> KernelSchedule {
    let file = (
        "1-kernel.1-02-final_bundles.txt".to_owned(),
        listing.to_owned(),
    );
    let (mut schedules, notes) = read([file], setting);
    assert_eq!(notes.iter().collect::<Vec<_>>(), []);
    assert_eq!(schedules.len(), 1);
    schedules.remove(0)
}

/// Bundles by hand, the first at address 0.
fn listing(bundles: &[&str]) -> String {
    let lines = bundles.iter().enumerate();
    lines
        .map(|(at, text)| format!("{at:#x} : {text}\n"))
        .collect()
}

#[test]
fn a_grid_loop_runs_once_per_step_and_twice_for_its_pipeline() {
    let schedule = schedule_of(MATMUL, &setting());
    let steps = 4 * 2 * 3;
    assert_eq!(schedule.basis, CycleBasis::Run);
    assert_eq!(schedule.unknown_decisions, 0);
    let trips: Vec<_> = schedule.loops.iter().map(|l| (l.bound, l.trips)).collect();
    assert_eq!(trips, [(Some(steps + 2), Some((steps + 2) as f64))]);
    // Each step has new blocks of both operands; a result is written after its three steps.
    assert_eq!(schedule.hbm_read_bytes, 2 * steps * BLOCK);
    assert_eq!(schedule.hbm_written_bytes, 4 * 2 * BLOCK);
    assert_eq!(schedule.transfers, 2 * steps + 4 * 2);
    // The first and last rounds of the pipeline skip what the static figure counts.
    assert!(schedule.busy_cycles < schedule.static_cycles);
}

#[test]
fn causal_blocks_above_the_diagonal_are_neither_brought_nor_run() {
    let schedule = schedule_of(CAUSAL, &setting());
    assert_eq!(schedule.unknown_decisions, 0);
    let heads = 2;
    let body = (heads * (1 + 2 + 3 + 4), heads * (3 + 2 + 1));
    let runs = schedule.regions.iter().map(|r| (r.entered, r.skipped));
    assert!(
        runs.into_iter().any(|run| run == body),
        "{:?}",
        schedule.regions
    );
    // The second row of blocks starts with the block that the first ended with.
    let keys = heads * (1 + 1 + 3 + 4);
    let queries = heads * 4;
    assert_eq!(schedule.hbm_read_bytes, (2 * keys + queries) * BLOCK);
    assert_eq!(schedule.hbm_written_bytes, queries * BLOCK);
}

#[test]
fn blocks_that_are_looked_up_are_known_once_the_table_is() {
    let mut setting = setting();
    setting.memory.bytes_per_cycle = 40.0;
    let unknown = schedule_of(GROUPED, &setting);
    assert!(unknown.unknown_decisions > 0);
    assert_eq!(unknown.unknown_trip_loops, 0);
    let owners = KnownScalars::from([(0, vec![0, 0, 1, 3])]);
    setting.scalars = BTreeMap::from([("kernel.1".to_owned(), owners)]);
    let known = schedule_of(GROUPED, &setting);
    assert_eq!(known.unknown_decisions, 0);
    // Two blocks of rows share a matrix, once for each of the two blocks of columns.
    assert_eq!(unknown.hbm_read_bytes - known.hbm_read_bytes, 2 * 2 * BLOCK);
    assert!(known.wait_cycles < unknown.wait_cycles);
}

#[test]
fn slower_memory_means_longer_waits_and_no_other_work() {
    let fast = schedule_of(MATMUL, &setting());
    let mut slow = setting();
    slow.memory.bytes_per_cycle = 40.0;
    let slow = schedule_of(MATMUL, &slow);
    assert_eq!(fast.busy_cycles, slow.busy_cycles);
    // Bound by transfers: all bytes pass one channel.
    let bytes = slow.hbm_read_bytes + slow.hbm_written_bytes;
    let least = bytes / 40;
    assert!(slow.cycles() > least && slow.cycles() < least + least / 5);
    assert!(fast.wait_cycles * 2 < slow.wait_cycles);
}

#[test]
fn loops_in_loops_multiply() {
    let text = listing(&[
        "{ %s1_s0 = smov 0 } /* Start region 1 */",
        "> { %s2_s0 = sphi %s1_s0, %s5_s0  ;;  %s3_s1 = smov 0 } /* Start region 2 */",
        "> > { %s4_s1 = sphi %s3_s1, %s6_s1 } /* Start region 3 */",
        "> > { %s6_s1 = sadd.s32 2, %s4_s1 }",
        "> > { %p1_p0 = scmp.ge.s32.totalorder %s6_s1, 10 /* loop exit test */ }",
        "> > { %1 = sbr.rel (!%p1_p0) target = $region3 }",
        "{}",
        "{}",
        "{}",
        "{}",
        "> { %s5_s0 = sadd.s32 1, %s2_s0 }",
        "> { %p2_p1 = scmp.ge.s32.totalorder %s5_s0, 3 /* loop exit test */ }",
        "> { %2 = sbr.rel (!%p2_p1) target = $region2 }",
        "{}",
        "{}",
        "{}",
        "{}",
        "{ %3 = sfence }",
    ]);
    let schedule = schedule_of(&text, &setting());
    let trips: Vec<_> = schedule.loops.iter().map(|l| l.trips).collect();
    // The inner loop counts by two, which its literal bound does not show.
    assert_eq!(trips, [Some(5.0), Some(3.0)]);
    assert_eq!(schedule.busy_cycles, 1 + 3 * (1 + 5 * 8 + 7) + 1);
    assert_eq!(schedule.static_cycles, 1 + 3 * (1 + 10 * 8 + 7) + 1);
}

#[test]
fn a_loop_that_data_ends_counts_once_and_says_so() {
    let bottom = listing(&[
        "{ %s1_s0 = sld [smem:[#allocation2]] }",
        "> { %s2_s1 = sphi %s9_s1, %s3_s1 } /* Start region 1 */",
        "> { %s3_s1 = sadd.s32 1, %s2_s1 }",
        "> { %p1_p0 = scmp.lt.s32.totalorder %s3_s1, %s1_s0 }",
        "> { %1 = sbr.rel (%p1_p0) target = $region1 }",
        "{}",
        "{}",
        "{}",
        "{}",
    ]);
    let top = listing(&[
        "{ %s1_s0 = sld [smem:[#allocation2]] }",
        "> { %p1_p0 = scmp.ge.s32.totalorder 3, %s1_s0 } /* Start region 1 */",
        "> { %1 = sbr.rel (%p1_p0) target = $region2 }",
        "> {}",
        "> {}",
        "> {}",
        "> {}",
        "> { %2 = sbr.rel target = $region1 }",
        "{}",
        "{}",
        "{}",
        "{}",
        "{ %3 = sfence } /* Start region 2 */",
    ]);
    for (text, cycles) in [(bottom, 9), (top, 13)] {
        let schedule = schedule_of(&text, &setting());
        assert_eq!(schedule.unknown_trip_loops, 1);
        assert_eq!(schedule.loops[0].trips, None);
        assert_eq!(
            (schedule.basis, schedule.busy_cycles),
            (CycleBasis::Run, cycles)
        );
    }
}

#[test]
fn a_wait_lasts_until_its_transfer_ends() {
    let text = listing(&[
        "{ %s1_s0 = inlined_call_operand.hbm [shape: bf16[8,128], index: 0, kind: input] }",
        "{ %1 = dma.hbm_to_vmem %s1_s0, 100, [#allocation1], [#allocation2] }",
        "{ %0 = vdelay 9 }",
        "{ %2 = dma.done.wait [#allocation2], 100 }",
        "{ %3 = dma.done.wait [#allocation2], 100 }",
    ]);
    let schedule = schedule_of(&text, &setting());
    assert_eq!(schedule.hbm_read_bytes, 3200);
    assert_eq!(schedule.busy_cycles, 5 + 9);
    // Issued in cycle 1, waited for in cycle 12; 4 cycles of data after the latency.
    assert_eq!(schedule.wait_cycles, 1 + 4 + 900 - 12);
}

#[test]
fn a_course_without_end_falls_back_to_literal_bounds() {
    let text = listing(&[
        "> { %s1_s0 = smov 1 } /* Start region 1 */",
        "> { %p1_p0 = scmp.ge.s32.totalorder %s1_s0, 7 }",
        "> { %1 = sbr.rel (!%p1_p0) target = $region1 }",
    ]);
    let file = ("1-k-02-final_bundles.txt".to_owned(), text);
    let (schedules, notes) = read([file], &setting());
    assert_eq!(schedules[0].basis, CycleBasis::Static);
    assert_eq!(schedules[0].cycles(), 3 * 7);
    assert!(notes.has_warnings());
}

#[test]
fn slots_count_as_often_as_they_are_issued() {
    let bundles = listing(&[
        "{ %s1_s0 = smov 0 }",
        "> { %s2_s0 = sphi %s1_s0, %s3_s0  ;;  %v1_v0 = vadd.f32 %v1_v0, %v1_v0 } /* Start region 1 */",
        "> { %s3_s0 = sadd.s32 1, %s2_s0 }",
        "> { %p1_p0 = scmp.ge.s32.totalorder %s3_s0, 9 }",
        "> { %1 = sbr.rel (!%p1_p0) target = $region1 }",
        "{}",
        "{}",
        "{}",
        "{}",
    ]);
    let header = "MXU, XLU, VALU, VPOP, EUP, VLOAD, VLOAD:FILL, VSTORE, VSTORE:SPILL, SALU";
    let rows = [
        "2 2 4 2 1 3 3 2 2 2",
        "0 0 0 0 0 0 0 0 0 1",
        "0 0 1 0 0 1 1 0 1 0",
    ];
    let mut table = format!("{header}\n{}\n", rows.join("\n"));
    table.push_str(&"0 0 0 0 0 0 0 0 0 0\n".repeat(7));
    let files = [
        ("1-k-02-final_bundles.txt", bundles),
        ("1-k-01-final_hlo-static-per-bundle-utilization.txt", table),
    ];
    let files = files.map(|(name, text)| (name.to_owned(), text));
    let (schedules, _) = read(files, &setting());
    let schedule = &schedules[0];
    assert_eq!(schedule.busy_cycles, 1 + 9 * 8);
    assert_eq!((schedule.spill_slots, schedule.fill_slots), (1, 1));
    assert_eq!(schedule.slots_of(Unit::Valu), 9.0 / (73.0 * 4.0));
    assert_eq!(schedule.slots_of(Unit::Salu), 1.0 / (73.0 * 2.0));
    assert_eq!(schedule.bottleneck, Some(Unit::VectorLoad));
}

/// Where a real listing is cut, doubled or garbled.
fn damaged() -> impl Strategy<Value = String> {
    let source = prop::sample::select(vec![MATMUL, CAUSAL, GROUPED]);
    let edits = prop::collection::vec((any::<prop::sample::Index>(), 0_u8..4, ".{0,12}"), 1..20);
    (source, edits).prop_map(|(source, edits)| {
        let mut lines: Vec<String> = source.lines().map(str::to_owned).collect();
        for (at, kind, text) in edits {
            let at = at.index(lines.len());
            match kind {
                0 => lines.truncate(at.max(1)),
                1 => lines.insert(at, text),
                2 => lines.swap(0, at),
                _ => {
                    let line = &mut lines[at];
                    let cut = line.len() / 2;
                    if line.is_char_boundary(cut) {
                        line.replace_range(cut..cut, &text);
                    }
                }
            }
        }
        lines.join("\n")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_text_panics(bundles in any::<String>(), table in any::<String>()) {
        let files = [
            ("1-k-02-final_bundles.txt".to_owned(), bundles),
            ("1-k-01-final_hlo-static-per-bundle-utilization.txt".to_owned(), table),
        ];
        read(files, &setting());
    }

    #[test]
    fn slots_of_any_kind_do_not_panic(slots in prop::collection::vec(
        "%[spv]?[0-9]{1,2}(_[sp][0-3])? = (smov|sadd.s32|smul.u32|sshll.u32|scmp.lt.u32|sphi|sld|sst|sbr.rel|\
         dma.hbm_to_vmem|dma.hbm_to_smem|dma.done.wait|pnand|smin.u32) (\\(!?%p[0-9]_p0\\))?,? ?\
         (%s[0-9]_s[0-3]|\\[smem:\\[#allocation[0-9] \\+ %s1_s0\\]\\]|[0-9]{1,20}|target = \\$region[0-3])\
         (, (%s[0-9]_s[0-3]|[0-9]{1,10}))?",
        1..60,
    )) {
        let lines = slots.iter().enumerate().map(|(at, slot)| {
            format!("{at:#x} : > {{ {slot} }} /* Start region {} */\n", at / 8)
        });
        let text: String = lines.collect();
        let mut setting = setting();
        setting.step_limit = 10_000;
        read([("1-k-02-final_bundles.txt".to_owned(), text)], &setting);
    }

    #[test]
    fn damage_never_panics_and_the_same_text_gives_the_same_schedule(text in damaged()) {
        let mut setting = setting();
        setting.step_limit = 100_000;
        let run = || read([("1-k-02-final_bundles.txt".to_owned(), text.clone())], &setting);
        prop_assert_eq!(run(), run());
    }
}
