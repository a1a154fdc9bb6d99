//! Ranks that choose among the devices of a host: a process of TorchTPU has one.

use crate::python::ast::{AnyNodeRef, Expr};
use crate::python::{Ranged as _, TextRange};

use super::Places;
use super::guard::{is_guarded, serves_several_devices};
use super::rewrite::without_arguments;
use crate::finding::{Applicability, Fix, Numerics, Remark, Severity};
use crate::python::{NodeId, SourceContext};
use crate::rule::Rule;
use crate::rules::source::counted;

/// The rule.
#[derive(Debug)]
pub struct DevicePerProcess;

impl Rule for DevicePerProcess {
    fn code(&self) -> &'static str {
        "TS507"
    }

    fn name(&self) -> &'static str {
        "device-per-process"
    }

    fn card(&self) -> &'static str {
        include_str!("device_per_process.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        if serves_several_devices(context) {
            return Vec::new();
        }
        let mut chosen = Places::default();
        for (id, call, name) in context.calls_of(|name| name.starts_with("torch.")) {
            if is_guarded(context, id) {
                continue;
            }
            match name.as_str() {
                "torch.cuda.set_device" => {
                    let edit = context.edit(call.range(), "torch.accelerator.set_device_index(0)");
                    chosen.add(context.place(call.range(), "tpu:0 in each rank"), [edit]);
                }
                "torch.nn.parallel.DistributedDataParallel"
                | "torch.nn.parallel.distributed.DistributedDataParallel" => {
                    let edits = without_arguments(context, call, &["device_ids", "output_device"]);
                    let ids = call.arguments.find_keyword("device_ids");
                    let none = ids.is_some_and(|ids| ids.value.is_none_literal_expr());
                    if let Some(ids) = ids.filter(|_| !none) {
                        let place = context.place(ids.range(), "an index of this host's devices");
                        chosen.add(place, edits);
                    }
                }
                _ if name.ends_with("FullyShardedDataParallel") => {
                    let id = call
                        .arguments
                        .find_keyword("device_id")
                        .map(|keyword| &keyword.value);
                    if let Some(id) = id.filter(|id| is_rank(context, id)) {
                        let edit = context.edit(id.range(), "torch.device(\"tpu\")");
                        let place = context.place(id.range(), "an index of this host's devices");
                        chosen.add(place, [edit]);
                    }
                }
                _ => {}
            }
        }
        let mut remarks = Vec::new();
        if !chosen.is_empty() {
            let title = format!(
                "{} where a rank takes one of its host's devices: a TorchTPU process has one, tpu:0",
                counted(chosen.len(), "place")
            );
            let fix = "the process's own device";
            let (safe, exact) = (Applicability::Safe, Numerics::BitExact);
            let mut remark = chosen.fixed(Severity::High, title, fix, safe, exact);
            remark.advice = vec![
                "start one process for each device and use \"tpu\" without an index: index 1 is out \
                 of the bounds of the one device that a process addresses"
                    .to_owned(),
            ];
            remarks.push(remark);
        }
        remarks.extend(launch(context));
        remarks
    }
}

/// Whether an expression is a rank: `rank`, `local_rank`, `int(os.environ["LOCAL_RANK"])`.
fn is_rank(context: &SourceContext<'_>, value: &Expr) -> bool {
    let text = context.text(value).to_ascii_lowercase();
    text.contains("rank") && !text.contains("cuda")
}

/// How the ranks are started: each needs to know the slice before torch starts.
fn launch(context: &SourceContext<'_>) -> Option<Remark> {
    let text = &context.file.text;
    if text.contains("set_tpu_launch_env") || text.contains("TORCH_TPU_") {
        return None;
    }
    let groups = |name: &str| name == "torch.distributed.init_process_group";
    let (group, init, _) = context.calls_of(groups).next()?;
    if is_guarded(context, group) || !on_accelerator(context) {
        return None;
    }
    let spawn = context
        .calls_of(|name| {
            matches!(
                name,
                "torch.multiprocessing.spawn" | "torch.multiprocessing.start_processes"
            )
        })
        .next();
    if let Some((id, call, _)) = spawn {
        let count = call.arguments.find_argument_value("nprocs", 2);
        let mut places = Places::default();
        places.add(context.place(call.func.range(), "ranks start here"), []);
        let title = "ranks are spawned without TORCH_TPU_TOPOLOGY: init_process_group raises";
        // A script that names the TPU's backend may find the variables set.
        let severity = if text.contains("tpu_dist") {
            Severity::Low
        } else {
            Severity::High
        };
        let mut remark = places.remark(severity, title);
        remark.advice = vec![
            "call torch.tpu.distributed.set_tpu_launch_env(nproc_per_node=...) once in the parent, \
             before it spawns: it sets TORCH_TPU_TOPOLOGY and TORCH_TPU_SLICEBUILDER_ADDRESSES"
                .to_owned(),
        ];
        remark.fix = spawn_fix(context, id, count);
        return Some(remark);
    }
    // A script that torchrun starts; libraries leave the launch to others.
    if !text.contains("__main__") {
        return None;
    }
    let mut places = Places::default();
    places.add(context.place(init.func.range(), "ranks meet here"), []);
    let title = "a launcher must tell each rank the TPU's topology before torch starts";
    let mut remark = places.remark(Severity::Info, title);
    remark.advice = vec![
        "before torchrun: set -a; eval \"$(python -m torch.tpu.distributed)\"; set +a, which sets \
         TORCH_TPU_TOPOLOGY, TORCH_TPU_SLICEBUILDER_ADDRESSES and, on several hosts, NNODES, \
         NODE_RANK and MASTER_ADDR; then torchrun with one process for each device"
            .to_owned(),
    ];
    Some(remark)
}

/// Whether the groups are of accelerators: the file says `gloo` and nothing else otherwise.
fn on_accelerator(context: &SourceContext<'_>) -> bool {
    let text = &context.file.text;
    text.contains("nccl") || text.contains("tpu") || text.contains("cuda")
}

/// The call of the helper before the statement that spawns.
fn spawn_fix(context: &SourceContext<'_>, id: NodeId, count: Option<&Expr>) -> Option<Fix> {
    let statement = context.index.statement_of(id)?;
    if !matches!(statement, AnyNodeRef::StmtExpr(_)) {
        return None;
    }
    let imported = context
        .names
        .imported()
        .any(|(name, full)| name == "torch" && full == "torch");
    let count = context.text(count?);
    // The number of GPUs is 0 on a TPU machine.
    if !imported || count.contains("cuda") {
        return None;
    }
    let line = context.file.line_of(statement.range().start());
    let start = context.file.line_range(line).start();
    let before = TextRange::new(start, statement.range().start());
    let indent = context
        .file
        .text
        .get(std::ops::Range::<usize>::from(before))?;
    if !indent.trim().is_empty() {
        return None;
    }
    let call =
        format!("torch.tpu.distributed.set_tpu_launch_env(nproc_per_node={count})\n{indent}");
    Some(Fix {
        title: "the launch environment is set before the ranks start".to_owned(),
        applicability: Applicability::Unsafe,
        numerics: Numerics::BitExact,
        edits: vec![context.edit(TextRange::empty(statement.range().start()), call)],
    })
}
