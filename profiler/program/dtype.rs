//! Element types: XLA's primitive types, with their names in HLO text and numbers in protos.

use std::fmt;
use std::str::FromStr;

/// The element type of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DType {
    /// Boolean, stored in a byte.
    Pred,
    /// Signed 1-bit integer.
    S1,
    /// Signed 2-bit integer.
    S2,
    /// Signed 4-bit integer.
    S4,
    /// Signed 8-bit integer.
    S8,
    /// Signed 16-bit integer.
    S16,
    /// Signed 32-bit integer.
    S32,
    /// Signed 64-bit integer.
    S64,
    /// Unsigned 1-bit integer.
    U1,
    /// Unsigned 2-bit integer.
    U2,
    /// Unsigned 4-bit integer.
    U4,
    /// Unsigned 8-bit integer.
    U8,
    /// Unsigned 16-bit integer.
    U16,
    /// Unsigned 32-bit integer.
    U32,
    /// Unsigned 64-bit integer.
    U64,
    /// IEEE half.
    F16,
    /// bfloat16.
    Bf16,
    /// IEEE single.
    F32,
    /// IEEE double.
    F64,
    /// 4-bit float, 2 exponent bits.
    F4E2M1Fn,
    /// 6-bit float, 3 exponent bits.
    F6E3M2Fn,
    /// 6-bit float, 2 exponent bits.
    F6E2M3Fn,
    /// 8-bit float, 5 exponent bits.
    F8E5M2,
    /// 8-bit float, 4 exponent bits, with infinities.
    F8E4M3,
    /// 8-bit float, 4 exponent bits, finite.
    F8E4M3Fn,
    /// 8-bit float, 4 exponent bits, bias 11.
    F8E4M3B11Fnuz,
    /// 8-bit float, 3 exponent bits.
    F8E3M4,
    /// 8-bit float, 5 exponent bits, no negative zero.
    F8E5M2Fnuz,
    /// 8-bit float, 4 exponent bits, no negative zero.
    F8E4M3Fnuz,
    /// 8-bit power of two (a block scale).
    F8E8M0Fnu,
    /// Complex of two singles.
    C64,
    /// Complex of two doubles.
    C128,
}

/// Type, name in HLO text, number in `xla.PrimitiveType`, bits of an element.
const TABLE: [(DType, &str, u64, u32); 32] = [
    (DType::Pred, "pred", 1, 8),
    (DType::S1, "s1", 30, 1),
    (DType::S2, "s2", 26, 2),
    (DType::S4, "s4", 21, 4),
    (DType::S8, "s8", 2, 8),
    (DType::S16, "s16", 3, 16),
    (DType::S32, "s32", 4, 32),
    (DType::S64, "s64", 5, 64),
    (DType::U1, "u1", 31, 1),
    (DType::U2, "u2", 27, 2),
    (DType::U4, "u4", 22, 4),
    (DType::U8, "u8", 6, 8),
    (DType::U16, "u16", 7, 16),
    (DType::U32, "u32", 8, 32),
    (DType::U64, "u64", 9, 64),
    (DType::F16, "f16", 10, 16),
    (DType::Bf16, "bf16", 16, 16),
    (DType::F32, "f32", 11, 32),
    (DType::F64, "f64", 12, 64),
    (DType::F4E2M1Fn, "f4e2m1fn", 32, 4),
    (DType::F6E3M2Fn, "f6e3m2fn", 35, 6),
    (DType::F6E2M3Fn, "f6e2m3fn", 36, 6),
    (DType::F8E5M2, "f8e5m2", 19, 8),
    (DType::F8E4M3, "f8e4m3", 28, 8),
    (DType::F8E4M3Fn, "f8e4m3fn", 20, 8),
    (DType::F8E4M3B11Fnuz, "f8e4m3b11fnuz", 23, 8),
    (DType::F8E3M4, "f8e3m4", 29, 8),
    (DType::F8E5M2Fnuz, "f8e5m2fnuz", 24, 8),
    (DType::F8E4M3Fnuz, "f8e4m3fnuz", 25, 8),
    (DType::F8E8M0Fnu, "f8e8m0fnu", 33, 8),
    (DType::C64, "c64", 15, 64),
    (DType::C128, "c128", 18, 128),
];

impl DType {
    /// The type that `xla.PrimitiveType` numbers `number`; none for tuples, tokens and the like.
    #[must_use]
    pub fn from_proto(number: u64) -> Option<Self> {
        TABLE.iter().find(|row| row.2 == number).map(|row| row.0)
    }

    fn row(self) -> &'static (Self, &'static str, u64, u32) {
        // The table lists every variant in declaration order; the test below holds it to that.
        &TABLE[self as usize]
    }

    /// The name in HLO text: `bf16`, `f8e4m3fn`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Bits that the value itself needs; a layout may store it in more.
    #[must_use]
    pub fn bits(self) -> u32 {
        self.row().3
    }

    /// Whether it is a real or complex floating-point type.
    #[must_use]
    pub fn is_float(self) -> bool {
        self >= Self::F16
    }

    /// Whether it is an integer other than `pred`.
    #[must_use]
    pub fn is_integer(self) -> bool {
        self >= Self::S1 && self <= Self::U64
    }

    /// Whether it is one of the 8-bit floats.
    #[must_use]
    pub fn is_fp8(self) -> bool {
        self >= Self::F8E5M2 && self <= Self::F8E8M0Fnu
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DType {
    type Err = ();
    /// Reads the name in HLO text.
    fn from_str(name: &str) -> Result<Self, ()> {
        TABLE
            .iter()
            .find(|row| row.1 == name)
            .map(|row| row.0)
            .ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_finds_its_own_row() {
        for (index, (dtype, name, number, bits)) in TABLE.into_iter().enumerate() {
            assert_eq!(dtype as usize, index, "{name}");
            assert_eq!((dtype.name(), dtype.bits()), (name, bits));
            assert_eq!(name.parse(), Ok(dtype));
            assert_eq!(DType::from_proto(number), Some(dtype));
        }
    }

    #[test]
    fn classes_hold_what_their_name_says() {
        assert!(DType::F8E4M3Fn.is_fp8() && !DType::F4E2M1Fn.is_fp8() && !DType::C64.is_fp8());
        assert!(DType::Bf16.is_float() && !DType::U64.is_float());
        assert!(DType::S4.is_integer() && !DType::Pred.is_integer());
        assert_eq!(DType::from_proto(13), None, "13 is TUPLE");
    }
}
