//! Texts of real compilers, and texts that nobody wrote.

use std::path::Path;

use proptest::prelude::*;

use crate::logs::out_of_memory::{Cause, OutOfMemory, Role, Space};
use crate::logs::{Logs, read};
use crate::note::Notes;

fn reports(text: &str) -> Vec<OutOfMemory> {
    let mut logs = Logs::default();
    let mut notes = Notes::default();
    read(Path::new("run.log"), text.as_bytes(), &mut logs, &mut notes);
    logs.out_of_memory.reports
}

#[test]
fn a_table_is_read_whole() {
    let found = reports(include_str!(
        "../../../tests/fixtures/logs/memory/hbm_table_channels.txt"
    ));
    let [report] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!((report.at.line, &report.space), (2, &Space::Hbm));
    let shown = |name: &str| report.row(name).map(ToString::to_string);
    assert_eq!(shown("reserved").as_deref(), Some("530.00 MiB"));
    assert_eq!(shown("arguments").as_deref(), Some("4.50 GiB"));
    assert_eq!(shown("HLO temp").as_deref(), Some("16.02 GiB"));
    let utilization = report.utilization.as_ref().expect("it is there");
    assert_eq!(utilization.percent, 51.6);
    let fragmentation = utilization.fragmentation.as_ref().map(ToString::to_string);
    assert_eq!(fragmentation.as_deref(), Some("3.20 MiB"));
    assert_eq!(report.allocations.len(), 3);
    let first = &report.allocations[0];
    let padding = first.padding().expect("it pads");
    assert_eq!((padding.factor, padding.axes[0].role), (32.0, Role::Lanes));
    assert!(padding.agrees_with(first.expansion.expect("stated")));
    // What the report says of bytes follows from the layout.
    let array = &padding.array;
    assert_eq!(
        array.padded_bytes(),
        first.size.as_ref().expect("stated").bytes
    );
    assert_eq!(
        array.bytes(),
        first.unpadded.as_ref().expect("stated").bytes
    );
    assert_eq!(first.kind, "HLO temp");
    assert!(report.allocations[2].padding().is_none());
}

#[test]
fn tiles_that_are_not_printed_follow_from_the_stated_factor() {
    let text = "1. Size: 1.00G\n Shape: f32[256,64,128,2]{3,2,1,0}\n Unpadded size: 16.00M\n Extra memory due to padding: 1008.00M (64.0x expansion)\n";
    let found = reports(text);
    let padding = found[0].allocations[0].padding().expect("it pads");
    assert!(!padding.tiles_printed);
    assert_eq!((padding.factor, padding.axes[0].axis), (64.0, 3));
    // No tile gives this factor: nothing is said.
    let odd = reports(&text.replace("64.0x", "7.3x"));
    assert_eq!(odd[0].allocations[0].padding(), None);
}

#[test]
fn a_sentence_broken_over_lines_is_one() {
    let text = "CompileTimeScopedVmemOom: Ran out of memory in memory space vmem while allocating on stack for\n%k.1 = bf16[1,16]{1,0} custom-call(%x). Scoped allocation with size\n9.50M and limit 8.00M exceeded scoped vmem limit by 1.50M.\n";
    let found = reports(text);
    assert_eq!(found.len(), 1);
    assert!(
        matches!(&found[0].cause, Cause::Scoped { over, .. } if over.to_string() == "1.50 MiB")
    );
    assert_eq!(found[0].program, "%k.1 = bf16[1,16]");
}

/// Pieces of reports, to be mixed.
const PIECES: [&str; 16] = [
    "Ran out of memory in memory space hbm. Used 2.0G of 1.0G hbm. Exceeded hbm capacity by 1.0G.",
    "Ran out of memory in memory space vmem",
    "Scoped allocation with size 9M and limit 8M exceeded scoped vmem limit by 1M.",
    "Attempting to reserve 6.0G at the bottom of memory. That was not possible. There are ",
    "5.0G free, 0B reserved, and 3.0G reservable.",
    "Total hbm usage >= 1.0G:",
    "    arguments     unknown size",
    "Program hbm requirement 99999999999999999999G:",
    "    HLO temp  1.0G (1e9% utilization: Unpadded (1G) Padded (",
    "  1. Size: 4.0G",
    "     Shape: f32[99999999999,99999999999,2]{2,1,0:T(8,128)(2,1)}",
    "     Shape: f32[0,1]{0,1:T(0,128)}",
    "     Extra memory due to padding: 1G (nanx expansion)",
    "     XLA label: %a = bf16[8,4]{1,0:T(*,128)} reshape(bf16[32]{0} %b",
    "     Operator: op_name=\"conv_general_dilated[lhs_shape=(0,0) rhs_shape=() lhs_spec=(9,9,9) rhs_spec=(1)]\"",
    "[spmd] Involuntary full rematerialization. The compiler cannot go from sharding {devices=[2,1]<=[2]} to {{}",
];

proptest! {
    #[test]
    fn no_order_of_pieces_panics(order in prop::collection::vec((0..PIECES.len(), 0usize..90), 0..40)) {
        let mut text = String::new();
        for (piece, cut) in order {
            let piece = PIECES[piece];
            // Some pieces are cut.
            let end = if cut > 60 { piece.len().min(cut) } else { piece.len() };
            text.push_str(piece.get(..end).unwrap_or(piece));
            text.push('\n');
        }
        for report in reports(&text) {
            for allocation in &report.allocations {
                let _ = (allocation.padding().and_then(|p| p.rearranged()), allocation.padded_operands(), allocation.convolution_channels());
            }
        }
    }

    #[test]
    fn no_text_panics(text in "(Shape: |Size: |\\. Size: |free, |Used |to reserve |devices=|\\[|\\]|\\{|\\}|=|--|:|,|[0-9.GMK]{1,5}|\\PC){0,60}") {
        for prefix in ["Attempting to reserve ", "Ran out of memory in memory space ", "Allocation (size=", "Involuntary full rematerialization. go from sharding ", "  1. Size: ", "Constant folding an instruction is taking > ", "--xla_", "ici_fsdp_parallelism", "The operation took "] {
            let _ = reports(&format!("{prefix}{text}\nShape: {text}\nXLA label: {text}\n"));
        }
    }
}
