//! The sentence that says that memory ran out.

use crate::logs::out_of_memory::{Cause, Size, Space};

/// Words that begin such a sentence.
pub(super) const HEADLINES: [&str; 6] = [
    "Ran out of memory in memory space ",
    "Ran out of memory on HBM",
    "Attempting to reserve ",
    "Attempting to allocate ",
    "Scoped allocation with size",
    "Allocation (size=",
];

/// A sentence that was read.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Message {
    /// The memory that ran out.
    pub(super) space: Space,
    /// Why.
    pub(super) cause: Cause,
    /// The program or kernel that it names; may be empty.
    pub(super) program: String,
}

/// Where the sentence begins, if one does.
pub(super) fn headline(text: &str) -> Option<usize> {
    HEADLINES
        .iter()
        .filter_map(|headline| text.find(headline))
        .min()
}

/// Reads a sentence; `None` while its figures are not complete.
pub(super) fn parse(text: &str) -> Option<Message> {
    scoped(text)
        .or_else(|| single(text))
        .or_else(|| at_run_time(text))
        .or_else(|| capacity(text))
}

fn scoped(text: &str) -> Option<Message> {
    let size = Size::after(text, "Scoped allocation with size ")?;
    let limit = Size::after(text, " and limit ")?;
    let (_, rest) = text.split_once("exceeded scoped ")?;
    let over = Size::after(rest, " limit by ")?;
    let space = rest.split_whitespace().next().unwrap_or("vmem");
    let (_, about) = text.split_once(" for ").unwrap_or_default();
    Some(Message {
        space: Space::parse(space),
        cause: Cause::Scoped { size, limit, over },
        program: instruction(about),
    })
}

/// `%flash_attention.1 = bf16[…] custom-call(…)`: the name and shape, without the rest.
fn instruction(text: &str) -> String {
    let text = text.trim_start();
    if !text.starts_with('%') {
        return String::new();
    }
    let end = text.find(['(', '{']).unwrap_or(text.len());
    let mut words = text.get(..end).unwrap_or_default().split_whitespace();
    let (name, _, shape) = (words.next(), words.next(), words.next());
    match (name, shape) {
        (Some(name), Some(shape)) if shape.contains('[') => {
            // Without its layout.
            let shape = shape.split('{').next().unwrap_or(shape);
            format!("{name} = {shape}")
        }
        (Some(name), _) => name.to_owned(),
        _ => String::new(),
    }
}

fn single(text: &str) -> Option<Message> {
    let size = Size::after(text, "Allocation (size=")?;
    let capacity = Size::after(text, "would exceed memory (size=")?;
    let field = |name: &str, end: &[char]| {
        let (_, rest) = text.split_once(name)?;
        let end = rest.find(end).unwrap_or(rest.len());
        rest.get(..end)
    };
    let space = Space::parse(field("space=", &[',', ' ', ']'])?);
    let (_, program) = text.rsplit_once(":: ").unwrap_or_default();
    Some(Message {
        space,
        cause: Cause::Single {
            size,
            capacity,
            shape: field("shape = '", &['\'']).unwrap_or_default().to_owned(),
            tag: field("tag = '", &['\'']).unwrap_or_default().to_owned(),
        },
        program: program.trim().to_owned(),
    })
}

fn at_run_time(text: &str) -> Option<Message> {
    let program = text
        .split_once("loading program '")
        .and_then(|(_, rest)| rest.split_once('\''))
        .map(|(name, _)| name.to_owned())
        .unwrap_or_default();
    let free = || {
        let at = text.find("There are ")?;
        let free = Size::parse(text.get(at + "There are ".len()..)?)?;
        text.contains(" free").then_some(free)
    };
    let cause = if let Some(wanted) = Size::after(text, "Attempting to reserve ") {
        let (_, reserved) = text.split_once(" free, ")?;
        Cause::Reserve {
            wanted,
            free: free()?,
            reserved: Size::parse(reserved),
            reservable: text
                .contains("reservable")
                .then(|| Size::after(text, " and "))
                .flatten()?,
        }
    } else {
        let wanted = Size::after(text, "Attempting to allocate ")?;
        Cause::Allocate {
            wanted,
            free: free()?,
            contiguous: Size::after(text, "largest contiguous region of free memory is "),
        }
    };
    // `(0x0x0_HBM0)`: coordinates of the chip, memory and its number.
    let space = if text.contains("_VMEM") {
        Space::Vmem
    } else {
        Space::Hbm
    };
    Some(Message {
        space,
        cause,
        program,
    })
}

fn capacity(text: &str) -> Option<Message> {
    let module = text
        .split_once("HLO module: ")
        .map(|(_, rest)| rest.split([' ', '\n']).next().unwrap_or_default())
        .map(|name| name.trim_end_matches('.').to_owned())
        .unwrap_or_default();
    if let Some(used) = Size::after(text, "required for HLO temporaries (") {
        let capacity = Size::after(text, "exceeds available HBM (")?;
        return Some(Message {
            space: Space::Hbm,
            cause: Cause::Capacity {
                used,
                capacity,
                over: None,
                early: true,
            },
            program: module,
        });
    }
    let (_, rest) = text.split_once("Ran out of memory in memory space ")?;
    let space: String = rest.chars().take_while(|c| c.is_alphanumeric()).collect();
    let used = Size::after(rest, "Used ")?;
    let (_, after) = rest.split_once("Used ")?;
    let capacity = Size::after(after, " of ")?;
    let over = Size::after(after, "capacity by ")?;
    Some(Message {
        space: Space::parse(&space),
        cause: Cause::Capacity {
            used,
            capacity,
            over: Some(over),
            early: false,
        },
        program: module,
    })
}
