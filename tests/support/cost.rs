//! What an instruction costs, as libtpu writes it on the metadata of an operation.

use super::hlo::{Computation, Instruction, Module};
use super::proto::MemoryAccess;
use super::shape::{Array, arrays};

/// FLOPs and bytes of one execution.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cost {
    pub flops: u64,
    pub bytes: u64,
    /// By direction and memory; empty for transfers that HBM traffic does not explain.
    pub breakdown: Vec<MemoryAccess>,
}

const READ: u64 = 1;
const WRITE: u64 = 2;

/// The cost of `instruction` of `computation`.
pub fn cost(module: &Module, computation: &Computation, instruction: &Instruction) -> Cost {
    let out = arrays(&instruction.shape);
    let opcode = instruction.opcode.as_str();
    if opcode.ends_with("-start") {
        // A start books the bytes without saying which memory they touch.
        let bytes = operand_arrays(computation, instruction)
            .iter()
            .map(Array::bytes)
            .sum();
        return Cost {
            bytes,
            ..Cost::default()
        };
    }
    if matches!(opcode, "while" | "conditional" | "call") {
        return Cost::default();
    }
    let flops = flops(module, computation, instruction);
    let mut accesses: Vec<(u64, u64, u64)> = Vec::new();
    if opcode.ends_with("-done") || opcode.ends_with("-update") {
        // Only what it writes: the real captures book a done that way.
    } else {
        for (index, operand) in instruction.operands.iter().enumerate() {
            let Some(producer) = computation.get(operand) else {
                continue;
            };
            let whole = arrays(&producer.shape);
            let touched = touched(module, instruction, index);
            for array in &whole {
                let bytes = touched.unwrap_or(u64::MAX).min(array.bytes());
                accesses.push((READ, array.space.into(), bytes));
            }
        }
    }
    let updated = updated_in_place(module, computation, instruction);
    for array in &out {
        let bytes = updated.unwrap_or(u64::MAX).min(array.bytes());
        accesses.push((WRITE, array.space.into(), bytes));
    }
    let mut cost = Cost {
        flops,
        bytes: accesses.iter().map(|a| a.2).sum(),
        breakdown: Vec::new(),
    };
    for (space, memory_space) in [(0, 1), (1, 3)] {
        for operation_type in [READ, WRITE] {
            let bytes_accessed = accesses
                .iter()
                .filter(|a| a.0 == operation_type && a.1 == space)
                .map(|a| a.2)
                .sum();
            if bytes_accessed > 0 {
                cost.breakdown.push(MemoryAccess {
                    operation_type,
                    memory_space,
                    bytes_accessed,
                });
            }
        }
    }
    cost
}

/// The category that libtpu and XProf give an instruction.
pub fn category(module: &Module, instruction: &Instruction) -> String {
    match instruction.opcode.as_str() {
        "fusion" => {
            let called = instruction.callee("calls").unwrap_or("");
            let kind = instruction.attributes.split("kind=k").nth(1).unwrap_or("");
            if called.starts_with("all-reduce-scatter") {
                "all-reduce-scatter fusion"
            } else if called.starts_with("async_collective_fusion") {
                "async-collective fusion"
            } else if kind.starts_with("Output") && contains(module, called, "convolution") {
                "convolution fusion"
            } else if kind.starts_with("Output") {
                "output fusion"
            } else if kind.starts_with("Input") {
                "input fusion"
            } else if kind.starts_with("Custom") {
                "custom fusion"
            } else {
                "loop fusion"
            }
        }
        "copy" | "transpose" | "reshape" => "data formatting",
        "add" | "subtract" | "multiply" | "divide" | "maximum" | "minimum" | "compare"
        | "select" | "convert" | "negate" | "exponential" | "tanh" | "and" | "or" | "xor"
        | "clamp" | "bitcast-convert" => "non-fusion elementwise",
        "call-start" | "async-start" => "async-start",
        "call-done" | "async-done" => "async-done",
        "call-update" | "async-update" => "async-update",
        opcode => opcode,
    }
    .to_owned()
}

fn operand_arrays(computation: &Computation, instruction: &Instruction) -> Vec<Array> {
    let producers = instruction
        .operands
        .iter()
        .filter_map(|o| computation.get(o));
    producers.flat_map(|p| arrays(&p.shape)).collect()
}

fn contains(module: &Module, computation: &str, opcode: &str) -> bool {
    module.computations.get(computation).is_some_and(|c| {
        c.instructions.iter().any(|i| {
            i.opcode == opcode
                || i.callee("calls")
                    .is_some_and(|inner| contains(module, inner, opcode))
        })
    })
}

/// Bytes of operand `index` that a fusion reads, if it only slices it or only
/// updates it in place.
fn touched(module: &Module, instruction: &Instruction, index: usize) -> Option<u64> {
    match instruction.opcode.as_str() {
        "dynamic-slice" | "slice" | "gather" if index == 0 => sum(&instruction.shape),
        "dynamic-update-slice" if index == 0 => Some(0),
        "fusion" => {
            let body = module.computations.get(instruction.callee("calls")?)?;
            let parameter = body.instructions.iter().find(|i| {
                i.opcode == "parameter" && i.operands.first() == Some(&index.to_string())
            })?;
            touched_by_users(module, body, &parameter.name)
        }
        _ => None,
    }
}

fn touched_by_users(module: &Module, body: &Computation, name: &str) -> Option<u64> {
    let mut total = 0;
    for user in &body.instructions {
        for index in user
            .operands
            .iter()
            .enumerate()
            .filter(|(_, o)| *o == name)
            .map(|(i, _)| i)
        {
            total += match user.opcode.as_str() {
                "bitcast" | "get-tuple-element" => touched_by_users(module, body, &user.name)?,
                _ => touched(module, user, index)?,
            };
        }
    }
    Some(total)
}

/// Bytes that a fusion writes, if its root updates an operand in place.
fn updated_in_place(
    module: &Module,
    computation: &Computation,
    instruction: &Instruction,
) -> Option<u64> {
    match instruction.opcode.as_str() {
        "dynamic-update-slice" => sum(&computation.get(instruction.operands.get(1)?)?.shape),
        "fusion" => {
            let body = module.computations.get(instruction.callee("calls")?)?;
            let mut root = body.instructions.iter().find(|i| i.is_root)?;
            while root.opcode == "bitcast" {
                root = body.get(root.operands.first()?)?;
            }
            let update = match root.opcode.as_str() {
                "dynamic-update-slice" => body.get(root.operands.get(1)?)?,
                "fusion" => return updated_in_place(module, body, root),
                _ => return None,
            };
            sum(&update.shape)
        }
        _ => None,
    }
}

fn sum(shape: &str) -> Option<u64> {
    Some(arrays(shape).iter().map(Array::bytes).sum())
}

fn flops(module: &Module, computation: &Computation, instruction: &Instruction) -> u64 {
    let elements = || {
        arrays(&instruction.shape)
            .iter()
            .map(Array::elements)
            .sum::<u64>()
    };
    match instruction.opcode.as_str() {
        "fusion" => {
            let Some(body) = instruction
                .callee("calls")
                .and_then(|c| module.computations.get(c))
            else {
                return 0;
            };
            body.instructions
                .iter()
                .map(|i| flops(module, body, i))
                .sum()
        }
        "convolution" => convolution_flops(computation, instruction).unwrap_or(0),
        "add" | "subtract" | "multiply" | "divide" | "maximum" | "minimum" | "compare"
        | "negate" | "and" | "or" | "xor" | "select" => elements(),
        "reduce" => instruction
            .operands
            .first()
            .and_then(|o| computation.get(o))
            .map_or(0, |p| arrays(&p.shape).iter().map(Array::elements).sum()),
        "custom-call" => instruction
            .backend_config
            .split_once("\"cost_estimate\":{\"flops\":\"")
            .and_then(|(_, rest)| rest.split('"').next())
            .and_then(|n| n.parse().ok())
            .unwrap_or(0),
        _ => 0,
    }
}

/// Twice the multiplications of a convolution, counting only the positions where
/// the window meets data: batched matmuls are convolutions whose batch is spatial.
fn convolution_flops(computation: &Computation, instruction: &Instruction) -> Option<u64> {
    let array = |name: Option<&String>| arrays(&computation.get(name?)?.shape).into_iter().next();
    let lhs = array(instruction.operands.first())?;
    let rhs = array(instruction.operands.get(1))?;
    let out = arrays(&instruction.shape).into_iter().next()?;
    let (_, rest) = instruction.attributes.split_once("dim_labels=")?;
    let labels = rest.split([',', ' ']).next()?;
    let (lhs_labels, rest) = labels.split_once('_')?;
    let (rhs_labels, out_labels) = rest.split_once("->")?;
    let size = |labels: &str, dims: &Array, label: char| {
        labels.find(label).and_then(|at| dims.dims.get(at)).copied()
    };
    let mut valid = 1;
    let spatial = out_labels.chars().filter(char::is_ascii_digit).count();
    for d in 0..spatial {
        let label = char::from_digit(u32::try_from(d).ok()?, 10)?;
        let window = Window::of(&instruction.attributes, d);
        valid *= window.valid(
            size(lhs_labels, &lhs, label)?,
            size(out_labels, &out, label)?,
        );
    }
    let batch = size(out_labels, &out, 'b')?;
    let features = size(out_labels, &out, 'f')?;
    Some(2 * valid * batch * features * size(rhs_labels, &rhs, 'i')?)
}

/// One spatial dimension of a convolution window.
struct Window {
    size: i64,
    stride: i64,
    pad_low: i64,
    lhs_dilate: i64,
    rhs_dilate: i64,
}

impl Window {
    fn of(attributes: &str, dimension: usize) -> Self {
        let window = attributes
            .split_once("window={")
            .and_then(|(_, rest)| rest.split('}').next())
            .unwrap_or("");
        let field = |key: &str| {
            let value = window.split(' ').find_map(|part| part.strip_prefix(key));
            value
                .and_then(|v| v.split('x').nth(dimension))
                .unwrap_or("")
        };
        let number = |key: &str, default: i64| field(key).parse().unwrap_or(default);
        Self {
            size: number("size=", 1),
            stride: number("stride=", 1),
            pad_low: field("pad=")
                .split('_')
                .next()
                .and_then(|p| p.parse().ok())
                .unwrap_or(0),
            lhs_dilate: number("lhs_dilate=", 1),
            rhs_dilate: number("rhs_dilate=", 1),
        }
    }

    /// Pairs of output and window positions that meet an element of the input.
    fn valid(&self, input: u64, output: u64) -> u64 {
        let (input, output) = (
            i64::try_from(input).unwrap_or(0),
            i64::try_from(output).unwrap_or(0),
        );
        let mut count = 0;
        for o in 0..output {
            for w in 0..self.size {
                let at = o * self.stride + w * self.rhs_dilate - self.pad_low;
                if at >= 0 && at % self.lhs_dilate == 0 && at / self.lhs_dilate < input {
                    count += 1;
                }
            }
        }
        count
    }
}

#[test]
fn matmul_flops_are_those_of_their_shapes() {
    let module = Module::fixture("block_infer_v6e");
    let flops_of = |scope: &str, scale: f64| -> Vec<u64> {
        let entry = module.entry();
        let mut all: Vec<u64> = entry
            .instructions
            .iter()
            .filter(|i| i.op_name.as_ref().is_some_and(|n| n.ends_with(scope)))
            .map(|i| (flops(&module, entry, i) as f64 / scale) as u64)
            .collect();
        all.sort_unstable();
        all
    };
    // x @ gate_up and h @ down: 4096 x 2048 x 11264 and 4096 x 5632 x 2048, with a
    // little elementwise work fused to them.
    assert_eq!(flops_of("/mlp/dot_general", 1e9), [94, 188]);
    // Scores: 4 x 16 x 1024 x 1024 x 128, batch as spatial dimensions.
    assert_eq!(flops_of("bqhd,bkhd->bhqk/dot_general", 1e9), [17]);
}
