//! `tpu-tune memory` on allocations that are known.

use super::Folder;
use crate::support::profile::{HostEvent, HostThread, TpuProfile, ms};
use crate::support::{fixture_bytes, scenarios};

const GIB: i64 = 1 << 30;

/// Two devices of 32 GiB: the second is fullest at the third event, 20 GiB of them stacks.
fn with_memory() -> TpuProfile {
    let mut profile = scenarios::train_step_fsdp();
    let sample = |device: i64, at: u64, in_use: i64, reserved: i64| HostEvent {
        name: "MemoryAllocation".to_owned(),
        start: ms(at),
        duration: 0,
        stats: vec![
            ("index_on_host", device),
            ("bytes_allocated", in_use),
            ("bytes_reserved", reserved),
            ("bytes_available", 32 * GIB - in_use - reserved),
            ("peak_bytes_in_use", 9 * GIB),
        ],
    };
    let events = vec![
        sample(0, 1, GIB, 0),
        sample(1, 2, 2 * GIB, 0),
        sample(1, 3, GIB, 20 * GIB),
        sample(1, 4, 3 * GIB, 0),
        sample(0, 9, 8 * GIB, 0),
    ];
    profile.host_threads.push(HostThread {
        name: "allocator".to_owned(),
        events,
    });
    profile
}

#[test]
fn the_fullest_moment_of_each_device_is_found() {
    let folder = Folder::with(&with_memory());
    let json = folder
        .run(&["memory", "run.xplane.pb", "--format", "json"])
        .json();
    let gib = GIB as u64;
    let [first, second] = [&json["allocators"][0], &json["allocators"][1]];
    assert_eq!(json["allocators"].as_array().map(Vec::len), Some(2));
    assert_eq!(first["peak_bytes"], 8 * gib);
    assert_eq!(second["peak_bytes"], 21 * gib);
    assert_eq!(second["peak_heap_bytes"], gib);
    assert_eq!(second["peak_reserved_bytes"], 20 * gib);
    assert_eq!(second["peak_free_bytes"], 11 * gib);
    assert_eq!(second["capacity_bytes"], 32 * gib);
    assert_eq!(second["lifetime_peak_bytes"], 9 * gib);
}

#[test]
fn the_chart_shows_the_fullest_device() {
    let folder = Folder::with(&with_memory());
    let text = folder.run(&["memory", "run.xplane.pb"]).ok();
    assert!(
        text.contains("21.0 GiB") && text.contains("65.6 %"),
        "{text}"
    );
    let rows: Vec<&str> = text.lines().filter(|line| line.contains(" |")).collect();
    assert_eq!(rows.len(), 8, "{text}");
    // 21 of 32 GiB fill five rows of eight; only in the middle of the time.
    let filled = rows.iter().filter(|row| row.contains('#')).count();
    assert_eq!(filled, 5, "{text}");
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    let markdown = folder
        .run(&["memory", "run.xplane.pb", "--format", "markdown"])
        .ok();
    assert!(markdown.contains("| host | device | peak |"), "{markdown}");
}

#[test]
fn what_the_compiler_planned_is_shown_from_its_proto_alone() {
    let folder = Folder::new();
    let proto = fixture_bytes("hlo/mlp_fsdp_v6e.hlo_proto.pb");
    folder.write("program.hlo_proto.pb", &proto);
    let args = ["memory", "program.hlo_proto.pb"];
    let json = folder
        .run(&[&args[..], &["--format", "json"]].concat())
        .json();
    let program = &json["programs"][0];
    let bytes = |value: &serde_json::Value, key: &str| value[key].as_u64().expect("bytes");
    let live = program["live_at_peak"].as_array().expect("buffers");
    let sum: u64 = live.iter().map(|buffer| bytes(buffer, "bytes")).sum();
    assert_eq!(
        sum,
        bytes(program, "peak_bytes"),
        "the buffers make up the peak"
    );
    let (temps, fixed) = (
        bytes(program, "temporary_bytes"),
        bytes(program, "indefinite_bytes"),
    );
    assert_eq!(temps + fixed, bytes(program, "peak_bytes"));
    assert!(bytes(program, "temporary_unpadded_bytes") <= temps);
    assert!(live.is_sorted_by(|a, b| bytes(a, "bytes") >= bytes(b, "bytes")));
    let text = folder.run(&args).ok();
    assert!(text.contains("as the compiler planned it"), "{text}");
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    folder
        .run(&[&args[..], &["--module", "jit_other"]].concat())
        .refused(&["no program", program["name"].as_str().expect("a name")]);
}

#[test]
fn a_profile_without_memory_events_is_told_so() {
    let folder = Folder::with(&scenarios::decode());
    folder
        .run(&["memory", "run.xplane.pb"])
        .refused(&["no memory events", "xplane.pb"]);
}
