//! Buffers that are copied as they are, and arguments that get another layout in every step.

use knowledge::advice::AdviceKind;
use profiler::units::{self, Bytes, percent};

use crate::finding::{Basis, Claim, Draft, Exhibit};
use crate::rule::{Context, Rule};
use crate::rules::layout::exhibits::{Removal, buckets, patterns, share_of_step};
use crate::rules::layout::group::{Group, groups, times, worthwhile};
use crate::rules::layout::kernels::is_kernel;
use crate::rules::layout::movers::{Mover, Role, movers};

/// See the card.
#[derive(Debug)]
pub struct WholeBufferCopy;

/// Elements in the minor dimension of a tile.
const LANES: u64 = 128;

/// What is wrong with a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    /// An argument is copied as it is.
    ArgumentCopied,
    /// Another buffer is copied as it is.
    BufferCopied,
    /// An argument gets another layout.
    ArgumentRelaid,
}

impl Rule for WholeBufferCopy {
    fn code(&self) -> &'static str {
        "TT602"
    }

    fn name(&self) -> &'static str {
        "whole-buffer-copy"
    }

    fn card(&self) -> &'static str {
        include_str!("whole_buffer_copy.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        let copies = movers(context).into_iter().filter_map(|mover| {
            let fault = match mover.role {
                Role::WholeCopy { argument: true } => Fault::ArgumentCopied,
                Role::WholeCopy { argument: false } => Fault::BufferCopied,
                Role::ArgumentRelayout => Fault::ArgumentRelaid,
                _ => return None,
            };
            Some(((fault, mover.pattern()), mover))
        });
        let groups = groups(copies, Mover::ms);
        worthwhile(context, groups)
            .filter_map(|group| draft(context, &group))
            .collect()
    }
}

fn draft(context: &Context<'_>, group: &Group<(Fault, String), Mover<'_>>) -> Option<Draft> {
    let (fault, _) = group.key;
    let first = group.members.first()?;
    let array = first.to?;
    let removal = Removal::of(context, &group.members);
    let count: f64 = group.members.iter().map(|m| m.op.step_occurrences).sum();
    let what = match fault {
        Fault::ArgumentCopied => "an argument is copied as it is",
        Fault::BufferCopied => "a whole buffer is copied as it is",
        Fault::ArgumentRelaid => "an argument gets another layout in every step",
    };
    let mut dims = array.clone();
    dims.layout = None;
    let often = if count.round() > 1.0 {
        format!(", {}", times(count))
    } else {
        String::new()
    };
    let mut evidence = vec![
        share_of_step(context, "time copying", group.sum),
        Exhibit::text(
            "size of the buffer",
            Bytes(array.padded_bytes().0).to_string(),
            "in memory, tile padding included",
        ),
    ];
    if let Some(reader) = reader(context, first) {
        evidence.push(reader);
    }
    evidence.extend(patterns(context, &group.members));
    Some(Draft {
        title: format!(
            "{what}: {dims} ({}){often}, {} of each {} step ({})",
            Bytes(array.padded_bytes().0),
            units::ms(group.sum),
            context.evidence.step_time(),
            percent(context.share(group.sum)),
        ),
        kind: AdviceKind::LayoutCopy,
        ops: group.members.iter().map(|mover| mover.op.id).collect(),
        evidence,
        claim: Some(Claim {
            expected_ms: removal.expected_ms,
            low_ms: 0.0,
            high_ms: group.sum,
            upper_bound_ms: group.sum,
            basis: Basis::Modelled,
            formula: format!(
                "{}; high: without the copy, all of its time, {:.3} ms",
                removal.words, group.sum
            ),
            buckets: buckets(&group.members),
        }),
        advice: advice(fault, first),
        caveats: caveats(fault),
    })
}

/// Who reads the copy, where the trace shows it.
fn reader(context: &Context<'_>, mover: &Mover<'_>) -> Option<Exhibit> {
    let evidence = context.evidence;
    let mut users: Vec<_> = evidence.users_of(mover.op).collect();
    users.sort_by_key(|user| !is_kernel(user));
    let user = users.first()?;
    let of = context.op(user);
    Some(Exhibit::text(
        "the copy is read by",
        format!("{} ({})", of.name, user.class.name()),
        of.framework_op.trim_end_matches(':').to_owned(),
    ))
}

fn advice(fault: Fault, copy: &Mover<'_>) -> Vec<String> {
    let mut advice = Vec::new();
    if let Some(from) = copy.from
        && let Some(&minor) = from.dims.last()
        && fault == Fault::ArgumentRelaid
        && !from.major_to_minor().is_sorted()
        && minor % LANES != 0
    {
        advice.push(format!(
            "round {minor} up to {}: arguments lie with that dimension minor which wastes least, so an odd last dimension puts another one there",
            minor.next_multiple_of(LANES)
        ));
    }
    let lines: &[&str] = match fault {
        Fault::ArgumentCopied | Fault::BufferCopied => &[
            "donate the argument that is updated (donate_argnums): the update then happens in place",
            "if it is donated: read it before it is written, not after, and let each kernel that does not write it take it without input_output_aliases",
            "in a scan: keep the array in the carry and update it there; passed through xs and ys it is a second array, copied back at the end",
        ],
        Fault::ArgumentRelaid => &[
            "store it in the layout that the program wants: compile once with Format(Layout.AUTO) for this argument and put the array into the layout that the compiler chose",
            "or keep the array with its dimensions in the other order, so that the same layout is row-major",
        ],
    };
    advice.extend(lines.iter().map(|&line| line.to_owned()));
    advice
}

fn caveats(fault: Fault) -> Vec<String> {
    let lines: &[&str] = match fault {
        Fault::ArgumentCopied | Fault::BufferCopied => &[
            "XLA copies a buffer where two uses conflict: one writes it while another still needs the old contents; where both are needed the copy must stay",
            "a donated buffer must not be used again by the caller",
        ],
        Fault::ArgumentRelaid => {
            &["if two programs want the array in different layouts, one of them has to copy"]
        }
    };
    lines.iter().map(|&line| line.to_owned()).collect()
}
