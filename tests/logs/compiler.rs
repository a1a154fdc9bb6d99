//! Text evidence: the compiler.

use crate::cli::Folder;

#[test]
fn warnings_of_the_partitioner_are_told_in_words() {
    let text = include_str!("../fixtures/logs/memory/spmd_gspmd_jax_0_12.txt");
    let folder = Folder::new();
    folder.write("run.log", text.as_bytes());
    let out = folder.run(&["analyze", "run.log", "-v"]).ok();
    let out = out.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "TL401 low",
        "at reshape (jit(g)/reshape)",
        "from axis 0 over 8 devices",
        "to axis 1 over 4 devices and axis 2 over 2 devices",
        "run.log:2",
    ] {
        assert!(out.contains(words), "no {words:?} in:\n{out}");
    }
}
