//! A choice between a GPU and the CPU: on a TPU machine it takes the CPU without a word.

use crate::python::Ranged as _;
use crate::python::ast::{AnyNodeRef, Expr, ExprIf};

use super::Places;
use super::guard::serves_several_devices;
use super::rewrite::{is_cpu, tpu_for};
use crate::finding::{Applicability, Edit, Numerics, Remark, Severity};
use crate::python::SourceContext;
use crate::rule::Rule;
use crate::rules::source::counted;

/// The rule.
#[derive(Debug)]
pub struct CudaOrCpu;

const CUDA_TEST: &str = "torch.cuda.is_available";

impl Rule for CudaOrCpu {
    fn code(&self) -> &'static str {
        "TS502"
    }

    fn name(&self) -> &'static str {
        "cuda-or-cpu"
    }

    fn card(&self) -> &'static str {
        include_str!("cuda_or_cpu.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        if !context.file.text.contains("cuda") || serves_several_devices(context) {
            return Vec::new();
        }
        let (mut fixed, mut shown) = (Places::default(), Places::default());
        for (_, node) in context.index.nodes() {
            match node.node {
                AnyNodeRef::ExprIf(choice) => {
                    if let Some(edits) = choice_edits(context, choice) {
                        let place = context.place(choice.range(), "on a TPU this is the CPU");
                        if edits.is_empty() {
                            shown.add(place, []);
                        } else {
                            fixed.add(place, edits);
                        }
                    }
                }
                AnyNodeRef::StmtIf(branch) if is_cuda_test(context, &branch.test) => {
                    let sets_device = branch.body.iter().find_map(|statement| {
                        let assign = statement.as_assign_stmt()?;
                        let device = named_device(context, &assign.value)?;
                        tpu_for(context, device).map(|_| device)
                    });
                    if let Some(device) = sets_device {
                        let place = context.place(branch.test.range(), "false on a TPU");
                        let accelerator = accelerator_for(context, device);
                        fixed.add(
                            place,
                            [test_edit(context, &branch.test), accelerator]
                                .into_iter()
                                .flatten(),
                        );
                    }
                }
                _ => {}
            }
        }
        let mut remarks = Vec::new();
        if !fixed.is_empty() {
            let title = title(fixed.len());
            let fix = "the accelerator that there is: a TPU, a GPU, or else the CPU";
            let (safe, numerics) = (Applicability::Safe, Numerics::WithinTolerance);
            remarks.push(with_advice(fixed.fixed(
                Severity::High,
                title,
                fix,
                safe,
                numerics,
            )));
        }
        if !shown.is_empty() {
            let title = title(shown.len());
            remarks.push(with_advice(shown.remark(Severity::High, title)));
        }
        remarks
    }
}

fn title(count: usize) -> String {
    format!(
        "{} between \"cuda\" and \"cpu\": on a TPU machine the CPU computes, without a word",
        counted(count, "choice")
    )
}

fn with_advice(mut remark: Remark) -> Remark {
    remark.advice = vec![
        "take the accelerator that there is: torch.accelerator.current_accelerator().type if \
         torch.accelerator.is_available() else \"cpu\""
            .to_owned(),
    ];
    remark.caveats = vec![
        "torch.accelerator finds an Apple or Intel GPU, too, where torch.cuda took the CPU"
            .to_owned(),
    ];
    remark
}

/// The edits of a choice between a GPU and the CPU: empty where its test is not known to ask for
/// a GPU only; none where it is no such choice.
fn choice_edits(context: &SourceContext<'_>, choice: &ExprIf) -> Option<Vec<Edit>> {
    let device = named_device(context, &choice.body)?;
    tpu_for(context, device)?;
    if !is_cpu(context, &choice.orelse) {
        return None;
    }
    if !is_cuda_test(context, &choice.test) {
        return asks_for_a_gpu(context, &choice.test).then(Vec::new);
    }
    let edits = [
        accelerator_for(context, device),
        test_edit(context, &choice.test),
    ];
    Some(edits.into_iter().flatten().collect())
}

/// The device's name in `"cuda"` and `torch.device("cuda")`.
fn named_device<'a>(context: &SourceContext<'_>, device: &'a Expr) -> Option<&'a Expr> {
    let Some(call) = device.as_call_expr() else {
        return Some(device);
    };
    let is_device = context.qualified(&call.func).as_deref() == Some("torch.device");
    is_device.then(|| call.arguments.args.first()).flatten()
}

/// Whether a condition is `torch.cuda.is_available()` and no more.
fn is_cuda_test(context: &SourceContext<'_>, test: &Expr) -> bool {
    let call = test.as_call_expr();
    call.and_then(|call| context.qualified(&call.func))
        .is_some_and(|name| name == CUDA_TEST)
}

/// Whether a condition asks for a GPU and the user's wish, as `use_cuda and not args.cpu`.
fn asks_for_a_gpu(context: &SourceContext<'_>, test: &Expr) -> bool {
    let plain = |value: &Expr| {
        let inner = value.as_unary_op_expr().map_or(value, |not| &not.operand);
        inner.is_name_expr() || inner.is_attribute_expr() || is_cuda_test(context, inner)
    };
    let all_plain = match test {
        Expr::BoolOp(all) => all.values.iter().all(plain),
        test => plain(test),
    };
    let text = context.text(test).to_ascii_lowercase();
    all_plain && (text.contains("cuda") || text.contains("gpu"))
}

fn test_edit(context: &SourceContext<'_>, test: &Expr) -> Option<Edit> {
    let module = test.as_call_expr()?.func.as_attribute_expr()?;
    let torch = context.text(module.value.as_ref()).strip_suffix(".cuda")?;
    Some(context.edit(module.range(), format!("{torch}.accelerator.is_available")))
}

fn accelerator_for(context: &SourceContext<'_>, device: &Expr) -> Option<Edit> {
    context.names.imports("torch").then(|| {
        context.edit(
            device.range(),
            "torch.accelerator.current_accelerator().type",
        )
    })
}
