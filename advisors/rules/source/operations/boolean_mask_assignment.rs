//! TS320: values set where a mask holds, by indexing with the mask.

use knowledge::advice::AdviceKind;

use crate::finding::{Applicability, Fix, Numerics, Remark, Severity};
use crate::python::{SourceContext, ast};
use crate::rule::Rule;
use crate::rules::source::counted;
use crate::rules::source::operations::code::{Code, mask_name, with_places};
use ast::{AnyNodeRef, Expr};

/// The rule.
#[derive(Debug)]
pub struct BooleanMaskAssignment;

impl Rule for BooleanMaskAssignment {
    fn code(&self) -> &'static str {
        "TS320"
    }

    fn name(&self) -> &'static str {
        "boolean-mask-assignment"
    }

    fn card(&self) -> &'static str {
        include_str!("boolean_mask_assignment.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        let Some(code) = Code::new(context) else {
            return Vec::new();
        };
        let mut calls = Vec::new();
        let mut places = Vec::new();
        let mut edits = Vec::new();
        let mut safe = true;
        let mut dynamic = false;
        for (id, node) in context.index.nodes() {
            let AnyNodeRef::StmtAssign(assign) = node.node else {
                continue;
            };
            let [Expr::Subscript(target)] = assign.targets.as_slice() else {
                continue;
            };
            if !code.is_torch()
                || !is_mask_index(&code, &target.slice)
                || !code.may_be_tensor(&target.value)
            {
                continue;
            }
            let Some(why) = code.heat(id) else { continue };
            calls.push(why);
            let scalar = is_scalar(&assign.value);
            dynamic |= !scalar;
            places.push(code.place(
                assign.range,
                if scalar {
                    "a number where a mask holds"
                } else {
                    "values where a mask holds"
                },
            ));
            if scalar && matches!(&*target.value, Expr::Name(_) | Expr::Attribute(_)) {
                let base = context.text(&*target.value);
                let same_shape = compares(&code, &target.slice, base);
                safe &= same_shape;
                edits.push(context.edit(
                    assign.range,
                    format!(
                        "{base}.masked_fill_({}, {})",
                        context.text(&*target.slice),
                        context.text(&*assign.value)
                    ),
                ));
            }
        }
        let Some(why) = calls.first() else {
            return Vec::new();
        };
        let severity = if dynamic {
            Severity::Medium
        } else {
            Severity::Low
        };
        let mut remark = Remark::new(
            AdviceKind::OpSubstitution,
            severity,
            format!(
                "{} by indexing with a boolean mask, whose shape depends on values: {why}",
                counted(calls.len(), "assignment")
            ),
        );
        with_places(&mut remark, places);
        remark.advice = vec![
            "Choose with the mask instead: `x = torch.where(mask, y, x)`, or multiply by it: `x = x * ~mask + y * mask`; the shapes stay the same whatever the mask holds.".to_owned(),
            "For a number, `x.masked_fill_(mask, number)`.".to_owned(),
        ];
        remark.caveats.push("`torch.where` and `masked_fill_` line up the last axes, indexing lines up the first: give a mask of fewer axes than `x` trailing axes of one.".to_owned());
        if !edits.is_empty() {
            remark.fix = Some(Fix {
                title: "fill where the mask holds".to_owned(),
                applicability: if safe {
                    Applicability::Safe
                } else {
                    Applicability::Unsafe
                },
                numerics: Numerics::BitExact,
                edits,
            });
        }
        vec![remark]
    }
}

/// A mask as the only index, by what it is or by its name with `~`.
fn is_mask_index<'a>(code: &Code<'_, 'a>, index: &'a Expr) -> bool {
    !matches!(index, Expr::Tuple(_) | Expr::Slice(_))
        && (code.is_mask(index)
            || (matches!(index, Expr::Name(_))
                && mask_name(code.context.text(index))
                && !index.is_subscript_expr()))
}

fn is_scalar(value: &Expr) -> bool {
    match value {
        Expr::NumberLiteral(_) | Expr::BooleanLiteral(_) => true,
        Expr::UnaryOp(it) => is_scalar(&it.operand),
        Expr::Call(call) => {
            matches!(&*call.func, Expr::Name(name) if name.id == "float")
                && call
                    .arguments
                    .args
                    .iter()
                    .all(|argument| argument.is_string_literal_expr())
        }
        _ => false,
    }
}

/// Whether the mask compares the tensor itself, so that their shapes are the same.
fn compares<'a>(code: &Code<'_, 'a>, mask: &'a Expr, base: &str) -> bool {
    match mask {
        Expr::Compare(it) => {
            code.context.text(&*it.left) == base && it.comparators.iter().all(is_scalar)
        }
        Expr::UnaryOp(it) => compares(code, &it.operand, base),
        Expr::Call(call) => {
            let name = code.name(&call.func).unwrap_or_default();
            matches!(
                name.as_str(),
                "torch.isnan" | "torch.isinf" | "torch.isfinite"
            ) && matches!(&*call.arguments.args, [only] if code.context.text(only) == base)
        }
        _ => false,
    }
}
