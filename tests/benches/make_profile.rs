//! Writes a long TPU-shaped profile: `make_profile STEPS OUT.xplane.pb [OUT.trace.json]`.
//!
//! Fit for measuring speed, not for advice: its durations are modelled.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    missing_docs,
    reason = "a tool for benchmarks"
)]

#[path = "../support/mod.rs"]
mod support;

fn main() {
    let mut args = std::env::args().skip(1);
    let usage = "usage: make_profile STEPS OUT.xplane.pb [OUT.trace.json]";
    let steps = args.next().and_then(|n| n.parse().ok()).expect(usage);
    let profile = support::scenarios::long_run(steps);
    let bytes = support::xspace::to_bytes(&profile);
    let path = args.next().expect(usage);
    std::fs::write(&path, &bytes).expect("writable");
    let events: usize = profile.devices.iter().map(|device| device.ops.len()).sum();
    println!(
        "{path}: {} bytes, {events} operations on 4 devices",
        bytes.len()
    );
    if let Some(path) = args.next() {
        let text = support::trace_json::to_string(&profile);
        std::fs::write(&path, &text).expect("writable");
        println!("{path}: {} bytes", text.len());
    }
}
