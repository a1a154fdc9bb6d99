//! A reader of optimized HLO text, enough to write profiles from real programs.
//!
//! Works line by line on what the compiler prints, which is one instruction a
//! line; it is no parser for hand-written HLO.

use std::collections::BTreeMap;

/// A compiled module.
#[derive(Clone, Debug)]
pub struct Module {
    pub name: String,
    /// By name; see [`Module::entry`].
    pub computations: BTreeMap<String, Computation>,
    pub entry: String,
    frames: BTreeMap<u64, Frame>,
}

/// A computation and its instructions in schedule order.
#[derive(Clone, Debug)]
pub struct Computation {
    pub instructions: Vec<Instruction>,
}

/// One instruction.
#[derive(Clone, Debug)]
pub struct Instruction {
    pub name: String,
    pub shape: String,
    pub opcode: String,
    pub operands: Vec<String>,
    /// What stands after the operands, without metadata and backend configuration.
    pub attributes: String,
    pub op_name: Option<String>,
    pub stack_frame: Option<u64>,
    pub backend_config: String,
    /// Its place in the module, from 1: what a profile calls the symbol id.
    pub symbol: u64,
    pub is_root: bool,
}

#[derive(Clone, Debug)]
struct Frame {
    location: String,
    column: u64,
    parent: u64,
}

impl Module {
    /// The module of `fixtures/hlo/NAME.after_optimizations.txt`.
    pub fn fixture(name: &str) -> Self {
        Self::parse(&super::fixture_text(&format!(
            "hlo/{name}.after_optimizations.txt"
        )))
    }

    /// Reads the text of a module.
    pub fn parse(text: &str) -> Self {
        let name = text
            .strip_prefix("HloModule ")
            .and_then(|rest| rest.split([',', ' ', '\n']).next())
            .expect("HLO text begins with `HloModule NAME`")
            .to_owned();
        let mut module = Self {
            name,
            computations: BTreeMap::new(),
            entry: String::new(),
            frames: frames(text),
        };
        let mut current: Option<(String, Vec<Instruction>)> = None;
        let mut symbol = 0;
        for line in text.lines() {
            // A computation may end `}, execution_thread="sparsecore"`.
            if line.starts_with('}') {
                if let Some((name, instructions)) = current.take() {
                    module
                        .computations
                        .insert(name, Computation { instructions });
                }
            } else if let Some((_, instructions)) = &mut current {
                symbol += 1;
                instructions.extend(Instruction::parse(line, symbol));
            } else if line.ends_with('{') && line.contains("->") {
                let (is_entry, header) = match line.strip_prefix("ENTRY ") {
                    Some(rest) => (true, rest),
                    None => (false, line),
                };
                let name = header
                    .trim_start_matches('%')
                    .split([' ', '('])
                    .next()
                    .unwrap_or("");
                if is_entry {
                    module.entry = name.to_owned();
                }
                current = Some((name.to_owned(), Vec::new()));
            }
        }
        module
    }

    /// The entry computation.
    pub fn entry(&self) -> &Computation {
        self.computation(&self.entry)
    }

    /// A computation that must be there.
    pub fn computation(&self, name: &str) -> &Computation {
        self.computations
            .get(name)
            .unwrap_or_else(|| panic!("no computation {name:?}"))
    }

    /// The computations whose instructions run as operations of their own: the
    /// entry and the bodies of loops, not what is fused or applied.
    pub fn scheduled(&self) -> Vec<&Computation> {
        let mut names = vec![self.entry.as_str()];
        let mut next = 0;
        while let Some(name) = names.get(next).copied() {
            next += 1;
            for instruction in &self.computation(name).instructions {
                for key in ["condition", "body", "branch_computations", "to_apply"] {
                    if instruction.opcode == "while"
                        || instruction.opcode == "conditional"
                        || instruction.opcode == "call"
                    {
                        names.extend(instruction.callee(key));
                    }
                }
            }
        }
        names
            .into_iter()
            .map(|name| self.computation(name))
            .collect()
    }

    /// An instruction that must be there, wherever it is scheduled.
    pub fn instruction(&self, name: &str) -> (&Computation, &Instruction) {
        self.computations
            .values()
            .find_map(|c| Some((c, c.instructions.iter().find(|i| i.name == name)?)))
            .unwrap_or_else(|| panic!("no instruction {name:?} in {}", self.name))
    }

    /// Where an instruction was written: `("/tmp/model/train.py:12", stack)`,
    /// the stack innermost first with columns, as libtpu writes it.
    pub fn source(&self, instruction: &Instruction) -> Option<(String, String)> {
        let first = self.frames.get(&instruction.stack_frame?)?;
        let mut stack = Vec::new();
        let mut frame = Some(first);
        while let Some(f) = frame {
            stack.push(format!("{}:{}", f.location, f.column));
            frame = self.frames.get(&f.parent).filter(|_| stack.len() < 10);
        }
        Some((first.location.clone(), stack.join("\n")))
    }
}

impl Computation {
    /// The instruction of that name, if it is in this computation.
    pub fn get(&self, name: &str) -> Option<&Instruction> {
        self.instructions.iter().find(|i| i.name == name)
    }
}

impl Instruction {
    fn parse(line: &str, symbol: u64) -> Option<Self> {
        let line = line.trim_start();
        let (is_root, line) = match line.strip_prefix("ROOT ") {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let (name, rest) = line.strip_prefix('%')?.split_once(" = ")?;
        let end = end_at(rest, 0, |c| c == ' ')?;
        let (shape, rest) = (&rest[..end], &rest[end + 1..]);
        let (opcode, rest) = rest.split_once('(')?;
        let close = end_at(rest, 1, |c| c == ')')?;
        let operands = split(&rest[..close])
            .into_iter()
            .map(clean_operand)
            .collect();
        let tail = &rest[close + 1..];
        let cut = [
            ", metadata={",
            ", backend_config=",
            ", frontend_attributes={",
            ", sharding={",
        ]
        .iter()
        .filter_map(|mark| tail.find(mark))
        .min()
        .unwrap_or(tail.len());
        Some(Self {
            name: name.to_owned(),
            shape: shape.to_owned(),
            opcode: opcode.to_owned(),
            operands,
            attributes: tail[..cut].to_owned(),
            op_name: between(tail, "op_name=\"", "\"").map(str::to_owned),
            stack_frame: between(tail, "stack_frame_id=", "}")
                .and_then(|s| s.split(' ').next().and_then(|s| s.parse().ok())),
            backend_config: tail
                .split_once(", backend_config=")
                .map_or(String::new(), |(_, b)| b.to_owned()),
            symbol,
            is_root,
        })
    }

    /// The computation an attribute names: `callee("calls")`.
    pub fn callee(&self, key: &str) -> Option<&str> {
        let (_, rest) = self.attributes.split_once(&format!("{key}=%"))?;
        rest.split([',', '}', ' ']).next()
    }

    /// Whether a profile shows it: it does work, or waits for work.
    pub fn is_event(&self) -> bool {
        match self.opcode.as_str() {
            "parameter" | "constant" | "tuple" | "get-tuple-element" | "bitcast" | "after-all" => {
                false
            }
            // Names for memory, not work.
            "custom-call" => ![
                "ConcatBitcast",
                "AllocateBuffer",
                "AssumeGatherIndicesInBound",
            ]
            .iter()
            .any(|target| self.attributes.contains(&format!("\"{target}\""))),
            _ => true,
        }
    }
}

/// The index of the first `stop` outside brackets that are open at `depth`.
fn end_at(text: &str, depth: i32, stop: impl Fn(char) -> bool) -> Option<usize> {
    let mut open = depth;
    for (i, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' => open += 1,
            ')' | ']' | '}' => open -= 1,
            _ => {}
        }
        if stop(c) && open == 0 {
            return Some(i);
        }
    }
    None
}

fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(i) = end_at(rest, 0, |c| c == ',') {
        parts.push(rest[..i].trim());
        rest = &rest[i + 1..];
    }
    if !rest.trim().is_empty() {
        parts.push(rest.trim());
    }
    parts
}

/// `/*index=5*/%name` is `name`.
fn clean_operand(text: &str) -> String {
    let text = text.rsplit("*/").next().unwrap_or(text);
    text.trim().trim_start_matches('%').to_owned()
}

fn between<'a>(text: &'a str, from: &str, to: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(from)?;
    rest.split_once(to).map(|(inside, _)| inside)
}

/// The stack frames of the tables in front of the computations.
fn frames(text: &str) -> BTreeMap<u64, Frame> {
    let mut section = "";
    let mut files = BTreeMap::new();
    let mut locations: BTreeMap<u64, (String, u64)> = BTreeMap::new();
    let mut frames = BTreeMap::new();
    let number = |line: &str, key: &str| -> Option<u64> {
        between(line, key, " ")
            .or_else(|| between(line, key, "}"))?
            .trim_end_matches('}')
            .parse()
            .ok()
    };
    for line in text.lines() {
        match line {
            "FileNames" | "FunctionNames" | "FileLocations" | "StackFrames" => section = line,
            _ if line.starts_with('%') || line.starts_with("ENTRY") => break,
            _ => {
                let Some((id, rest)) = line.split_once(' ') else {
                    continue;
                };
                let Ok(id) = id.parse::<u64>() else { continue };
                match section {
                    "FileNames" => {
                        files.insert(id, rest.trim_matches('"').to_owned());
                    }
                    "FileLocations" => {
                        let file = number(rest, "file_name_id=").and_then(|id| files.get(&id));
                        let at = (file, number(rest, " line="), number(rest, " column="));
                        if let (Some(file), Some(line), Some(column)) = at {
                            locations.insert(id, (format!("{file}:{line}"), column));
                        }
                    }
                    "StackFrames" => {
                        let at =
                            number(rest, "file_location_id=").and_then(|id| locations.get(&id));
                        if let (Some((location, column)), Some(parent)) =
                            (at, number(rest, "parent_frame_id="))
                        {
                            // The text prints the parent's number plus one (0, no
                            // parent, becomes 1); the proto of the same module shows it.
                            let parent = parent.saturating_sub(1);
                            let location = location.clone();
                            frames.insert(
                                id,
                                Frame {
                                    location,
                                    column: *column,
                                    parent,
                                },
                            );
                        }
                    }
                    _ => {}
                }
            }
        }
    }
    frames
}

#[test]
fn text_and_proto_of_a_module_agree() {
    use prost::Message;

    for name in ["block_infer_v6e", "mlp_fsdp_v6e", "train_sample_v6e"] {
        let text = Module::fixture(name);
        let bytes = super::fixture_bytes(&format!("hlo/{name}.hlo_proto.pb"));
        let proto = super::proto::HloProto::decode(bytes.as_slice()).expect("an HloProto");
        let module = proto.hlo_module.expect("a module");
        assert_eq!(text.name, module.name);
        assert_eq!(text.entry, module.entry_computation_name);
        // The text prints an asynchronous operation as `slice-start` where the proto
        // has an `async-start` that calls a computation with the slice.
        let computations = module
            .computations
            .iter()
            .filter(|c| !c.name.starts_with("async_computation"));
        assert_eq!(
            text.computations.len(),
            computations.clone().count(),
            "{name}"
        );
        for computation in computations {
            let names: BTreeMap<i64, &str> = computation
                .instructions
                .iter()
                .map(|i| (i.id, i.name.as_str()))
                .collect();
            let read = text.computation(&computation.name);
            assert_eq!(read.instructions.len(), names.len(), "{}", computation.name);
            for expected in &computation.instructions {
                let got = read.get(&expected.name).expect("every instruction is read");
                match expected.opcode.strip_prefix("async") {
                    Some(part) => assert!(got.opcode.ends_with(part), "{}", expected.name),
                    None => assert_eq!(got.opcode, expected.opcode, "{}", expected.name),
                }
                let operands: Vec<&str> = expected.operand_ids.iter().map(|i| names[i]).collect();
                // Where there are none, the text has a parameter's number or a literal.
                if !operands.is_empty() {
                    assert_eq!(got.operands, operands, "{}", expected.name);
                }
            }
        }
    }
}

#[test]
fn sources_are_the_lines_of_the_program() {
    let module = Module::fixture("matmul_f32_v5e");
    let (_, fusion) = module.instruction("fusion");
    let (source, stack) = module.source(fusion).expect("a source");
    assert!(source.starts_with("/tmp/model/programs.py:"), "{source}");
    assert!(
        stack.starts_with(&format!("{source}:")),
        "innermost first: {stack}"
    );
}
