//! What scalar instructions compute, where some of their operands may not be known.

/// A word, an address or a predicate (0 and 1), where it is known.
pub(super) type Value = Option<i64>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// What a scalar instruction computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    /// The operand itself.
    Same,
    Add,
    Subtract,
    Multiply,
    ShiftLeft,
    ShiftRight,
    ShiftRightSigned,
    And,
    Or,
    Xor,
    Min {
        signed: bool,
    },
    Max {
        signed: bool,
    },
    /// Base and offset of an address, which do not wrap.
    Address,
    Select,
    Compare {
        relation: Relation,
        signed: bool,
    },
    /// Whether an unsigned addition overflows.
    Carry,
    PredicateAnd,
    PredicateOr,
    PredicateXor,
    PredicateNotAnd,
    PredicateNot,
    /// Something that is not modelled.
    Unknown,
}

impl Function {
    /// What an opcode such as `scmp.lt.u32.totalorder` computes.
    pub(super) fn of(opcode: &str) -> Self {
        let mut parts = opcode.split('.');
        match parts.next().unwrap_or_default() {
            "smov" | "pmov" | "int_to_ptr" => Self::Same,
            "sadd" => Self::Add,
            "ssub" => Self::Subtract,
            "smul" => Self::Multiply,
            "sshll" => Self::ShiftLeft,
            "sshrl" => Self::ShiftRight,
            "sshra" => Self::ShiftRightSigned,
            "sand" => Self::And,
            "sor" => Self::Or,
            "sxor" => Self::Xor,
            "smin" => Self::Min {
                signed: parts.next() != Some("u32"),
            },
            "smax" => Self::Max {
                signed: parts.next() != Some("u32"),
            },
            "scalar_lea" => Self::Address,
            "scalar_select" => Self::Select,
            "sc" => Self::Carry,
            "pand" => Self::PredicateAnd,
            "por" => Self::PredicateOr,
            "pxor" => Self::PredicateXor,
            "pnand" => Self::PredicateNotAnd,
            "pneg" => Self::PredicateNot,
            "scmp" => {
                let relation = match parts.next().unwrap_or_default() {
                    "eq" => Relation::Equal,
                    "ne" => Relation::NotEqual,
                    "lt" => Relation::Less,
                    "le" => Relation::LessOrEqual,
                    "gt" => Relation::Greater,
                    "ge" => Relation::GreaterOrEqual,
                    _ => return Self::Unknown,
                };
                match parts.next() {
                    Some("s32") => Self::Compare {
                        relation,
                        signed: true,
                    },
                    Some("u32") => Self::Compare {
                        relation,
                        signed: false,
                    },
                    _ => Self::Unknown,
                }
            }
            _ => Self::Unknown,
        }
    }
}

/// The result of a function of up to three operands.
pub(super) fn evaluate(function: Function, [a, b, c]: [Value; 3]) -> Value {
    // A predicate can be known though one of its operands is not.
    match function {
        Function::PredicateAnd => return and(a, b),
        Function::PredicateNotAnd => return not(and(a, b)),
        Function::PredicateOr => return not(and(not(a), not(b))),
        Function::PredicateNot => return not(a),
        Function::Select => {
            let (yes, no) = (b, c);
            return match a {
                Some(0) => no,
                Some(_) => yes,
                None => yes.filter(|_| yes == no),
            };
        }
        Function::Same => return a,
        _ => {}
    }
    let (a, b) = (a?, b?);
    let word = |value: i64| Some(i64::from(value as i32));
    let (unsigned_a, unsigned_b) = (a as u32, b as u32);
    match function {
        Function::Add => word(a.wrapping_add(b)),
        Function::Subtract => word(a.wrapping_sub(b)),
        Function::Multiply => word(a.wrapping_mul(b)),
        Function::ShiftLeft => word(i64::from(unsigned_a.checked_shl(unsigned_b).unwrap_or(0))),
        Function::ShiftRight => word(i64::from(unsigned_a.checked_shr(unsigned_b).unwrap_or(0))),
        Function::ShiftRightSigned => word(i64::from((a as i32) >> unsigned_b.min(31))),
        Function::And => word(a & b),
        Function::Or => word(a | b),
        Function::Xor => word(a ^ b),
        Function::Min { signed: true } => Some(a.min(b)),
        Function::Max { signed: true } => Some(a.max(b)),
        Function::Min { signed: false } => word(i64::from(unsigned_a.min(unsigned_b))),
        Function::Max { signed: false } => word(i64::from(unsigned_a.max(unsigned_b))),
        Function::Address => Some(a.wrapping_add(b)),
        Function::Carry => Some(i64::from(unsigned_a.checked_add(unsigned_b).is_none())),
        Function::PredicateXor => Some(i64::from((a != 0) != (b != 0))),
        Function::Compare { relation, signed } => {
            let order = if signed {
                a.cmp(&b)
            } else {
                unsigned_a.cmp(&unsigned_b)
            };
            let holds = match relation {
                Relation::Equal => order.is_eq(),
                Relation::NotEqual => order.is_ne(),
                Relation::Less => order.is_lt(),
                Relation::LessOrEqual => order.is_le(),
                Relation::Greater => order.is_gt(),
                Relation::GreaterOrEqual => order.is_ge(),
            };
            Some(i64::from(holds))
        }
        _ => None,
    }
}

fn and(a: Value, b: Value) -> Value {
    match (a, b) {
        (Some(0), _) | (_, Some(0)) => Some(0),
        (Some(_), Some(_)) => Some(1),
        _ => None,
    }
}

fn not(a: Value) -> Value {
    a.map(|value| i64::from(value == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(function: Function, a: i64, b: i64) -> Value {
        evaluate(function, [Some(a), Some(b), None])
    }

    #[test]
    fn words_wrap_and_addresses_do_not() {
        assert_eq!(
            of(Function::Add, i64::from(i32::MAX), 1),
            Some(i64::from(i32::MIN))
        );
        assert_eq!(of(Function::Address, i64::from(i32::MAX), 1), Some(1 << 31));
        assert_eq!(of(Function::ShiftLeft, 1, 32), Some(0));
        assert_eq!(of(Function::ShiftRight, -1, 28), Some(15));
        assert_eq!(of(Function::ShiftRightSigned, -16, 2), Some(-4));
        assert_eq!(of(Function::Carry, -1, 1), Some(1));
    }

    #[test]
    fn unsigned_instructions_see_minus_one_as_the_largest() {
        let less = |signed| Function::Compare {
            relation: Relation::Less,
            signed,
        };
        assert_eq!(of(less(true), -1, 1), Some(1));
        assert_eq!(of(less(false), -1, 1), Some(0));
        assert_eq!(of(Function::Min { signed: true }, -8, 8), Some(-8));
        assert_eq!(of(Function::Min { signed: false }, -8, 8), Some(8));
    }

    #[test]
    fn one_operand_can_decide_a_predicate() {
        let unknown = |function, known| evaluate(function, [None, Some(known), None]);
        assert_eq!(unknown(Function::PredicateAnd, 0), Some(0));
        assert_eq!(unknown(Function::PredicateNotAnd, 0), Some(1));
        assert_eq!(unknown(Function::PredicateOr, 1), Some(1));
        assert_eq!(unknown(Function::PredicateAnd, 1), None);
        assert_eq!(
            evaluate(Function::Select, [None, Some(5), Some(5)]),
            Some(5)
        );
        assert_eq!(
            evaluate(Function::Select, [Some(0), None, Some(5)]),
            Some(5)
        );
        assert_eq!(evaluate(Function::Add, [None, Some(1), None]), None);
    }
}
