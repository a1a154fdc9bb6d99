//! Text evidence: JAX.

use crate::cli::Folder;
use crate::support::fixture_bytes;

#[test]
fn a_log_with_late_compilations_fails_and_a_steady_one_does_not() {
    let folder = Folder::new();
    folder.write("late.log", &fixture_bytes("logs/jax/late_0.12.log"));
    folder.write("steady.log", &fixture_bytes("logs/jax/steady_0.12.log"));
    let late = folder.run(&["analyze", "late.log", "--fail-on", "high"]);
    assert_eq!(late.code, 1, "{late:?}");
    assert!(
        late.out.contains("the shape of tokens changes"),
        "{}",
        late.out
    );
    let steady = folder.run(&["analyze", "steady.log", "--fail-on", "low"]);
    assert_eq!(steady.code, 0, "{steady:?}");
}
