//! The control flow of a kernel: what its branches, loops and transfers depend on, and no more.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::compiler::llo::memory::GRANULE;
use crate::compiler::llo::operation::{Action, Names, Operand, Operation, Register, Target};
use crate::compiler::llo::text::{self, Layout};
use crate::note::Notes;

/// Bundles that still run after a branch, on every generation up to v6e.
const DELAY_SLOTS: u32 = 4;

/// Far above what any kernel has; they bound the work on a text that is not what it seems.
const MAX_BRANCHES: usize = 1 << 16;
const MAX_LOOPS: usize = 1 << 10;

/// A branch whose target is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Branch {
    /// Index of the operation that it is.
    pub operation: u32,
    /// Index of its bundle.
    pub bundle: u32,
    /// The bundle it leads to.
    pub target: u32,
    /// The last bundle that runs before it leads there.
    pub last: u32,
    /// The loop that it closes, as an index of [`Control::loops`].
    pub around: Option<u32>,
    /// The innermost loop that it is in and leaves, likewise.
    pub exits: Option<u32>,
}

/// A backward branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BackEdge {
    /// First bundle of the body.
    pub start: u32,
    /// Last bundle of the body, delay slots and all.
    pub end: u32,
    /// The bound that the exit test compares with, where that is a literal.
    pub bound: Option<u64>,
}

/// A kernel as the sequence of what decides its course.
#[derive(Clone, Debug, Default)]
pub(super) struct Control {
    pub operations: Vec<Operation>,
    /// By index of the operation.
    pub branches: BTreeMap<u32, Branch>,
    /// Backward branches in order.
    pub loops: Vec<BackEdge>,
    pub names: Names,
    /// Cycles before each bundle, and all at the end.
    pub cycles: Vec<u64>,
    /// Bytes of a DMA granule.
    pub granule: u64,
}

impl Control {
    /// Reads a bundle listing.
    pub(super) fn read(listing: &str, notes: &mut Notes) -> Self {
        let mut names = Names::default();
        let mut operations = Vec::new();
        let layout = text::read(listing, notes, |bundle, slot| {
            operations.extend(Operation::read(bundle, slot, &mut names));
        });
        let mut cycles = Vec::with_capacity(layout.bundles.len() + 1);
        let mut total = 0_u64;
        cycles.push(total);
        for bundle in &layout.bundles {
            total = total.saturating_add(1).saturating_add(bundle.delay);
            cycles.push(total);
        }
        let mut operations = needed(operations, &names);
        // What arrives in registers is there before the bundle's instructions read it, wherever
        // the listing writes it.
        operations.sort_by_key(|operation| {
            let arrives = matches!(operation.action, Action::Phi { .. });
            (operation.bundle, !arrives)
        });
        let (branches, loops) = branches(&operations, &layout, notes);
        Self {
            operations,
            branches,
            loops,
            names,
            cycles,
            granule: text::granule_bytes(listing).unwrap_or(GRANULE),
        }
    }

    /// How many bundles there are.
    pub(super) fn bundles(&self) -> usize {
        self.cycles.len().saturating_sub(1)
    }

    /// The first operation at or after a bundle, by its index.
    pub(super) fn first_operation(&self, bundle: u32) -> usize {
        self.operations
            .partition_point(|operation| operation.bundle < bundle)
    }

    /// Every bundle as often as the bounds of the loops around it say: predicated regions count
    /// as run, and loops without a literal bound as run once.
    pub(super) fn static_cycles(&self) -> u64 {
        // Loops nest, so a sweep with a stack of factors would do; the few loops that there are
        // make products per stretch between their ends as cheap.
        let mut cuts: Vec<u32> = vec![0, self.bundles() as u32];
        for edge in &self.loops {
            cuts.extend([edge.start, edge.end + 1]);
        }
        cuts.sort_unstable();
        cuts.dedup();
        let cycles = |at: u32| self.cycles.get(at as usize).copied().unwrap_or(0);
        let mut total = 0_u64;
        for pair in cuts.windows(2) {
            let &[from, to] = pair else { continue };
            let times = self
                .loops
                .iter()
                .filter(|edge| edge.start <= from && to <= edge.end + 1)
                .fold(1_u64, |product, edge| {
                    product.saturating_mul(edge.bound.unwrap_or(1))
                });
            let length = cycles(to).saturating_sub(cycles(from));
            total = total.saturating_add(length.saturating_mul(times));
        }
        total
    }
}

fn branches(
    operations: &[Operation],
    layout: &Layout,
    notes: &mut Notes,
) -> (BTreeMap<u32, Branch>, Vec<BackEdge>) {
    let end = (layout.bundles.len() as u32).saturating_sub(1);
    let mut branches = BTreeMap::new();
    let mut loops = Vec::new();
    let mut tests: FxHashMap<Register, &[Operand]> = FxHashMap::default();
    for (index, operation) in operations.iter().enumerate() {
        if let Action::Compute { to, operands, .. } = &operation.action {
            tests.insert(*to, operands);
        }
        let Action::Branch(target) = operation.action else {
            continue;
        };
        let target = match target {
            Target::Region(region) => layout.region(region),
            Target::Address(address) => layout.address(address),
        };
        let Some(target) = target else {
            notes.warn(
                "llo-branch-target",
                "a branch of a kernel leads nowhere that its listing shows: it counts as not taken",
            );
            continue;
        };
        if branches.len() >= MAX_BRANCHES || loops.len() >= MAX_LOOPS {
            notes.warn(
                "llo-branches",
                "a kernel has more branches than are followed: the last of them count as not taken",
            );
            break;
        }
        let mut branch = Branch {
            operation: index as u32,
            bundle: operation.bundle,
            target,
            last: operation.bundle,
            around: None,
            exits: None,
        };
        if target <= operation.bundle {
            branch.around = Some(loops.len() as u32);
            let test = operation.guard.and_then(|guard| tests.get(&guard.register));
            let edge = BackEdge {
                start: target,
                end: operation.bundle,
                bound: test.and_then(|operands| bound(operands)),
            };
            loops.push(edge);
        }
        branches.insert(branch.operation, branch);
    }
    let slots = delay_slots(&branches, layout);
    for branch in branches.values_mut() {
        branch.last = branch.bundle.saturating_add(slots).min(end);
    }
    for edge in &mut loops {
        edge.end = edge.end.saturating_add(slots).min(end);
    }
    for branch in branches.values_mut() {
        let inside = |edge: &BackEdge| {
            edge.start <= branch.bundle && branch.bundle <= edge.end && branch.target > edge.end
        };
        branch.exits = loops
            .iter()
            .enumerate()
            .filter(|(_, edge)| inside(edge))
            .min_by_key(|(_, edge)| edge.end - edge.start)
            .map(|(index, _)| index as u32);
    }
    (branches, loops)
}

/// What follows a loop starts right after its delay slots, and stands less deep.
fn delay_slots(branches: &BTreeMap<u32, Branch>, layout: &Layout) -> u32 {
    let after = |branch: &Branch| {
        let depth = layout.bundles.get(branch.bundle as usize)?.depth;
        let next = layout.bundles.get(branch.bundle as usize + 1..)?;
        let next = next.iter().take(DELAY_SLOTS as usize);
        next.take_while(|b| b.empty || b.depth >= depth)
            .count()
            .try_into()
            .ok()
    };
    branches
        .values()
        .filter(|b| b.target <= b.bundle)
        .filter_map(after)
        .min()
        .unwrap_or(DELAY_SLOTS)
}

/// The literal that an exit test compares with.
fn bound(test: &[Operand]) -> Option<u64> {
    match test.get(1)? {
        Operand::Constant(bound) => u64::try_from(*bound).ok().filter(|bound| *bound > 0),
        _ => None,
    }
}

/// Those operations that a branch, a transfer or a wait depends on.
fn needed(operations: Vec<Operation>, names: &Names) -> Vec<Operation> {
    let mut defined_by: Vec<Vec<u32>> = vec![Vec::new(); names.len()];
    let mut stores = Vec::new();
    let mut keep = vec![false; operations.len()];
    let mut work: Vec<u32> = Vec::new();
    for (index, operation) in operations.iter().enumerate() {
        let index = index as u32;
        match &operation.action {
            Action::Compute { to, .. } | Action::Phi { to } | Action::Load { to, .. } => {
                for register in [Some(*to), names.home(*to)].into_iter().flatten() {
                    if let Some(list) = defined_by.get_mut(register as usize) {
                        list.push(index);
                    }
                }
            }
            Action::Store { .. } => stores.push(index),
            Action::Branch(_) | Action::Transfer { .. } | Action::Wait { .. } => work.push(index),
        }
    }
    while let Some(index) = work.pop() {
        let (Some(kept), Some(operation)) =
            (keep.get_mut(index as usize), operations.get(index as usize))
        else {
            continue;
        };
        if std::mem::replace(kept, true) {
            continue;
        }
        for register in uses(operation, names) {
            // Each list is followed once: what it held is kept from here on.
            if let Some(list) = defined_by.get_mut(register as usize) {
                work.append(list);
            }
        }
        if matches!(operation.action, Action::Load { .. }) {
            work.append(&mut stores);
        }
    }
    let mut keep = keep.into_iter();
    let mut operations = operations;
    operations.retain(|_| keep.next().unwrap_or(false));
    operations
}

fn uses(operation: &Operation, names: &Names) -> Vec<Register> {
    let mut registers = Vec::new();
    registers.extend(operation.guard.map(|guard| guard.register));
    let mut add = |operand: &Operand| match operand {
        Operand::Register(register) => registers.push(*register),
        Operand::Sum(_, terms) => registers.extend(terms.iter()),
        Operand::Constant(_) | Operand::Unknown => {}
    };
    match &operation.action {
        Action::Compute {
            operands,
            otherwise,
            ..
        } => operands.iter().chain(otherwise).for_each(add),
        Action::Phi { to } => registers.extend(names.home(*to)),
        Action::Load { from, .. } => add(from),
        Action::Store { at, value } => {
            add(at);
            add(value);
        }
        Action::Branch(_) => {}
        Action::Transfer {
            source,
            granules,
            destination,
            flag,
            ..
        } => {
            // Where data goes matters for scalars alone, and its address is cheap to keep.
            for operand in [source, granules, destination, flag] {
                add(operand);
            }
        }
        Action::Wait { flag, granules } => {
            add(flag);
            add(granules);
        }
    }
    registers
}
