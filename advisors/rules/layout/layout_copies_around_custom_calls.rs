//! Copies that bring a kernel's operands or results into another layout.

use knowledge::advice::AdviceKind;
use profiler::evidence::OpProfile;
use profiler::units::{self, percent};

use crate::finding::{Basis, Claim, Draft, Exhibit};
use crate::rule::{Context, Rule};
use crate::rules::layout::exhibits::{Removal, buckets, patterns, share_of_step};
use crate::rules::layout::group::{Group, base_name, groups, worthwhile};
use crate::rules::layout::kernels::is_attention;
use crate::rules::layout::movers::{Mover, Role, movers};

/// See the card.
#[derive(Debug)]
pub struct CopiesAroundKernels;

impl Rule for CopiesAroundKernels {
    fn code(&self) -> &'static str {
        "TT601"
    }

    fn name(&self) -> &'static str {
        "layout-copies-around-custom-calls"
    }

    fn card(&self) -> &'static str {
        include_str!("layout_copies_around_custom_calls.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        let around = movers(context).into_iter().filter_map(|mover| {
            let Role::Kernel(kernel) = mover.role else {
                return None;
            };
            let name = base_name(&context.evidence.session.op(kernel).name);
            Some(((mover.op.module, name.to_owned()), mover))
        });
        let groups = groups(around, Mover::ms);
        worthwhile(context, groups)
            .filter_map(|group| draft(context, &group))
            .collect()
    }
}

type Key = (Option<profiler::session::ModuleId>, String);

fn draft(context: &Context<'_>, group: &Group<Key, Mover<'_>>) -> Option<Draft> {
    let (_, name) = &group.key;
    let Role::Kernel(kernel) = group.members.first()?.role else {
        return None;
    };
    let kernel = context.evidence.op(kernel)?;
    let attention = is_attention(context, kernel);
    let kernels = kernel_ms(context, kernel, name);
    let mut evidence = vec![share_of_step(
        context,
        "copies around the kernel",
        group.sum,
    )];
    evidence.push(Exhibit::text(
        "the kernel itself",
        units::ms(kernels),
        format!("all calls of {name} in that program, a step"),
    ));
    evidence.extend(patterns(context, &group.members));
    let title = format!(
        "layout changes around the kernel {name}: {} of each {} step ({})",
        units::ms(group.sum),
        context.evidence.step_time(),
        percent(context.share(group.sum)),
    );
    // Attention kernels want heads before positions and whole tiles of heads, which projections do
    // not make: nothing is promised there.
    let removal = Removal::of(context, &group.members);
    let claim = (!attention).then(|| Claim {
        expected_ms: removal.expected_ms,
        low_ms: 0.0,
        high_ms: group.sum,
        upper_bound_ms: group.sum,
        basis: Basis::Modelled,
        formula: format!(
            "{}; high: a kernel that takes its operands and leaves its results as they lie needs none of these copies, all of their time, {:.3} ms",
            removal.words, group.sum
        ),
        buckets: buckets(&group.members),
    });
    let title = if attention {
        format!("{title}, mostly inherent")
    } else {
        title
    };
    Some(Draft {
        title,
        kind: AdviceKind::LayoutCopy,
        ops: group.members.iter().map(|mover| mover.op.id).collect(),
        evidence,
        claim,
        advice: advice(attention),
        caveats: caveats(attention),
    })
}

fn advice(attention: bool) -> Vec<String> {
    if attention {
        return vec![
            "look at pads first: a number of heads or a head size that fills the kernel's tiles (also after tensor parallelism divides the heads) needs none".to_owned(),
            "leave the transposes alone unless the projection before can write heads first in its own epilogue".to_owned(),
        ];
    }
    vec![
        "let the kernel take the layout that is there: swap dimensions in the BlockSpec's index map and transpose the block in VMEM".to_owned(),
        "or give the value the kernel's layout where it is made: put the transpose into the matmul before (its epilogue writes any order), or store the argument that way".to_owned(),
    ]
}

fn caveats(attention: bool) -> Vec<String> {
    let mut caveats = vec![
        "a custom call fixes the layout of its operands, row-major unless it says otherwise: XLA cannot choose another and has to copy".to_owned(),
    ];
    if attention {
        caveats.push("no saving is expected: attention kernels want heads before positions and whole tiles of heads, which projections do not make".to_owned());
        caveats.push("on Qwen3 8B (v6e) such transposes were 4.5 % of the step and nobody found a way to do without: github.com/vlasenkoalexey/tpu_performance_autoresearch_wiki, qwen3-jax-qkv-splash-transpose-intrinsic.md".to_owned());
    } else {
        caveats.push(
            "transposing inside the kernel costs time in the kernel: measure both".to_owned(),
        );
    }
    caveats
}

/// Self time a step of all kernels of that name in the kernel's program.
fn kernel_ms(context: &Context<'_>, kernel: &OpProfile, name: &str) -> f64 {
    let evidence = context.evidence;
    let alike = evidence
        .ops
        .iter()
        .filter(|op| op.module == kernel.module && base_name(&context.op(op).name) == name);
    alike.map(OpProfile::step_self_ms).sum()
}
