//! The tables below the sentence: totals, what a program needs, its largest allocations.

use crate::logs::At;
use crate::logs::out_of_memory::{Allocation, OutOfMemory, Size, Space};
use crate::program::shape::Shape;

/// Allocations that are kept of one report: libtpu lists twenty.
const MAX_ALLOCATIONS: usize = 64;
/// Rows of totals that are kept.
const MAX_ROWS: usize = 16;
/// Characters kept of a label or an operator.
const MAX_TEXT: usize = 4096;

/// Words of which one stands in each line that begins a part of a table.
pub(super) const TRIGGERS: [&str; 10] = [
    " usage >= ",
    " requirement ",
    "Largest program allocations in ",
    "Size: ",
    "Operator: ",
    "Shape: ",
    "Unpadded size: ",
    "Extra memory due to padding: ",
    "XLA label: ",
    "Allocation type: ",
];

/// Which rows follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Section {
    /// None that is known.
    #[default]
    None,
    /// Rows of `Total hbm usage`.
    Totals,
    /// Rows of `Program hbm requirement`.
    Requirement,
}

/// A row with its size: `    HLO temp   27.38G (5.6% utilization, …)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What it is, as `arguments` or `HLO temp`.
    pub name: String,
    /// Its size; absent where the text says that it is unknown.
    pub size: Option<Size>,
}

/// How well a program's temporaries use their memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Utilization {
    /// Unpadded over padded bytes, in percent, as written.
    pub percent: f64,
    /// Bytes of the elements.
    pub unpadded: Option<Size>,
    /// Bytes with tile padding.
    pub padded: Option<Size>,
    /// Bytes lost between buffers.
    pub fragmentation: Option<Size>,
}

/// What a line begins, where it stands at the head of a table.
pub(super) enum Head {
    /// `Total hbm usage >= 27.90G:`.
    Total(Space, Size),
    /// `Program hbm requirement 27.38G:`.
    Requirement(Space, Size),
    /// `Largest program allocations in hbm:`.
    Largest(Space),
}

/// Reads the head of a table.
pub(super) fn head(text: &str) -> Option<Head> {
    let word = |rest: &str| Space::parse(rest.split([' ', ':']).next().unwrap_or_default());
    if let Some((_, rest)) = text.split_once("Total ")
        && let Some((space, size)) = rest.split_once(" usage >= ")
    {
        return Some(Head::Total(Space::parse(space), Size::parse(size)?));
    }
    if let Some((_, rest)) = text.split_once("Program ")
        && let Some((space, size)) = rest.split_once(" requirement ")
        && !space.contains(' ')
    {
        return Some(Head::Requirement(Space::parse(space), Size::parse(size)?));
    }
    let (_, rest) = text.split_once("Largest program allocations in ")?;
    Some(Head::Largest(word(rest)))
}

/// Reads a row of a section; false where the line is no such row.
pub(super) fn row(text: &str, section: Section, report: &mut OutOfMemory) -> bool {
    const NAMES: [&str; 8] = [
        "reserved",
        "program",
        "arguments",
        "HLO temp",
        "global",
        "scoped",
        "overlays",
        "stack",
    ];
    let rows = match section {
        Section::None => return false,
        Section::Totals => &mut report.totals,
        Section::Requirement => &mut report.parts,
    };
    if rows.len() >= MAX_ROWS {
        return false;
    }
    // Rows are indented, behind whatever prefix a launcher gives to all lines.
    let Some((name, rest)) = NAMES.iter().find_map(|name| {
        let at = text.find(name)?;
        let rest = text.get(at + name.len()..)?;
        let indented = text.get(..at)?.ends_with("    ");
        (indented && rest.starts_with(' ')).then_some((name, rest))
    }) else {
        return false;
    };
    rows.push(Row {
        name: (*name).to_owned(),
        size: Size::parse(rest),
    });
    if let Some((before, after)) = rest.split_once("% utilization") {
        let digits = before.rsplit('(').next().unwrap_or_default();
        report.utilization = digits.trim().parse().ok().map(|percent| Utilization {
            percent,
            unpadded: Size::after(after, "Unpadded ("),
            padded: Size::after(after, "Padded ("),
            fragmentation: Size::after(after, "% fragmentation ("),
        });
    }
    true
}

/// Reads a line of the list of allocations; false where the line is none.
pub(super) fn allocation(text: &str, at: At, list: &mut Vec<Allocation>) -> bool {
    if let Some((before, rest)) = text.split_once(". Size: ") {
        let number = before.trim_start();
        let number = number.rsplit(' ').next().unwrap_or(number);
        if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
            return false;
        }
        return begin(list, at, |allocation| allocation.size = Size::parse(rest));
    }
    if let Some(rest) = field(text, "Shape: ") {
        let shape = shape_at_start(rest);
        // Other programs print shapes too: only one with a layout is the compiler's.
        if shape.as_ref().is_none_or(|array| array.layout.is_none()) {
            return false;
        }
        let start = list.last().is_none_or(|last| last.shape.is_some());
        if start {
            begin(list, at, |_| ());
        }
        let Some(last) = list.last_mut() else {
            return false;
        };
        last.shape = shape;
        return true;
    }
    let Some(last) = list.last_mut() else {
        return false;
    };
    let clip = |text: &str| text.chars().take(MAX_TEXT).collect::<String>();
    if let Some(rest) = field(text, "Operator: ") {
        last.operator = clip(rest);
    } else if let Some(rest) = field(text, "Unpadded size: ") {
        last.unpadded = Size::parse(rest);
    } else if let Some(rest) = field(text, "Extra memory due to padding: ") {
        last.extra = Size::parse(rest);
        last.expansion = rest
            .split_once('(')
            .and_then(|(_, rest)| rest.split_once("x expansion"))
            .and_then(|(digits, _)| digits.parse().ok());
    } else if let Some(rest) = field(text, "XLA label: ") {
        last.label = clip(rest);
    } else if let Some(rest) = field(text, "Allocation type: ") {
        last.kind = clip(rest);
    } else {
        return false;
    }
    true
}

fn begin(list: &mut Vec<Allocation>, at: At, fill: impl FnOnce(&mut Allocation)) -> bool {
    if list.len() >= MAX_ALLOCATIONS {
        return false;
    }
    let mut allocation = Allocation {
        at,
        ..Allocation::default()
    };
    fill(&mut allocation);
    list.push(allocation);
    true
}

/// What stands after the name of a field that begins the line, whatever a log put before it.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let at = text.find(name)?;
    let before = text.get(..at)?;
    // `Shape: ` within a sentence is none of ours.
    (before.is_empty() || before.ends_with(' ') || before.ends_with('\t'))
        .then(|| text.get(at + name.len()..))
        .flatten()
        .map(str::trim)
}

/// The array at the start of a text: `bf16[2048,1]{0,1:T(4,128)(2,1)} …`.
fn shape_at_start(text: &str) -> Option<crate::program::shape::Array> {
    super::padding::shapes_in(text).into_iter().next()
}

impl Allocation {
    /// The shape with its layout, as HLO text writes it.
    #[must_use]
    pub fn shape_text(&self) -> String {
        self.shape
            .clone()
            .map(|array| Shape::Array(array).to_string())
            .unwrap_or_default()
    }
}
