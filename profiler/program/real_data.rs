//! Readers on real profiles: set `TPU_TUNE_REAL_PROFILES` to a folder with some, else all pass
//! without looking at anything.

use std::fs;
use std::path::{Path, PathBuf};

use crate::note::NoteLevel;
use crate::program::Program;
use crate::program::cost::{CostModel, lone_cost};
use crate::program::hlo_proto::read_hlo_proto;
use crate::program::hlo_text::{looks_like_hlo_text, parse_instruction, parse_module};
use crate::program::shape::MemorySpace;
use crate::units::Bytes;
use crate::wire::Message;

/// All files below the folder, sorted; none where the variable is not set.
fn files(wanted: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let Some(folder) = std::env::var_os("TPU_TUNE_REAL_PROFILES") else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if wanted(&path) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn named(path: &Path, end: &str) -> bool {
    path.to_string_lossy().ends_with(end)
}

#[test]
fn compiler_dumps_are_read_without_a_warning() {
    for path in files(|p| named(p, ".hlo") || named(p, "hlo_long_txt_jit_f.txt")) {
        let text = fs::read_to_string(&path).expect("a readable file");
        assert!(looks_like_hlo_text(text.as_bytes()), "{}", path.display());
        let (program, notes) = parse_module(&text);
        let notes: Vec<_> = notes.iter().collect();
        assert_eq!(notes, [], "{}", path.display());
        assert!(program.entry.is_some(), "{}", path.display());
        for (op, instruction) in program.ops() {
            assert!(
                instruction.opcode.is_known() || instruction.opcode.async_part().is_some(),
                "{} in {}",
                instruction.opcode,
                path.display()
            );
            for operand in &instruction.operands {
                assert!(
                    operand.op.is_some(),
                    "{} of {}",
                    operand.name,
                    instruction.name
                );
            }
            if instruction.metadata.stack_frame_id > 0 {
                assert!(!program.source(op).is_empty(), "{}", instruction.name);
            }
            let text = instruction.shape.to_string();
            assert_eq!(text.parse().as_ref(), Ok(&instruction.shape), "{text}");
        }
    }
}

/// The values of a string field in a trace's JSON, whatever surrounds them.
fn json_strings(json: &str, key: &str) -> Vec<String> {
    let key = format!("\"{key}\":");
    json.match_indices(&key)
        .filter_map(|(at, _)| {
            serde_json::Deserializer::from_str(&json[at + key.len()..])
                .into_iter::<String>()
                .next()?
                .ok()
        })
        .collect()
}

pub(super) fn trace_json(name: &str) -> Option<String> {
    let path = files(|p| named(p, name)).pop()?;
    let mut text = String::new();
    let file = fs::File::open(path).expect("a readable file");
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(file), &mut text)
        .expect("a gzip file");
    Some(text)
}

#[test]
fn every_long_name_of_a_trace_is_read() {
    let Some(json) = trace_json("tpu7x-vllm-bf16-step.trace.json.gz") else {
        return;
    };
    let names = json_strings(&json, "long_name");
    assert!(names.len() > 3000, "{}", names.len());
    for name in names {
        let op = parse_instruction(&name).expect(&name);
        assert!(op.opcode.is_known(), "{name}");
        assert!(
            op.operands.iter().all(|operand| operand.shape.is_some()),
            "{name}"
        );
    }
}

/// What shapes alone give must be what the compiler wrote beside the names.
#[test]
fn lone_ops_of_a_trace_agree_with_the_compilers_flops_and_bytes() {
    let Some(json) = trace_json("tpu7x-vllm-bf16-step.trace.json.gz") else {
        return;
    };
    let trace: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let (mut matmuls, mut all_bytes, mut other_bytes) = (0, 0, 0);
    for event in trace["traceEvents"].as_array().expect("events") {
        let args = &event["args"];
        let Some(name) = args["long_name"].as_str() else {
            continue;
        };
        let number = |key: &str| args[key].as_str().and_then(|v| v.parse::<f64>().ok());
        let op = parse_instruction(name).expect(name);
        let cost = lone_cost(&op);
        if args["hlo_category"] == "convolution fusion" {
            let flops = number("model_flops").expect("flops");
            let share = cost.matmul_flops / flops;
            assert!((0.995..=1.0).contains(&share), "{share} of {flops}: {name}");
            matmuls += 1;
        }
        // We count a copy once; of kernels the compiler says 0.
        let category = args["hlo_category"].as_str().unwrap_or_default();
        let compared = !matches!(
            category,
            "async-done" | "copy-start" | "copy-done" | "custom-call"
        );
        if let Some(bytes) = number("bytes_accessed").filter(|_| compared) {
            let ours = cost.traffic.total().0 as f64;
            if (ours - bytes).abs() > 0.001 * bytes {
                other_bytes += 1;
                // A body that slices its operand does not show from outside.
                assert!(
                    category == "loop fusion" && ours > bytes,
                    "{ours} for {bytes}: {name}"
                );
            }
            all_bytes += 1;
        }
    }
    assert_eq!((matmuls, all_bytes, other_bytes), (514, 4138, 128));
}

/// A loop over 48 steps, unrolled eight times, with a counter in two 32-bit halves.
#[test]
fn a_loop_without_a_known_trip_count_is_run() {
    let Some(path) = files(|p| named(p, "lstm_200.hlo")).pop() else {
        return;
    };
    let (program, _) = parse_module(&fs::read_to_string(path).expect("a readable file"));
    let op = program.find("while.2").expect("the loop");
    assert_eq!(program.get(op).and_then(|op| op.known_trip_count()), None);
    assert_eq!(program.trip_count(op), Some(6));
}

/// The HLO protos in an XSpace: `planes=1 / event_metadata=4 / value=2 / stats=5 / bytes=6`.
fn protos(space: &[u8]) -> Vec<&[u8]> {
    fn all(bytes: &[u8], wanted: u32) -> impl Iterator<Item = &[u8]> {
        let fields = Message::new(bytes).filter(move |&(field, _)| field == wanted);
        fields.map(|(_, value)| value.bytes())
    }
    let is_metadata = |plane: &&[u8]| {
        Message::new(plane).any(|(field, value)| field == 2 && value.text() == "/host:metadata")
    };
    all(space, 1)
        .filter(is_metadata)
        .flat_map(|plane| all(plane, 4))
        .flat_map(|entry| all(entry, 2))
        .flat_map(|metadata| all(metadata, 5))
        .flat_map(|stat| all(stat, 6))
        .collect()
}

#[test]
fn protos_of_a_profile_agree_with_the_memory_viewer_and_the_text() {
    let Some(path) = files(|p| named(p, "v6e-host-offload.xplane.pb")).pop() else {
        return;
    };
    let space = fs::read(path).expect("a readable file");
    let programs: Vec<_> = protos(&space).into_iter().map(read_hlo_proto).collect();
    assert_eq!(programs.len(), 4);
    for (program, notes) in &programs {
        assert!(notes.is_empty(), "{}: {notes:?}", program.name);
    }
    let jit_f = programs
        .iter()
        .map(|(program, _)| program)
        .find(|p| p.name == "jit_f");
    let program = jit_f.expect("jit_f");
    let buffers = program.buffers.as_ref().expect("buffers");
    let peak = buffers.peak(MemorySpace::Hbm, program).expect("a peak");
    let five_gib = Bytes(5 << 30);
    assert_eq!(peak.total(), Bytes(4 * (5 << 30) + 32));
    assert_eq!(peak.total_unpadded(), peak.total());
    let large: Vec<_> = peak
        .live
        .iter()
        .filter(|buffer| buffer.size == five_gib)
        .map(|buffer| {
            (
                buffer.id,
                buffer.op.and_then(|op| program.get(op)).map(|op| &*op.name),
            )
        })
        .collect();
    assert_eq!(
        large,
        [
            (14, Some("copy-start")),
            (22, Some("copy-start.2")),
            (30, Some("copy-start.4")),
            (16, Some("broadcast_add_fusion.2")),
        ]
    );
    let host = buffers.totals(MemorySpace::Host);
    assert_eq!(
        host.values().map(|bytes| bytes.0).sum::<u64>(),
        3 * five_gib.0,
        "{host:?}"
    );

    // The same module as text: same instructions, types, operands, costs.
    let Some(path) = files(|p| named(p, "hlo_long_txt_jit_f.txt")).pop() else {
        return;
    };
    let (text, _) = parse_module(&fs::read_to_string(path).expect("a readable file"));
    assert_eq!(text.len(), program.len());
    let (mut from_text, mut from_proto) = (CostModel::new(&text), CostModel::new(program));
    for (op, instruction) in text.ops() {
        let same = program
            .find(&instruction.name)
            .expect("the same instruction");
        let twin = program.get(same).expect("the same instruction");
        assert_eq!(
            (&twin.shape, &twin.opcode),
            (&instruction.shape, &instruction.opcode)
        );
        assert_eq!(twin.operands.len(), instruction.operands.len());
        assert_eq!(twin.called, instruction.called);
        assert_eq!(twin.estimated_cycles(), instruction.estimated_cycles());
        assert_eq!(
            from_text.cost(op),
            from_proto.cost(same),
            "{}",
            instruction.name
        );
    }
    assert_eq!(text.fingerprint(), program.fingerprint());
    let order = |program: &Program| -> Vec<String> {
        let entry = program.entry_computation().expect("an entry");
        entry
            .ops()
            .filter_map(|op| Some(program.get(op)?.name.clone()))
            .collect()
    };
    assert_eq!(order(&text), order(program));
    let fusion = program.find("broadcast_add_fusion").expect("the fusion");
    assert_eq!(
        program.get(fusion).and_then(|op| op.estimated_cycles()),
        Some(14_180_608)
    );
    let cost = from_proto.cost(fusion);
    assert_eq!(cost.flops, 5.0 * 1024.0 * 1024.0 * 256.0);
    assert_eq!(cost.traffic.hbm().total(), Bytes(2 * five_gib.0));
}

#[test]
fn fragments_from_bug_reports_give_what_can_be_read() {
    for path in files(|p| {
        p.parent()
            .is_some_and(|folder| folder.ends_with("cases/hlo"))
    }) {
        let text = fs::read_to_string(&path).expect("a readable file");
        let (program, notes) = parse_module(&text);
        let warnings = notes.iter().filter(|n| n.level == NoteLevel::Warning);
        assert!(
            warnings.map(|n| n.count).sum::<u64>() <= 2,
            "{}",
            path.display()
        );
        // One of them holds the tracing IR of a framework instead.
        let is_hlo = !named(&path, "ptxla_ir_nonzero_dynamic.txt");
        assert_eq!(program.is_empty(), !is_hlo, "{}", path.display());
        assert_eq!(
            looks_like_hlo_text(text.as_bytes()),
            is_hlo,
            "{}",
            path.display()
        );
    }
}
