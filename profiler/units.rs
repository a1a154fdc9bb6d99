//! Units as types, and the only place that rounds for people.
//!
//! Times inside are whole picoseconds, as XPlane counts them; bytes are whole bytes; rates are
//! `f64` in the unit that their name says. `GB/s` is 10⁹ and `GiB/s` 2³⁰ bytes per second: they
//! are 7.4 % apart, so every rate names its unit.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Serialize};

/// A duration or a point in time, in picoseconds (10⁻¹² s).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Picos(pub u64);

impl Picos {
    /// Milliseconds, unrounded.
    #[must_use]
    pub fn as_ms(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Microseconds, unrounded.
    #[must_use]
    pub fn as_us(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Seconds, unrounded.
    #[must_use]
    pub fn as_secs(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// The difference, zero where it would be negative.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Picos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Picos {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Picos {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self.saturating_sub(other)
    }
}

impl Sum for Picos {
    fn sum<I: Iterator<Item = Self>>(times: I) -> Self {
        times.fold(Self(0), Add::add)
    }
}

impl fmt::Display for Picos {
    /// Three significant digits or better, with the unit: `66.9 ms`, `182 ms`, `2.46 us`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0 {
            0..1_000 => return write!(f, "{} ps", self.0),
            1_000..1_000_000 => (self.0 as f64 / 1e3, "ns"),
            1_000_000..1_000_000_000 => (self.as_us(), "us"),
            1_000_000_000..10_000_000_000_000 => (self.as_ms(), "ms"),
            _ => (self.as_secs(), "s"),
        };
        f.write_str(&with_digits(value, unit))
    }
}

/// A count of bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    /// Binary units: `5 GiB`, `4.03 MiB`, `512 B`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const STEPS: [(u64, &str); 4] = [
            (1 << 40, "TiB"),
            (1 << 30, "GiB"),
            (1 << 20, "MiB"),
            (1 << 10, "KiB"),
        ];
        for (size, unit) in STEPS {
            if self.0 >= size {
                return f.write_str(&with_digits(self.0 as f64 / size as f64, unit));
            }
        }
        write!(f, "{} B", self.0)
    }
}

/// A value with three significant digits (more where it is above 1,000) and its unit.
///
/// ```
/// assert_eq!(profiler::units::with_digits(66.914, "ms"), "66.9 ms");
/// assert_eq!(profiler::units::with_digits(5.0, "GiB"), "5.00 GiB");
/// ```
#[must_use]
pub fn with_digits(value: f64, unit: &str) -> String {
    let magnitude = value.abs();
    let decimals = if magnitude >= 100.0 {
        0
    } else if magnitude >= 10.0 {
        1
    } else {
        2
    };
    format!("{} {unit}", fixed(value, decimals))
}

/// Milliseconds in the unit that suits them: `460 us`, `5.02 ms`, `12.0 s`.
///
/// ```
/// use profiler::units::ms;
/// assert_eq!(ms(0.46), "460 us");
/// assert_eq!(ms(5.02), "5.02 ms");
/// assert_eq!(ms(-0.0), "0.00 ms");
/// ```
#[must_use]
pub fn ms(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        0.0 => (0.0, "ms"),
        below if below < 1e-3 => (value * 1e6, "ns"),
        below if below < 1.0 => (value * 1e3, "us"),
        below if below < 1e4 => (value, "ms"),
        _ => (value / 1e3, "s"),
    };
    with_digits(scaled, unit)
}

/// Seconds in the unit that suits them: `375.6 s` is `6.3 min`.
///
/// ```
/// use profiler::units::seconds;
/// assert_eq!(seconds(375.6), "6.3 min");
/// assert_eq!(seconds(2.802), "2.8 s");
/// assert_eq!(seconds(0.012), "12.0 ms");
/// ```
#[must_use]
pub fn seconds(value: f64) -> String {
    match value {
        value if value >= 120.0 => format!("{:.1} min", value / 60.0),
        value if value >= 1.0 => format!("{value:.1} s"),
        value => format!("{:.1} ms", 1e3 * value),
    }
}

/// A whole number with its thousands parted: `23,562`.
#[must_use]
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A noun with its number.
///
/// ```
/// use profiler::units::counted;
/// assert_eq!(counted(1, "step"), "1 step");
/// assert_eq!(counted(23_562, "step"), "23,562 steps");
/// ```
#[must_use]
pub fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number))
}

/// A share as percent with a digit that people can tell apart: `63.2 %`, `0.04 %`.
#[must_use]
pub fn percent(share: f64) -> String {
    let value = share * 100.0;
    let decimals = if value.abs() >= 9.95 || value == 0.0 {
        1
    } else {
        2
    };
    format!("{} %", fixed(value, decimals))
}

/// A value with so many decimals; what rounds to zero has no sign.
fn fixed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    match text.strip_prefix('-') {
        Some(digits) if digits.bytes().all(|b| matches!(b, b'0' | b'.')) => digits.to_owned(),
        _ => text,
    }
}

/// Floating-point operations per second, in TFLOP/s (10¹²).
#[must_use]
pub fn tflops(flops: f64, time: Picos) -> f64 {
    if time.0 == 0 {
        0.0
    } else {
        flops / time.0 as f64
    }
}

/// Bytes per second in GB/s (10⁹).
#[must_use]
pub fn gb_per_s(bytes: f64, time: Picos) -> f64 {
    if time.0 == 0 {
        0.0
    } else {
        bytes * 1e3 / time.0 as f64
    }
}

/// Bytes per second in GiB/s (2³⁰), the unit that XProf shows.
#[must_use]
pub fn gib_per_s(bytes: f64, time: Picos) -> f64 {
    if time.0 == 0 {
        0.0
    } else {
        bytes * 1e12 / time.0 as f64 / (1u64 << 30) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::{ms, percent, with_digits};

    #[test]
    fn zero_has_no_sign() {
        assert_eq!(with_digits(-0.0, "ms"), "0.00 ms");
        assert_eq!(with_digits(-0.004, "ms"), "0.00 ms");
        assert_eq!(with_digits(-0.006, "ms"), "-0.01 ms");
        assert_eq!(percent(-0.0), "0.0 %");
        assert_eq!(percent(-1e-9), "0.00 %");
        assert_eq!(percent(-0.021), "-2.10 %");
    }

    #[test]
    fn milliseconds_take_the_unit_that_suits_them() {
        assert_eq!(ms(0.0), "0.00 ms");
        assert_eq!(ms(0.000_25), "250 ns");
        assert_eq!(ms(0.0614), "61.4 us");
        assert_eq!(ms(182.4), "182 ms");
        assert_eq!(ms(-0.46), "-460 us");
        assert_eq!(ms(12_000.0), "12.0 s");
    }
}
