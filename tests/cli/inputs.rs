//! Bad inputs: each is told what is wrong and what to do, and nothing is ever written.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use prost::Message as _;

use super::Folder;
use crate::support::profile::TpuProfile;
use crate::support::{fixture, scenarios, trace_json, xspace};

#[test]
fn a_file_that_is_no_profile_is_refused_with_a_reason() {
    let folder = Folder::new();
    let random: Vec<u8> = (0..4096).map(|i| xspace::mix(i).to_le_bytes()[3]).collect();
    folder.write("empty.xplane.pb", b"");
    folder.write("random.xplane.pb", &random);
    folder.write("notes.txt", b"Monday: ask for a faster TPU.\n");
    folder.write(
        "riegeli",
        &[0x83, 0xaf, 0x70, 0xd1, 0x0d, 0x88, 0x4a, 0x3f, 0, 0, 0, 0],
    );
    folder.write("damaged.gz", &[0x1f, 0x8b, 8, 0, 0, 0]);
    folder.write("nothing/readme.md", b"# no profile here\n");
    for (path, words) in [
        ("empty.xplane.pb", &["0 bytes", "trace.json.gz"][..]),
        ("random.xplane.pb", &["not a profile"]),
        ("notes.txt", &["is text in which", "metrics report"]),
        ("riegeli", &["Riegeli", "convert"]),
        ("damaged.gz", &["gzip"]),
        ("nothing", &["holds no profile", "plugins/profile"]),
        ("missing.xplane.pb", &["cannot read", "No such file"]),
    ] {
        for command in ["analyze", "ops", "steps", "memory"] {
            let ran = folder.run(&[command, path]);
            ran.refused(words);
            assert!(ran.err.contains(path), "{}", ran.err);
        }
        folder.run(&["diff", path, path]).refused(words);
    }
}

#[test]
fn a_text_that_says_nothing_beside_one_that_does_is_a_note() {
    let folder = Folder::new();
    folder.write("notes.txt", b"Monday: bought milk\n");
    let text = b"RESOURCE_EXHAUSTED: Attempting to allocate 9.00M. That was not possible. There are 4.00M free.\n";
    folder.write("run.log", text);
    let args = ["analyze", "notes.txt", "run.log", "--format", "json"];
    let report = folder.run(&args).json();
    assert_eq!(report["notes"][0]["code"], "nothing-in-text");
    assert_eq!(report["inputs"].as_array().map(Vec::len), Some(1));
    assert!(!report["findings"].as_array().expect("a list").is_empty());
    folder
        .run(&["analyze", "notes.txt", "run.log", "--strict"])
        .refused(&["notes.txt"]);
}

#[cfg(unix)]
#[test]
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn a_file_that_may_not_be_read_is_refused() {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::with(&scenarios::host_offload());
    let path = folder.path().join("run.xplane.pb");
    std::fs::set_permissions(&path, Permissions::from_mode(0o000)).expect("own file");
    if std::fs::File::open(&path).is_ok() {
        eprintln!("SKIPPED: this user may read everything");
        return;
    }
    folder
        .run(&["analyze", "run.xplane.pb"])
        .refused(&["cannot read", "ermission"]);
}

#[test]
fn a_gzip_bomb_is_refused_quickly() {
    let folder = Folder::new();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gz.write_all(b"{\"traceEvents\": [").expect("memory");
    let spaces = vec![b' '; 1 << 20];
    for _ in 0..300 {
        gz.write_all(&spaces).expect("memory");
    }
    folder.write("bomb.trace.json.gz", &gz.finish().expect("memory"));
    let begin = Instant::now();
    folder
        .run(&["analyze", "bomb.trace.json.gz"])
        .refused(&["gzip bomb"]);
    assert!(begin.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_truncated_profile_is_read_as_far_as_it_goes() {
    let folder = Folder::new();
    let bytes = xspace::to_bytes(&scenarios::train_step_fsdp());
    folder.write("cut.xplane.pb", &bytes[..bytes.len() * 7 / 10]);
    let report = folder.run(&["analyze", "cut.xplane.pb"]).ok();
    assert!(report.contains("warning"), "{report}");
    let ops = folder.run(&["ops", "cut.xplane.pb"]);
    assert_eq!(ops.code, 0);
    assert!(ops.err.starts_with("warning: "), "{}", ops.err);
    for command in ["analyze", "ops", "steps"] {
        folder
            .run(&[command, "--strict", "cut.xplane.pb"])
            .refused(&["--strict"]);
    }
}

#[test]
fn a_profile_that_went_through_text_is_refused() {
    let folder = Folder::new();
    let bytes = xspace::to_bytes(&scenarios::sample());
    let mangled = String::from_utf8_lossy(&bytes).into_owned();
    folder.write("mangled.xplane.pb", mangled.as_bytes());
    folder
        .run(&["analyze", "mangled.xplane.pb"])
        .refused(&["lossy UTF-8", "binary mode"]);
}

/// The profile with its device planes renamed, or without them where that is `None`.
fn with_planes(profile: &TpuProfile, rename: impl Fn(&str) -> Option<String>) -> Vec<u8> {
    let mut space = xspace::to_xspace(profile);
    space.planes.retain_mut(|plane| {
        let is_device = plane.name.starts_with("/device:");
        match is_device.then(|| rename(&plane.name)) {
            None => true,
            Some(None) => false,
            Some(Some(name)) => {
                plane.name = name;
                true
            }
        }
    });
    space.encode_to_vec()
}

#[test]
fn a_gpu_profile_is_called_one() {
    let folder = Folder::new();
    let gpu = |name: &str| Some(name.replace("TPU", "GPU"));
    let bytes = with_planes(&scenarios::host_offload(), gpu);
    folder.write("gpu.xplane.pb", &bytes);
    let words = ["/device:GPU:0", "no /device:TPU plane"];
    for command in ["analyze", "ops", "steps", "memory"] {
        folder.run(&[command, "gpu.xplane.pb"]).refused(&words);
    }
    folder
        .run(&["diff", "gpu.xplane.pb", "gpu.xplane.pb"])
        .refused(&words);
}

#[test]
fn a_profile_of_the_host_alone_is_told_from_a_tpu_profile() {
    let folder = Folder::new();
    folder.write(
        "host.xplane.pb",
        &with_planes(&scenarios::sample(), |_| None),
    );
    folder
        .run(&["analyze", "host.xplane.pb"])
        .refused(&["no TPU plane", "only host threads"]);
    folder
        .run(&["ops", "host.xplane.pb"])
        .refused(&["no device operations"]);
    folder
        .run(&["steps", "host.xplane.pb"])
        .refused(&["no device events"]);
}

#[test]
fn a_cpu_profile_is_read_but_not_analyzed() {
    let folder = Folder::new();
    let cpu = fixture("profiles/jax_cpu.xplane.pb").display().to_string();
    folder
        .run(&["analyze", &cpu])
        .refused(&["no TPU plane", "XLA on a CPU", "`tpu-tune ops`"]);
    let ops = folder.run(&["ops", &cpu]);
    assert_eq!(ops.code, 0, "{}", ops.err);
    assert!(ops.out.contains("dot"), "{}", ops.out);
    assert_eq!(folder.run(&["steps", &cpu]).code, 0);
}

#[test]
fn two_runs_at_once_are_sent_to_diff() {
    let folder = Folder::with(&scenarios::host_offload());
    folder.write("other.xplane.pb", &xspace::to_bytes(&scenarios::healthy()));
    folder
        .run(&["analyze", "run.xplane.pb", "other.xplane.pb"])
        .refused(&["different runs", "tpu-tune diff"]);
}

#[test]
fn hosts_without_a_common_program_are_doubted() {
    let folder = Folder::with(&scenarios::host_offload());
    let mut other = scenarios::healthy().on_host(1);
    for program in &mut other.programs {
        program.name = "jit_another".to_owned();
        program.id ^= 0x5555;
    }
    folder.write("other.xplane.pb", &xspace::to_bytes(&other));
    let both = ["analyze", "run.xplane.pb", "other.xplane.pb"];
    let warned = folder.run(&both).ok();
    let warned = warned.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(warned.contains("no program in common"), "{warned}");
    let [first, second] = scenarios::two_hosts();
    folder.write("h0.xplane.pb", &xspace::to_bytes(&first));
    folder.write("h1.xplane.pb", &xspace::to_bytes(&second));
    let one_run = folder
        .run(&["analyze", "h0.xplane.pb", "h1.xplane.pb"])
        .ok();
    assert!(!one_run.contains("no program in common"), "{one_run}");
}

#[test]
fn a_program_alone_has_operations_and_steps_for_a_named_chip() {
    let program = fixture("hlo/decode_v6e.after_optimizations.txt");
    let program = program.to_str().expect("UTF-8");
    let folder = Folder::new();
    for command in ["ops", "steps", "analyze"] {
        folder.run(&[command, program]).refused(&["--chip"]);
        folder.run(&[command, program, "--chip", "v6e"]).ok();
    }
}

#[test]
fn of_a_log_directory_the_newest_run_is_read_or_the_one_that_was_named() {
    let folder = Folder::new();
    let old = xspace::to_bytes(&scenarios::healthy());
    let new = xspace::to_bytes(&scenarios::host_offload());
    folder.write("logs/plugins/profile/2026_01_01_00_00_00/h.xplane.pb", &old);
    folder.write("logs/plugins/profile/2026_01_02_00_00_00/h.xplane.pb", &new);
    let newest = folder.run(&["analyze", "logs"]).ok();
    assert!(
        newest.contains("2026_01_02") && newest.contains("TT301"),
        "{newest}"
    );
    let named = folder
        .run(&["analyze", "logs", "--run", "2026_01_01_00_00_00"])
        .ok();
    assert!(!named.contains("TT301"), "{named}");
    folder
        .run(&["analyze", "logs", "--run", "2025"])
        .refused(&["no run", "2026_01_01_00_00_00, 2026_01_02_00_00_00"]);
}

#[test]
fn an_empty_xplane_is_replaced_by_the_trace_beside_it() {
    let folder = Folder::new();
    folder.write("run/h.xplane.pb", b"");
    let trace = trace_json::to_string(&scenarios::host_offload());
    folder.write("run/h.trace.json", trace.as_bytes());
    let report = folder.run(&["analyze", "run"]).ok();
    assert!(
        report.contains("is empty") && report.contains("TT301"),
        "{report}"
    );
}

/// Every file below a folder, with its time and bytes.
fn contents(folder: &Path) -> BTreeMap<String, (SystemTime, Vec<u8>)> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let time = path.metadata().and_then(|m| m.modified()).expect("a time");
            let bytes = if path.is_dir() {
                folders.push(path.clone());
                Vec::new()
            } else {
                std::fs::read(&path).expect("a file")
            };
            files.insert(path.display().to_string(), (time, bytes));
        }
    }
    files
}

#[test]
fn nothing_is_written_beside_the_input() {
    let folder = Folder::new();
    let bytes = xspace::to_bytes(&scenarios::sample());
    folder.write(
        "logs/plugins/profile/2026_01_01_00_00_00/h.xplane.pb",
        &bytes,
    );
    let before = contents(folder.path());
    for args in [
        &["analyze", "logs"][..],
        &["analyze", "logs", "--format", "sarif"],
        &["ops", "logs"],
        &["steps", "logs"],
        &["memory", "logs"],
        &["diff", "logs", "logs"],
    ] {
        folder.run(args);
    }
    assert_eq!(before, contents(folder.path()));
}

/// A module whose entry calls what calls eight times what calls eight times …, to `levels`.
fn nested_calls(levels: usize) -> String {
    let mut text =
        "HloModule nested\n\n%c0 (x: s32[]) -> s32[] {\n  ROOT %x0 = s32[] parameter(0)\n}\n"
            .to_owned();
    for level in 1..=levels {
        let below = level - 1;
        text += &format!("\n%c{level} (x: s32[]) -> s32[] {{\n  %x{level} = s32[] parameter(0)\n");
        for call in 0..8 {
            text += &format!("  %k{level}_{call} = s32[] call(%x{level}), to_apply=%c{below}\n");
        }
        text += &format!("  ROOT %r{level} = (s32[]) tuple(%x{level})\n}}\n");
    }
    text + &format!(
        "\nENTRY %main (a: s32[]) -> s32[] {{\n  %a = s32[] parameter(0)\n  ROOT %k = s32[] call(%a), to_apply=%c{levels}\n}}\n"
    )
}

const EMPTY_LOOP: &str = r#"HloModule empty, is_scheduled=true

%body (p: (s32[])) -> (s32[]) {
  %p = (s32[]) parameter(0)
  %g = s32[] get-tuple-element(%p), index=0
  ROOT %t = (s32[]) tuple(%g)
}

%cond (q: (s32[])) -> pred[] {
  %q = (s32[]) parameter(0)
  ROOT %c = pred[] constant(true)
}

ENTRY %main (a: s32[]) -> s32[] {
  %a = s32[] parameter(0)
  %t0 = (s32[]) tuple(%a)
  %w = (s32[]) while(%t0), condition=%cond, body=%body, backend_config={"known_trip_count":{"n":"1000000000000000000"}}
  ROOT %r = s32[] get-tuple-element(%w), index=0
}
"#;

#[test]
fn programs_that_would_run_for_ever_are_priced_all_the_same() {
    let folder = Folder::new();
    folder.write("loop.hlo.txt", EMPTY_LOOP.as_bytes());
    folder.write("calls.hlo.txt", nested_calls(14).as_bytes());
    for name in ["loop.hlo.txt", "calls.hlo.txt"] {
        let begin = Instant::now();
        folder.run(&["analyze", name, "--chip", "v6e"]);
        assert!(begin.elapsed() < Duration::from_secs(20), "{name}");
    }
}

#[test]
fn of_a_conditional_the_cheapest_branch_is_priced() {
    let folder = Folder::new();
    let text = "HloModule choice, is_scheduled=true

%dear (x: bf16[4096,4096]) -> bf16[4096,4096] {
  %x = bf16[4096,4096]{1,0} parameter(0)
  %n = bf16[4096,4096]{1,0} negate(%x)
  ROOT %dear_abs = bf16[4096,4096]{1,0} abs(%n)
}

%cheap (y: bf16[4096,4096]) -> bf16[4096,4096] {
  %y = bf16[4096,4096]{1,0} parameter(0)
  ROOT %cheap_abs = bf16[4096,4096]{1,0} abs(%y)
}

ENTRY %main (p: pred[], z: bf16[4096,4096]) -> bf16[4096,4096] {
  %p = pred[] parameter(0)
  %z = bf16[4096,4096]{1,0} parameter(1)
  ROOT %c = bf16[4096,4096]{1,0} conditional(%p, %z, %z), true_computation=%dear, false_computation=%cheap
}
";
    folder.write("choice.hlo.txt", text.as_bytes());
    let ran = folder.run(&["analyze", "choice.hlo.txt", "--chip", "v6e"]);
    // 64 MiB through HBM once, not twice.
    assert!(ran.out.contains("0.041 ms"), "{}{}", ran.out, ran.err);
}
