//! What a slot does to the control of a kernel: scalar arithmetic, branches, transfers and waits.
//!
//! Vector and matrix instructions decide nothing, so they are only counted as cycles.

use rustc_hash::FxHashMap;

use crate::compiler::llo::arithmetic::Function;

/// A register by the name that the compiler gave it, or a place of the register file.
pub(super) type Register = u32;

/// Addresses of different allocations and operands never meet.
const SPACE: u32 = 40;
/// Operands come after all allocations.
const FIRST_OPERAND: i64 = 1 << 21;

/// A value that an instruction takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Operand {
    Constant(i64),
    Register(Register),
    /// An address: a constant and registers.
    Sum(i64, Box<[Register]>),
    Unknown,
}

/// A condition on an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Guard {
    pub register: Register,
    pub negated: bool,
}

/// Where a branch leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Region(u32),
    Address(u64),
}

/// What moves where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    FromHbm,
    ToHbm,
    /// Both ends are in HBM.
    WithinHbm,
    /// HBM to scalar memory.
    ToScalars,
    OnChip,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Compute {
        to: Register,
        function: Function,
        operands: Vec<Operand>,
        /// What `to` holds where the guard fails.
        otherwise: Option<Operand>,
    },
    /// The value that arrives in the place of `to`.
    Phi {
        to: Register,
    },
    Load {
        to: Register,
        from: Operand,
    },
    Store {
        at: Operand,
        value: Operand,
    },
    Branch(Target),
    Transfer {
        route: Route,
        source: Operand,
        granules: Operand,
        destination: Operand,
        flag: Operand,
    },
    Wait {
        flag: Operand,
        granules: Operand,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Operation {
    /// Index of its bundle.
    pub bundle: u32,
    pub guard: Option<Guard>,
    pub action: Action,
}

/// Where a kernel on a chip whose two cores are one device finds which of them it runs on
/// (`#allocation0`). Each has its part of the grid.
pub(super) const CORE_NUMBER: i64 = 1 << SPACE;

/// Interned names of registers and allocations.
#[derive(Clone, Debug)]
pub(super) struct Names {
    registers: FxHashMap<String, Register>,
    /// The place of each register in the register file, a register too.
    home: Vec<Option<Register>>,
    allocations: FxHashMap<String, i64>,
}

impl Default for Names {
    fn default() -> Self {
        Self {
            registers: FxHashMap::default(),
            home: Vec::new(),
            allocations: FxHashMap::from_iter([("#allocation0".to_owned(), CORE_NUMBER)]),
        }
    }
}

impl Names {
    /// How many registers there are.
    pub(super) fn len(&self) -> usize {
        self.home.len()
    }

    /// The place of a register in the register file.
    pub(super) fn home(&self, register: Register) -> Option<Register> {
        self.home.get(register as usize).copied().flatten()
    }

    fn register(&mut self, name: &str) -> Register {
        if let Some(register) = self.registers.get(name) {
            return *register;
        }
        let home = name
            .split_once('_')
            .map(|(_, place)| self.register(place.rsplit('_').next().unwrap_or(place)));
        let register = self.home.len() as Register;
        self.home.push(home);
        self.registers.insert(name.to_owned(), register);
        register
    }

    fn allocation(&mut self, name: &str) -> i64 {
        if let Some(base) = self.allocations.get(name) {
            return *base;
        }
        let next = (self.allocations.len() as i64 + 1).min(FIRST_OPERAND - 1);
        let base = next << SPACE;
        self.allocations.insert(name.to_owned(), base);
        base
    }
}

/// The address of an operand of the kernel.
pub(super) fn operand_address(index: u32) -> i64 {
    (FIRST_OPERAND + i64::from(index).min(FIRST_OPERAND - 1)) << SPACE
}

/// The operand whose address this is.
pub(super) fn operand_index(address: i64) -> Option<u32> {
    let index = (address >> SPACE) - FIRST_OPERAND;
    (index >= 0 && address & ((1 << SPACE) - 1) == 0)
        .then(|| u32::try_from(index).ok())
        .flatten()
}

impl Operation {
    /// Reads a slot; `None` where it decides nothing.
    pub(super) fn read(bundle: u32, slot: &str, names: &mut Names) -> Option<Self> {
        let (left, right) = slot.strip_prefix('%')?.split_once('=')?;
        let left = left.trim();
        let result = is_scalar(left);
        let right = right.trim_start();
        let (opcode, rest) = right.split_once([' ', '\t']).unwrap_or((right, ""));
        if !result && !opcode.starts_with(['s', 'd']) {
            return None;
        }
        let (guard, otherwise, rest) = guard(rest, names);
        let action = if result {
            scalar(left, opcode, rest, otherwise, names)
        } else {
            effect(opcode, rest, names)?
        };
        Some(Self {
            bundle,
            guard,
            action,
        })
    }
}

/// `s12_s3` and `p4_p0`, not `v5_v1` and `17`.
fn is_scalar(name: &str) -> bool {
    let mut bytes = name.bytes();
    matches!(bytes.next(), Some(b's' | b'p')) && bytes.next().is_some_and(|b| b.is_ascii_digit())
}

/// Takes `(%p3)`, `(!%p3)` or `(%p3, %s4)` out of the operands.
fn guard(rest: &str, names: &mut Names) -> (Option<Guard>, Option<Operand>, String) {
    let open = rest.find("(%p").or_else(|| rest.find("(!%p"));
    let found = open.and_then(|open| {
        let (before, after) = rest.split_at_checked(open)?;
        let (inside, after) = after.get(1..)?.split_once(')')?;
        Some((before, inside, after))
    });
    let Some((before, inside, after)) = found else {
        return (None, None, rest.to_owned());
    };
    let (condition, otherwise) = match inside.split_once(',') {
        Some((condition, otherwise)) => (condition, Some(operand(otherwise.trim(), names))),
        None => (inside, None),
    };
    let condition = condition.trim();
    let negated = condition.starts_with('!');
    let name = condition.trim_start_matches(['!', '%']);
    let guard = Guard {
        register: names.register(name),
        negated,
    };
    (Some(guard), otherwise, format!("{before} {after}"))
}

fn scalar(
    left: &str,
    opcode: &str,
    rest: String,
    otherwise: Option<Operand>,
    names: &mut Names,
) -> Action {
    let to = names.register(left);
    if opcode == "sphi" {
        return Action::Phi { to };
    }
    if opcode.starts_with("inlined_call_operand") {
        let index = rest
            .split_once("index:")
            .and_then(|(_, index)| index.trim().split([',', ']']).next()?.parse().ok());
        let operand = index.map_or(Operand::Unknown, |i| Operand::Constant(operand_address(i)));
        return Action::Compute {
            to,
            function: Function::Same,
            operands: vec![operand],
            otherwise,
        };
    }
    let operands = operands(&rest, names);
    if opcode == "sld" {
        let from = operands.into_iter().next().unwrap_or(Operand::Unknown);
        return Action::Load { to, from };
    }
    Action::Compute {
        to,
        function: Function::of(opcode),
        operands,
        otherwise,
    }
}

fn effect(opcode: &str, rest: String, names: &mut Names) -> Option<Action> {
    if opcode == "sbr.rel" {
        return target(&rest).map(Action::Branch);
    }
    if opcode == "sst" {
        // No comma stands between the address and the value.
        let (at, value) = rest.rsplit_once(']')?;
        return Some(Action::Store {
            at: operand(&format!("{}]", at.trim()), names),
            value: operand(value.trim().trim_start_matches(',').trim(), names),
        });
    }
    let mut operands = operands(&rest, names).into_iter();
    let mut next = || operands.next().unwrap_or(Operand::Unknown);
    let kind = opcode.strip_prefix("dma.")?;
    if kind == "done.wait" {
        return Some(Action::Wait {
            flag: next(),
            granules: next(),
        });
    }
    let route = match kind.split_once("_to_")? {
        ("hbm", "hbm") => Route::WithinHbm,
        ("hbm", "smem") => Route::ToScalars,
        ("hbm", _) => Route::FromHbm,
        (_, "hbm") => Route::ToHbm,
        _ => Route::OnChip,
    };
    Some(Action::Transfer {
        route,
        source: next(),
        granules: next(),
        destination: next(),
        flag: next(),
    })
}

/// `target = $region28`, or `target bundleno = 17 (0x11), region = $region28`.
fn target(rest: &str) -> Option<Target> {
    let digits = |text: &str| -> Option<u64> {
        let end = text.find(|c: char| !c.is_ascii_digit());
        text.get(..end.unwrap_or(text.len()))?.parse().ok()
    };
    if let Some((_, address)) = rest.split_once("bundleno = ") {
        return digits(address).map(Target::Address);
    }
    let (_, region) = rest.split_once("$region")?;
    u32::try_from(digits(region)?).ok().map(Target::Region)
}

/// Operands between commas outside of brackets, without attributes such as `[thread:$0]`.
fn operands(rest: &str, names: &mut Names) -> Vec<Operand> {
    let mut list = Vec::new();
    let mut depth = 0_u32;
    let parts = rest.split(|c| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    for part in parts {
        let mut part = part.trim();
        while part.starts_with("[thread") || part.starts_with("[resolvable") {
            part = part.split_once(']').map_or("", |(_, rest)| rest.trim());
        }
        if !part.is_empty() {
            list.push(operand(part, names));
        }
    }
    list
}

fn operand(text: &str, names: &mut Names) -> Operand {
    let text = text
        .strip_prefix("[smem:")
        .and_then(|inner| inner.strip_suffix(']'))
        .unwrap_or(text);
    let Some(address) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) else {
        return term(text, names);
    };
    let mut constant = 0_i64;
    let mut registers = Vec::new();
    for part in address.split('+') {
        match term(part.trim(), names) {
            Operand::Constant(value) => constant = constant.wrapping_add(value),
            Operand::Register(register) => registers.push(register),
            Operand::Sum(..) | Operand::Unknown => return Operand::Unknown,
        }
    }
    if registers.is_empty() {
        Operand::Constant(constant)
    } else {
        Operand::Sum(constant, registers.into())
    }
}

fn term(text: &str, names: &mut Names) -> Operand {
    if let Some(name) = text.strip_prefix('%') {
        return Operand::Register(names.register(name));
    }
    if text.starts_with("#allocation") {
        return Operand::Constant(names.allocation(text));
    }
    let digits = text.strip_prefix('$').unwrap_or(text);
    let value = match digits.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16),
        None => digits.parse::<i64>(),
    };
    match value {
        // The listing writes words without a sign: 4294967295 is -1.
        Ok(value) if u32::try_from(value).is_ok() => Operand::Constant(i64::from(value as i32)),
        Ok(value) => Operand::Constant(value),
        Err(_) => Operand::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(slot: &str) -> (Option<Operation>, Names) {
        let mut names = Names::default();
        (Operation::read(3, slot, &mut names), names)
    }

    #[test]
    fn a_guarded_move_keeps_what_it_had() {
        let (operation, names) = read("%s8150_s26 = smov (!%p7051_p0, %s33_s26), 4294967295");
        let operation = operation.expect("a scalar instruction");
        let Action::Compute {
            to,
            function,
            operands,
            otherwise,
        } = operation.action
        else {
            panic!("not a computation");
        };
        assert_eq!(
            (function, operands),
            (Function::Same, vec![Operand::Constant(-1)])
        );
        let Some(Operand::Register(before)) = otherwise else {
            panic!("nothing to keep");
        };
        assert_eq!(names.home(to), names.home(before));
        assert!(operation.guard.expect("a guard").negated);
    }

    #[test]
    fn a_transfer_has_its_operands_in_order_whatever_stands_before_them() {
        let slot = "%6 = dma.hbm_to_vmem [thread:$0]  (!%p7_p9), %s153_s6, 16384, %s155_s2, \
                    [#allocation5 + $0x1], %s9_s1";
        let (operation, _) = read(slot);
        let action = operation.expect("a transfer").action;
        let Action::Transfer {
            route,
            granules,
            flag,
            ..
        } = action
        else {
            panic!("not a transfer: {action:?}");
        };
        assert_eq!(
            (route, granules),
            (Route::FromHbm, Operand::Constant(16384))
        );
        assert_eq!(flag, Operand::Constant((2 << SPACE) + 1));
    }

    #[test]
    fn branches_name_a_region_or_a_bundle() {
        let branch = |slot: &str| read(slot).0.map(|operation| operation.action);
        assert_eq!(
            branch("%20 = sbr.rel (!%p8_p2) target = $region94"),
            Some(Action::Branch(Target::Region(94)))
        );
        assert_eq!(
            branch("%20 = sbr.rel target bundleno = 17 (0x11), region = $region9"),
            Some(Action::Branch(Target::Address(17)))
        );
    }

    #[test]
    fn vectors_decide_nothing_but_a_scalar_from_a_vector_is_unknown() {
        assert_eq!(read("%v1_v0 = vadd.f32 %v2_v1, %v3_v2").0, None);
        assert_eq!(read("%5 = vst [vmem:[%s1_s0]] %v1_v0").0, None);
        let action = read("%s5_s1 = vpop.sfrf %v1_v0").0.map(|o| o.action);
        let Some(Action::Compute { function, .. }) = action else {
            panic!("not a computation: {action:?}");
        };
        assert_eq!(function, Function::Unknown);
    }
}
