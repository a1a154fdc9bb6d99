//! What runs only where a GPU was found.

use crate::python::ast::{AnyNodeRef, Expr, Stmt};
use crate::python::{Ranged as _, TextRange};

use crate::python::{NodeId, SourceContext};

/// Words of a condition that tell kinds of devices apart.
const DEVICE_WORDS: &[&str] = &[
    "cuda",
    "gpu",
    "xpu",
    "nvidia",
    "rocm",
    "mps",
    "cpu",
    "npu",
    "hpu",
    "tpu",
    "xla",
    "accelerator",
    "device.type",
    "device_type",
    "nccl",
    "is_hip",
    "triton",
    "capability",
    "version",
    "torch_greater",
];

/// Signs that a file serves other devices than GPUs, CPUs and, once it is migrated, TPUs.
const OTHER_DEVICES: &[&str] = &[
    "\"xpu\"",
    "'xpu'",
    "\"npu\"",
    "'npu'",
    "\"mps\"",
    "'mps'",
    "\"hpu\"",
    "'hpu'",
    "\"mlu\"",
    "torch.xpu",
    "torch.mps",
    "torch.npu",
    "backends.mps",
    "is_torch_xpu",
    "is_torch_npu",
];

/// Functions that leave for other devices do so among their first statements.
const MAX_BEFORE: usize = 32;

/// Whether a condition tells kinds of devices apart.
pub(crate) fn is_device_test(condition: &str) -> bool {
    let condition = condition.to_ascii_lowercase();
    DEVICE_WORDS.iter().any(|word| condition.contains(word))
}

/// Whether the file serves several kinds of accelerators.
pub(crate) fn serves_several_devices(context: &SourceContext<'_>) -> bool {
    OTHER_DEVICES
        .iter()
        .any(|sign| context.file.text.contains(sign))
}

/// Whether a node runs only where a test of the device said so: in a branch of a condition, behind
/// an early return, in something that is named for GPUs.
pub(crate) fn is_guarded(context: &SourceContext<'_>, id: NodeId) -> bool {
    let Some(own) = context.index.get(id).map(|node| node.node.range()) else {
        return false;
    };
    let tests = |test: &Expr| !covers(test.range(), own) && is_device_test(context.text(test));
    context
        .index
        .ancestors(id)
        .any(|(_, above)| match above.node {
            AnyNodeRef::StmtIf(branch) => {
                tests(&branch.test)
                    || branch
                        .elif_else_clauses
                        .iter()
                        .filter_map(|clause| clause.test.as_ref())
                        .any(tests)
            }
            AnyNodeRef::ExprIf(choice) => tests(&choice.test),
            AnyNodeRef::StmtWhile(repeat) => tests(&repeat.test),
            AnyNodeRef::ExprBoolOp(all) => all
                .values
                .iter()
                .take_while(|value| value.end() <= own.start())
                .any(tests),
            AnyNodeRef::StmtFunctionDef(function) => {
                is_named_for_gpus(function.name.as_str())
                    || function
                        .decorator_list
                        .iter()
                        .any(|decorator| is_device_test(context.text(decorator)))
                    || leaves_before(context, &function.body, own)
            }
            AnyNodeRef::StmtClassDef(class) => is_named_for_gpus(class.name.as_str()),
            _ => false,
        })
}

/// Whether a statement before the range leaves where the device is another one.
fn leaves_before(context: &SourceContext<'_>, body: &[Stmt], own: TextRange) -> bool {
    body.iter()
        .take(MAX_BEFORE)
        .take_while(|statement| statement.end() <= own.start())
        .filter_map(Stmt::as_if_stmt)
        .any(|branch| {
            let leaves = branch
                .body
                .last()
                .is_some_and(|last| last.is_return_stmt() || last.is_raise_stmt());
            leaves && is_device_test(context.text(branch.test.as_ref()))
        })
}

fn is_named_for_gpus(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.contains("cuda") || name.contains("gpu") || name.contains("nvidia")
}

/// Whether an import, or what is bound by it, can fail or be left out: within a condition, a `try`,
/// or a function.
pub(crate) fn is_optional(context: &SourceContext<'_>, id: NodeId) -> bool {
    context.index.ancestors(id).any(|(_, above)| {
        matches!(
            above.node,
            AnyNodeRef::StmtIf(_) | AnyNodeRef::StmtTry(_) | AnyNodeRef::StmtFunctionDef(_)
        )
    })
}

fn covers(outer: TextRange, inner: TextRange) -> bool {
    outer.start() <= inner.start() && inner.end() <= outer.end()
}
