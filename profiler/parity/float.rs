//! Floating-point formats: bits to values, values to bits, and the steps between two values.

use crate::program::dtype::DType;

/// What the bit patterns at the top of a format mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Specials {
    /// As IEEE 754: an exponent of ones is infinity or NaN.
    Ieee,
    /// `fn`: no infinity, and all ones is NaN.
    OneNan,
    /// `fnuz`: no infinity, no negative zero; its pattern is NaN.
    ZeroNan,
    /// Every pattern is a number.
    Finite,
}

/// A binary floating-point format of at most 64 bits.
///
/// The narrow formats are those of the OCP 8-bit floating point specification and of MLIR's
/// built-in types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FloatFormat {
    exponent_bits: u32,
    mantissa_bits: u32,
    bias: i32,
    specials: Specials,
}

impl FloatFormat {
    /// The format of an element type; none for integers, complex numbers and block scales.
    #[must_use]
    pub fn of(dtype: DType) -> Option<Self> {
        use Specials::{Finite, Ieee, OneNan, ZeroNan};
        let (exponent_bits, mantissa_bits, bias, specials) = match dtype {
            DType::F64 => (11, 52, 1023, Ieee),
            DType::F32 => (8, 23, 127, Ieee),
            DType::Bf16 => (8, 7, 127, Ieee),
            DType::F16 => (5, 10, 15, Ieee),
            DType::F8E5M2 => (5, 2, 15, Ieee),
            DType::F8E4M3 => (4, 3, 7, Ieee),
            DType::F8E3M4 => (3, 4, 3, Ieee),
            DType::F8E4M3Fn => (4, 3, 7, OneNan),
            DType::F8E4M3B11Fnuz => (4, 3, 11, ZeroNan),
            DType::F8E5M2Fnuz => (5, 2, 16, ZeroNan),
            DType::F8E4M3Fnuz => (4, 3, 8, ZeroNan),
            DType::F6E3M2Fn => (3, 2, 3, Finite),
            DType::F6E2M3Fn => (2, 3, 1, Finite),
            DType::F4E2M1Fn => (2, 1, 1, Finite),
            _ => return None,
        };
        Some(Self {
            exponent_bits,
            mantissa_bits,
            bias,
            specials,
        })
    }

    fn sign_bit(self) -> u64 {
        1 << (self.exponent_bits + self.mantissa_bits)
    }

    fn magnitude_mask(self) -> u64 {
        self.sign_bit() - 1
    }

    /// The pattern of the largest finite number.
    fn max_bits(self) -> u64 {
        match self.specials {
            Specials::Ieee => self.infinity_bits() - 1,
            Specials::OneNan => self.magnitude_mask() - 1,
            Specials::ZeroNan | Specials::Finite => self.magnitude_mask(),
        }
    }

    fn infinity_bits(self) -> u64 {
        ((1 << self.exponent_bits) - 1) << self.mantissa_bits
    }

    fn nan_bits(self) -> u64 {
        match self.specials {
            Specials::Ieee => self.infinity_bits() | 1 << (self.mantissa_bits - 1),
            Specials::OneNan => self.magnitude_mask(),
            Specials::ZeroNan => self.sign_bit(),
            Specials::Finite => 0,
        }
    }

    /// Whether a pattern is no number.
    #[must_use]
    pub fn is_nan(self, bits: u64) -> bool {
        let magnitude = bits & self.magnitude_mask();
        match self.specials {
            Specials::Ieee => magnitude > self.infinity_bits(),
            Specials::OneNan => magnitude == self.magnitude_mask(),
            Specials::ZeroNan => {
                bits & (self.sign_bit() | self.magnitude_mask()) == self.sign_bit()
            }
            Specials::Finite => false,
        }
    }

    /// The distance from 1 to the next number: 2^-7 for bf16.
    #[must_use]
    pub fn epsilon(self) -> f64 {
        power_of_two(-(self.mantissa_bits as i32))
    }

    /// The largest finite number.
    #[must_use]
    pub fn max(self) -> f64 {
        self.decode(self.max_bits())
    }

    /// The smallest normal number.
    #[must_use]
    pub fn min_positive(self) -> f64 {
        power_of_two(1 - self.bias)
    }

    /// The value of a pattern, exact.
    #[must_use]
    pub fn decode(self, bits: u64) -> f64 {
        if self.is_nan(bits) {
            return f64::NAN;
        }
        let magnitude = bits & self.magnitude_mask();
        let exponent = magnitude >> self.mantissa_bits;
        let mantissa = magnitude & ((1 << self.mantissa_bits) - 1);
        let value = if self.specials == Specials::Ieee && magnitude == self.infinity_bits() {
            f64::INFINITY
        } else if self.mantissa_bits == 52 {
            f64::from_bits(magnitude)
        } else if exponent == 0 {
            mantissa as f64 * power_of_two(1 - self.bias - self.mantissa_bits as i32)
        } else {
            let whole = mantissa | 1 << self.mantissa_bits;
            whole as f64 * power_of_two(exponent as i32 - self.bias - self.mantissa_bits as i32)
        };
        if bits & self.sign_bit() == 0 {
            value
        } else {
            -value
        }
    }

    /// The pattern nearest to a value, ties to even; beyond the range infinity, or NaN where the
    /// format has none, or the largest number where it has neither.
    #[must_use]
    pub fn encode(self, value: f64) -> u64 {
        if value.is_nan() {
            return self.nan_bits();
        }
        if self.mantissa_bits == 52 {
            return value.to_bits();
        }
        let sign = if value.is_sign_negative() {
            self.sign_bit()
        } else {
            0
        };
        let magnitude = self.encode_magnitude(value.abs());
        let no_negative_zero = self.specials == Specials::ZeroNan && magnitude == 0;
        match magnitude > self.max_bits() {
            true => match self.specials {
                Specials::Ieee => sign | self.infinity_bits(),
                Specials::OneNan | Specials::ZeroNan => self.nan_bits(),
                Specials::Finite => sign | self.max_bits(),
            },
            false if no_negative_zero => 0,
            false => sign | magnitude,
        }
    }

    /// Larger than [`Self::max_bits`] beyond the range.
    fn encode_magnitude(self, magnitude: f64) -> u64 {
        if magnitude.is_infinite() {
            return u64::MAX;
        }
        let exponent = exponent(magnitude).max(1 - self.bias);
        // A power of two divides exactly: nothing is rounded but by the line after.
        let steps = magnitude / power_of_two(exponent - self.mantissa_bits as i32);
        let steps = steps.round_ties_even() as u64;
        // A mantissa that is rounded up to 2 carries into the exponent by itself.
        let field = (exponent - (1 - self.bias)) as u64;
        (field << self.mantissa_bits).saturating_add(steps)
    }

    /// The pattern nearest to a value that the format has a finite number for.
    #[must_use]
    pub fn encode_clamped(self, value: f64) -> u64 {
        self.encode(value.clamp(-self.max(), self.max()))
    }

    /// A value as this format holds it.
    #[must_use]
    pub fn round(self, value: f64) -> f64 {
        self.decode(self.encode(value))
    }

    /// The place of a pattern in the order of all numbers; both zeros have place 0 and infinity
    /// follows the largest number. None for NaN.
    fn ordinal(self, bits: u64) -> Option<i128> {
        if self.is_nan(bits) {
            return None;
        }
        let magnitude = i128::from(bits & self.magnitude_mask());
        Some(if bits & self.sign_bit() == 0 {
            magnitude
        } else {
            -magnitude
        })
    }

    /// Units in the last place between two patterns: how many steps from number to number lead
    /// from one to the other. Two NaNs are 0 apart; none where one of them is NaN.
    #[must_use]
    pub fn ulps(self, a: u64, b: u64) -> Option<u64> {
        match (self.ordinal(a), self.ordinal(b)) {
            (Some(a), Some(b)) => Some(u64::try_from(a.abs_diff(b)).unwrap_or(u64::MAX)),
            (None, None) => Some(0),
            _ => None,
        }
    }
}

/// The exponent of a finite number as a power of two, that of the smallest normal for subnormals.
fn exponent(value: f64) -> i32 {
    let field = (value.to_bits() >> 52) & 0x7ff;
    (field as i32).max(1) - 1023
}

/// 2^exponent, exact where `f64` has it.
fn power_of_two(exponent: i32) -> f64 {
    2f64.powi(exponent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn format(dtype: DType) -> FloatFormat {
        FloatFormat::of(dtype).expect("a float")
    }

    const NARROW: [DType; 13] = [
        DType::Bf16,
        DType::F16,
        DType::F8E5M2,
        DType::F8E4M3,
        DType::F8E3M4,
        DType::F8E4M3Fn,
        DType::F8E4M3B11Fnuz,
        DType::F8E5M2Fnuz,
        DType::F8E4M3Fnuz,
        DType::F6E3M2Fn,
        DType::F6E2M3Fn,
        DType::F4E2M1Fn,
        DType::F32,
    ];

    #[test]
    fn known_patterns_have_their_values() {
        // From the formats' specifications.
        for (dtype, bits, value) in [
            (DType::Bf16, 0x3f80, 1.0),
            (DType::Bf16, 0xc2f7, -123.5),
            (DType::Bf16, 0x0001, 2f64.powi(-133)),
            (DType::F16, 0x7bff, 65504.0),
            (DType::F16, 0x0001, 2f64.powi(-24)),
            (DType::F16, 0xfc00, f64::NEG_INFINITY),
            (DType::F8E4M3Fn, 0x7e, 448.0),
            (DType::F8E4M3Fn, 0x01, 2f64.powi(-9)),
            (DType::F8E5M2, 0x7b, 57344.0),
            (DType::F8E5M2, 0x7c, f64::INFINITY),
            (DType::F8E4M3, 0x77, 240.0),
            (DType::F8E3M4, 0x6f, 15.5),
            (DType::F8E4M3B11Fnuz, 0x7f, 30.0),
            (DType::F8E4M3Fnuz, 0x7f, 240.0),
            (DType::F8E5M2Fnuz, 0x7f, 57344.0),
            (DType::F6E3M2Fn, 0x1f, 28.0),
            (DType::F6E2M3Fn, 0x1f, 7.5),
            (DType::F4E2M1Fn, 0x07, 6.0),
            (DType::F4E2M1Fn, 0x09, -0.5),
        ] {
            assert_eq!(format(dtype).decode(bits), value, "{dtype} {bits:#x}");
            assert_eq!(format(dtype).encode(value), bits, "{dtype} {value}");
        }
        for (dtype, bits) in [
            (DType::F8E4M3Fn, 0x7f),
            (DType::F8E4M3Fn, 0xff),
            (DType::F8E4M3Fnuz, 0x80),
            (DType::F8E5M2, 0x7d),
            (DType::F16, 0x7c01),
        ] {
            assert!(format(dtype).decode(bits).is_nan(), "{dtype} {bits:#x}");
        }
    }

    #[test]
    fn values_beyond_the_range_become_what_the_format_has() {
        assert_eq!(format(DType::F16).encode(1e6), 0x7c00);
        assert_eq!(format(DType::F16).encode(65519.9), 0x7bff);
        assert_eq!(format(DType::F16).encode(65520.0), 0x7c00);
        assert_eq!(format(DType::F8E4M3Fn).encode(1e6), 0x7f);
        assert_eq!(format(DType::F8E4M3Fn).encode_clamped(-1e6), 0xfe);
        assert_eq!(format(DType::F4E2M1Fn).encode(-1e6), 0x0f);
        assert_eq!(format(DType::F8E5M2Fnuz).encode(-0.0), 0);
        assert_eq!(format(DType::F8E5M2Fnuz).encode(f64::INFINITY), 0x80);
    }

    #[test]
    fn every_pattern_of_a_narrow_format_is_read_back_and_counted_in_order() {
        for dtype in NARROW.into_iter().filter(|dtype| dtype.bits() <= 16) {
            let format = format(dtype);
            let mut last: Option<(u64, f64)> = None;
            for bits in 0..1u64 << (dtype.bits() - 1) {
                let value = format.decode(bits);
                if value.is_nan() {
                    assert!(format.is_nan(format.encode(value)), "{dtype} {bits:#x}");
                    continue;
                }
                assert_eq!(format.encode(value), bits, "{dtype} {bits:#x}");
                if let Some((before, smaller)) = last {
                    assert!(value > smaller, "{dtype} {bits:#x}");
                    assert_eq!(format.ulps(before, bits), Some(1));
                }
                last = Some((bits, value));
            }
        }
    }

    #[test]
    fn steps_cross_zero_and_reach_infinity() {
        let f32 = format(DType::F32);
        let bits = |value: f32| u64::from(value.to_bits());
        assert_eq!(f32.ulps(bits(0.0), bits(-0.0)), Some(0));
        let tiny = f32::from_bits(1);
        assert_eq!(f32.ulps(bits(tiny), bits(-tiny)), Some(2));
        assert_eq!(f32.ulps(bits(f32::MAX), bits(f32::INFINITY)), Some(1));
        assert_eq!(f32.ulps(bits(f32::NAN), bits(-f32::NAN)), Some(0));
        assert_eq!(f32.ulps(bits(f32::NAN), bits(1.0)), None);
        let f64 = format(DType::F64);
        let far = f64.ulps(f64::MAX.to_bits(), f64::MIN.to_bits());
        assert_eq!(far, Some(2 * f64::MAX.to_bits()));
    }

    proptest! {
        #[test]
        fn singles_round_as_the_machine_rounds(value: f64) {
            prop_assert_eq!(format(DType::F32).encode(value), u64::from((value as f32).to_bits()));
        }

        #[test]
        fn singles_are_decoded_exactly(bits: u32) {
            let value = f64::from(f32::from_bits(bits));
            let ours = format(DType::F32).decode(u64::from(bits));
            prop_assert!(ours == value || (ours.is_nan() && value.is_nan()));
        }

        #[test]
        fn rounding_takes_the_nearest(value in -1e3f64..1e3) {
            for dtype in NARROW {
                let format = format(dtype);
                let value = value.clamp(-format.max(), format.max());
                let bits = format.encode(value);
                let error = (format.decode(bits) - value).abs();
                for near in [bits.wrapping_sub(1), bits + 1] {
                    let near = format.decode(near & (2 * format.sign_bit() - 1));
                    prop_assert!(near.is_nan() || error <= (near - value).abs(), "{}", dtype);
                }
            }
        }

        #[test]
        fn distance_is_symmetric_and_adds_up(a: u16, b: u16, c: u16) {
            let format = format(DType::Bf16);
            let (a, b, c) = (u64::from(a), u64::from(b), u64::from(c));
            prop_assert_eq!(format.ulps(a, b), format.ulps(b, a));
            if let (Some(ab), Some(bc), Some(ac)) = (format.ulps(a, b), format.ulps(b, c), format.ulps(a, c))
                && !format.is_nan(a) && !format.is_nan(b) && !format.is_nan(c)
            {
                prop_assert!(ac <= ab + bc);
            }
        }
    }
}
