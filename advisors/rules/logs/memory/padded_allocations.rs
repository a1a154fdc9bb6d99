//! Memory ran out because tiles pad.

use std::collections::BTreeMap;

use knowledge::advice::AdviceKind;
use profiler::logs::Logs;
use profiler::logs::out_of_memory::{
    Allocation, Arrangement, Cause, OutOfMemory, PaddedAxis, Padding, Role, Size, Space,
};
use profiler::program::shape::{Array, Shape};
use profiler::units::{Bytes, percent};

use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::memory::{label, operator, places, size, totals};
use crate::rules::logs::place;

/// See the card.
#[derive(Debug)]
pub struct PaddedAllocations;

/// Padding below this factor is left alone.
const MIN_FACTOR: f64 = 1.5;
/// Padding below this share of what the program takes is left alone.
const MIN_SHARE: f64 = 0.1;
/// Utilization in percent below which padding is the story, whatever the list shows.
const POOR_UTILIZATION: f64 = 50.0;
/// Shapes that are told of.
const MAX_SHAPES: usize = 3;

impl Rule for PaddedAllocations {
    fn code(&self) -> &'static str {
        "TL301"
    }

    fn name(&self) -> &'static str {
        "padded-allocations"
    }

    fn card(&self) -> &'static str {
        include_str!("padded_allocations.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        let reports = logs.out_of_memory.reports.iter();
        reports.filter_map(|report| remark(logs, report)).collect()
    }
}

/// Allocations of one shape.
#[derive(Clone, Debug)]
struct Group<'a> {
    first: &'a Allocation,
    /// What pads: the allocation's own array, or one that its label reads.
    padding: Option<Padding>,
    operand: bool,
    count: u64,
    /// Padding of all of them.
    extra: u64,
}

/// Padding of all allocations whose padding is known, in bytes.
pub(super) fn padding_bytes(report: &OutOfMemory) -> u64 {
    let listed = groups(report)
        .iter()
        .filter(|group| !group.operand)
        .fold(0u64, |sum, group| sum.saturating_add(group.extra));
    let temporaries = report.utilization.as_ref().and_then(|utilization| {
        if let (Some(unpadded), Some(padded)) = (&utilization.unpadded, &utilization.padded) {
            return Some(padded.bytes.0.saturating_sub(unpadded.bytes.0));
        }
        // Old reports give the percentage alone.
        let whole = report.row("HLO temp")?.bytes.0 as f64;
        Some((whole * (1.0 - utilization.percent / 100.0).clamp(0.0, 1.0)) as u64)
    });
    listed.max(temporaries.unwrap_or(0))
}

fn remark(logs: &Logs, report: &OutOfMemory) -> Option<Remark> {
    if report.space != Space::Hbm || report.register_spills().is_some() {
        return None;
    }
    let whole = whole(report);
    let groups = groups(report);
    let extra = padding_bytes(report);
    let share = whole.map(|whole| extra as f64 / (whole.bytes.0 as f64).max(1.0));
    let poor = report
        .utilization
        .as_ref()
        .is_some_and(|utilization| utilization.percent < POOR_UTILIZATION);
    if groups.is_empty() && !poor {
        return None;
    }
    if share.is_some_and(|share| share < MIN_SHARE) && !poor {
        return None;
    }
    let mut remark = match groups.first() {
        Some(worst) => of_group(report, worst),
        None => of_utilization(report)?,
    };
    remark.places = places(logs, report, "memory ran out");
    for group in groups.iter().take(MAX_SHAPES) {
        let mut there = place(logs, group.first.at, &snippet(group), "");
        there.label = match &group.padding {
            Some(padding) => format!("{} padded {:.1}-fold", bare(&padding.array), padding.factor),
            None => "padded".to_owned(),
        };
        remark.places.push(there);
    }
    for group in groups.iter().skip(1).take(MAX_SHAPES - 1) {
        remark.evidence.push(Exhibit::text(
            "pads too",
            format!("{}: {} of padding", group_words(group), Bytes(group.extra)),
            "largest program allocations",
        ));
    }
    remark.evidence.extend(totals(report));
    if let Cause::Capacity {
        used,
        capacity,
        over,
        ..
    } = &report.cause
    {
        remark.evidence.push(Exhibit::text(
            "memory",
            match over {
                Some(over) => format!("{used} of {capacity}, {over} too much"),
                None => format!("{used} of {capacity}"),
            },
            "the compiler's message",
        ));
        if let Some(over) = over {
            remark.evidence.push(Exhibit::text(
                "without padding",
                if extra >= over.bytes.0 {
                    "it fits".to_owned()
                } else {
                    "it still does not fit".to_owned()
                },
                format!("{} of padding in all against {over} too much", Bytes(extra)),
            ));
        }
    }
    Some(remark)
}

/// What the padding is a share of.
fn whole(report: &OutOfMemory) -> Option<&Size> {
    let used = match &report.cause {
        Cause::Capacity { used, .. } => Some(used),
        _ => None,
    };
    used.or(report.total.as_ref())
        .or(report.requirement.as_ref())
}

fn groups(report: &OutOfMemory) -> Vec<Group<'_>> {
    let mut groups: BTreeMap<String, Group<'_>> = BTreeMap::new();
    for allocation in &report.allocations {
        let Some(group) = group_of(allocation) else {
            continue;
        };
        let key = match &group.padding {
            Some(padding) => Shape::Array(padding.array.clone()).to_string(),
            None => allocation.shape_text(),
        };
        groups
            .entry(key)
            .and_modify(|known| {
                known.count += 1;
                known.extra = known.extra.saturating_add(group.extra);
            })
            .or_insert(group);
    }
    let mut groups: Vec<Group<'_>> = groups.into_values().collect();
    groups.sort_by_key(|group| (std::cmp::Reverse(group.extra), group.first.at));
    groups
}

fn group_of(allocation: &Allocation) -> Option<Group<'_>> {
    let padding = allocation.padding();
    let factor = allocation
        .expansion
        .or(padding.as_ref().map(|padding| padding.factor));
    if let Some(factor) = factor
        && factor >= MIN_FACTOR
    {
        let computed = padding.as_ref().map(|padding| {
            let array = &padding.array;
            array.padded_bytes().0.saturating_sub(array.bytes().0)
        });
        let extra = allocation.extra.as_ref().map(|extra| extra.bytes.0);
        return Some(Group {
            first: allocation,
            // Tiles that do not explain the factor would name the wrong axis.
            padding: padding.filter(|padding| {
                allocation
                    .expansion
                    .is_none_or(|expansion| padding.agrees_with(expansion))
            }),
            operand: false,
            count: 1,
            extra: extra.or(computed).unwrap_or(0),
        });
    }
    let padding = allocation.padded_operands().into_iter().next()?;
    let array = &padding.array;
    let extra = array.padded_bytes().0.saturating_sub(array.bytes().0);
    Some(Group {
        first: allocation,
        extra,
        padding: Some(padding),
        operand: true,
        count: 1,
    })
}

fn of_group(report: &OutOfMemory, group: &Group<'_>) -> Remark {
    let allocation = group.first;
    let taken = allocation
        .size
        .as_ref()
        .map(|size| format!(" of {size}"))
        .unwrap_or_default();
    let each = if group.count > 1 {
        format!(" in each of {} buffers", group.count)
    } else {
        String::new()
    };
    let padding_one = match (&allocation.extra, group.operand) {
        (Some(extra), false) => extra.to_string(),
        _ => Bytes(group.extra / group.count.max(1)).to_string(),
    };
    let title = match (&group.padding, group.operand) {
        (Some(padding), false) => format!(
            "padding takes {padding_one}{taken}{each}: {} is padded {}-fold, {}",
            bare(&padding.array),
            factor(allocation, padding),
            axes(padding),
        ),
        (Some(padding), true) => format!(
            "{} is padded {:.0}-fold ({} of elements take {}): {}",
            bare(&padding.array),
            padding.factor,
            padding.array.bytes(),
            padding.array.padded_bytes(),
            axes(padding),
        ),
        (None, _) => format!(
            "padding takes {padding_one}{taken}{each}: {} is padded {}-fold",
            allocation
                .shape
                .as_ref()
                .map(|array| bare(array).to_string())
                .unwrap_or_default(),
            allocation.expansion.unwrap_or_default(),
        ),
    };
    // A table is printed where memory ran out.
    let mut remark = Remark::new(AdviceKind::Padding, Severity::High, title);
    let source = "largest program allocations";
    let mut name = operator(allocation);
    if name.is_empty() {
        name = label(allocation);
    }
    if !name.is_empty() {
        remark.evidence.push(Exhibit::text("made by", name, source));
    }
    if let Some(bytes) = &allocation.size {
        remark.evidence.push(size("the buffer", bytes, source));
    }
    if let Some(bytes) = &allocation.unpadded {
        remark.evidence.push(size("its elements", bytes, source));
    }
    if let Some(extra) = &allocation.extra {
        let words = match allocation.expansion {
            Some(expansion) => format!("{extra} ({expansion:.1}x)"),
            None => extra.to_string(),
        };
        remark
            .evidence
            .push(Exhibit::text("its padding", words, source));
    }
    if let Some(padding) = &group.padding {
        remark.evidence.push(Exhibit::text(
            "layout",
            Shape::Array(padding.array.clone()).to_string(),
            if padding.tiles_printed {
                format!("tiles as printed: {:.2}-fold by arithmetic", padding.factor)
            } else {
                format!(
                    "tiles inferred from the factor that the report states: {:.2}-fold",
                    padding.factor
                )
            },
        ));
        remark.advice = advice(padding, group.operand);
    }
    remark.advice.push(
        "sizes after sharding count: keep the two minor axes multiples of 128 and of 8 (16 for bf16, 32 for 8 bit)"
            .to_owned(),
    );
    if report.cause == Cause::TableOnly {
        remark.caveats.push(
            "the text holds a part of the report: how much memory there was is not in it"
                .to_owned(),
        );
    }
    remark.caveats.push("XLA may choose another layout after the change; what the arithmetic promises holds for the same tiles".to_owned());
    remark
}

fn of_utilization(report: &OutOfMemory) -> Option<Remark> {
    let utilization = report.utilization.as_ref()?;
    let mut title = format!(
        "padding is {} of the temporaries ({} % utilization)",
        percent(1.0 - utilization.percent / 100.0),
        utilization.percent
    );
    if let (Some(unpadded), Some(padded)) = (&utilization.unpadded, &utilization.padded) {
        title = format!("{title}: {unpadded} of elements take {padded}");
    }
    let channels: Vec<(&Allocation, Vec<PaddedAxis>)> = report
        .allocations
        .iter()
        .map(|allocation| (allocation, allocation.convolution_channels()))
        .filter(|(_, channels)| !channels.is_empty())
        .collect();
    let mut remark = Remark::new(AdviceKind::Padding, Severity::High, title);
    if let Some((allocation, axes)) = channels.first() {
        let sizes: Vec<String> = axes
            .iter()
            .map(|axis| format!("{} ({}x)", axis.size, axis.padded / axis.size.max(1)))
            .collect();
        let counts = sizes.join(" and ");
        remark.title.push_str(&format!(
            "; a convolution has channels of {counts} where 128 lanes are filled"
        ));
        remark.evidence.push(Exhibit::text(
            "channels in the lanes",
            counts,
            format!(
                "with 128 lanes for the channels its array takes just the {} of the largest allocation",
                allocation.size.as_ref().map(Size::to_string).unwrap_or_default()
            ),
        ));
        remark.advice.push("give the convolution more channels: space-to-depth (fold blocks of the image into channels), or batch several inputs into the channel axis".to_owned());
        remark.advice.push("with so few channels, write it as shifted multiply-adds on an array whose minor axis is a spatial one".to_owned());
    } else {
        remark.advice.push("look for arrays whose minor axis is far below 128 or that have an axis of size 1 beside it, in the list of the largest allocations".to_owned());
    }
    Some(remark)
}

/// The factor as the report states it, else by arithmetic.
fn factor(allocation: &Allocation, padding: &Padding) -> String {
    let stated = allocation.expansion.unwrap_or(padding.factor);
    if (stated - stated.round()).abs() < 0.05 {
        format!("{stated:.0}")
    } else {
        format!("{stated:.1}")
    }
}

/// `axis 3 (size 2) is the minor one and fills 128 lanes`.
fn axes(padding: &Padding) -> String {
    let words: Vec<String> = padding
        .axes
        .iter()
        .take(2)
        .map(|axis| match axis.role {
            Role::Lanes => format!(
                "axis {} (size {}) is the minor one and takes {} lanes",
                axis.axis, axis.size, axis.padded
            ),
            Role::Sublanes => format!(
                "axis {} (size {}) lies along the sublanes and takes {}",
                axis.axis, axis.size, axis.padded
            ),
            Role::Outer => format!(
                "axis {} (size {}) takes {}",
                axis.axis, axis.size, axis.padded
            ),
        })
        .collect();
    words.join("; ")
}

fn advice(padding: &Padding, operand: bool) -> Vec<String> {
    let mut advice = Vec::new();
    let worst = padding.axes.first();
    if let Some(axis) = worst.filter(|axis| axis.role == Role::Sublanes && axis.size == 1) {
        advice.push(format!(
            "drop axis {} of size 1 (squeeze it), or avoid the transpose that puts it beside the minor axis",
            axis.axis
        ));
    }
    if let Some(best) = padding.rearranged() {
        advice.push(match best.how {
            Arrangement::Fold { axis, into, dims } => format!(
                "fold axis {axis} into axis {into}: [{}] holds the same elements in {}",
                join(&dims),
                best.bytes
            ),
            Arrangement::MinorAxis { axis } => format!(
                "make axis {axis} (size {}) the minor one, by a transpose at the source: {} under the same tiles",
                padding.array.dims.get(axis).copied().unwrap_or(0),
                best.bytes
            ),
        });
    }
    if let Some(axis) = worst.filter(|axis| axis.role == Role::Lanes && axis.size < 128) {
        if operand {
            advice.push(format!(
                "reshape without passing through a minor axis of {}: reorder the reshape and transpose so that it stays major",
                axis.size
            ));
        } else {
            advice.push(format!(
                "or widen axis {}: up to 128 costs no memory; for images, space-to-depth",
                axis.axis
            ));
        }
    }
    advice
}

fn snippet(group: &Group<'_>) -> String {
    let allocation = group.first;
    allocation.size.as_ref().map_or_else(
        || allocation.label.chars().take(120).collect(),
        |size| format!("{size}, {}", allocation.shape_text()),
    )
}

fn group_words(group: &Group<'_>) -> String {
    let array = group.padding.as_ref().map(|padding| &padding.array);
    let array = array.or(group.first.shape.as_ref()).map(bare);
    let array = array.map(|array| array.to_string()).unwrap_or_default();
    if group.count > 1 {
        format!("{} times {array}", group.count)
    } else {
        array
    }
}

/// The shape without its layout.
fn bare(array: &Array) -> Array {
    Array {
        layout: None,
        ..array.clone()
    }
}

fn join(dims: &[u64]) -> String {
    let dims: Vec<String> = dims.iter().map(u64::to_string).collect();
    dims.join(",")
}
