//! Text evidence: step lines.

use std::fmt::Write as _;

use crate::cli::Folder;

#[test]
fn step_lines_give_the_utilisation_of_the_named_chip() {
    let mut log = String::new();
    for step in 0..20 {
        let seconds = if step == 0 { 40.0 } else { 2.0 };
        writeln!(
            log,
            "completed step: {step}, seconds: {seconds:.3}, TFLOP/s/device: 400.000, Tokens/s/device: 7000.000, loss: 2.1"
        )
        .expect("a string takes all");
    }
    let folder = Folder::new();
    folder.write("run.log", log.as_bytes());
    let shown = folder.run(&["analyze", "run.log", "--chip", "v6e"]).ok();
    assert!(
        shown.contains("2.00 s a step") && shown.contains("43.6 % MFU"),
        "{shown}"
    );
}
