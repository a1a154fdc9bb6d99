//! Times and rates as people write them: `31.2s`, `480ms`, `2104/core`, `34.5M`.

use std::fmt;

/// Why a text is no time or rate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// It is no time.
    #[error("{0:?} is not a time: expected a number and its unit (us, ms, s, min, h), as in 31.2s")]
    Time(String),
    /// It is no rate.
    #[error(
        "{0:?} is not a rate: expected tokens a second of the whole job, or of one core, device or chip, as in 34.5M or 2104/core"
    )]
    Rate(String),
}

/// Parts of a job that a rate may be of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Job,
    /// A chip.
    Chip,
    /// A device, as JAX counts them.
    Device,
    /// A TensorCore.
    Core,
}

/// Tokens a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenRate {
    /// How many.
    pub per_second: f64,
    /// Of what.
    pub part: Part,
}

impl fmt::Display for TokenRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = match self.part {
            Part::Job => "",
            Part::Chip => "/chip",
            Part::Device => "/device",
            Part::Core => "/core",
        };
        write!(f, "{}{part}", self.per_second)
    }
}

/// A positive number with separators of thousands, and what follows it.
fn leading(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | ',' | '_')))
        .unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    let digits: String = digits.chars().filter(|c| !matches!(c, ',' | '_')).collect();
    let number: f64 = digits.parse().ok()?;
    (number > 0.0 && number.is_finite()).then_some((number, rest.trim()))
}

/// By how much a number as it is written may be off: half of its last digit, as a share of it.
///
/// ```
/// assert_eq!(profiler::model::quantity::rounding("2104/core"), 0.5 / 2104.0);
/// assert!((profiler::model::quantity::rounding("31.2s") - 0.05 / 31.2).abs() < 1e-12);
/// ```
#[must_use]
pub fn rounding(text: &str) -> f64 {
    let Some((number, _)) = leading(text) else {
        return 0.0;
    };
    let digits: String = text
        .trim()
        .chars()
        .take_while(|c| c.is_ascii_digit() || matches!(c, '.' | ',' | '_'))
        .collect();
    let decimals = digits.split_once('.').map_or(0, |(_, after)| after.len());
    0.5 * 10f64.powi(-i32::try_from(decimals).unwrap_or(0)) / number
}

/// Reads a time, in seconds.
///
/// # Errors
/// When it is none, or has no unit.
pub fn seconds(text: &str) -> Result<f64, QuantityError> {
    let error = || QuantityError::Time(text.chars().take(40).collect());
    let (number, unit) = leading(text).ok_or_else(error)?;
    let scale = match unit {
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" | "sec" => 1.0,
        "min" | "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(error()),
    };
    Ok(number * scale)
}

/// Reads a rate of tokens.
///
/// # Errors
/// When it is none.
pub fn token_rate(text: &str) -> Result<TokenRate, QuantityError> {
    let error = || QuantityError::Rate(text.chars().take(40).collect());
    let (number, rest) = leading(text).ok_or_else(error)?;
    let (scale, rest) = match rest.chars().next() {
        Some('k' | 'K') => (1e3, &rest[1..]),
        Some('M') => (1e6, &rest[1..]),
        Some('G' | 'B') => (1e9, &rest[1..]),
        _ => (1.0, rest),
    };
    let part = match rest.trim().trim_start_matches('/').trim() {
        "" | "job" | "s" => Part::Job,
        "chip" | "s/chip" => Part::Chip,
        "device" | "s/device" => Part::Device,
        "core" | "s/core" | "tensorcore" | "TensorCore" => Part::Core,
        _ => return Err(error()),
    };
    Ok(TokenRate {
        per_second: number * scale,
        part,
    })
}

#[cfg(test)]
mod tests {
    use super::{Part, seconds, token_rate};

    #[test]
    fn times_have_units() {
        assert_eq!(seconds("31.2s"), Ok(31.2));
        assert_eq!(seconds("480ms"), Ok(0.48));
        assert_eq!(seconds("1,500 us"), Ok(0.0015));
        assert_eq!(seconds("2min"), Ok(120.0));
        for bad in [
            "31.2", "", "s", "-3s", "0s", "1e400s", "3 days", "1.2.3s", "\u{e9}s",
        ] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn rates_say_of_what() {
        let read = |text: &str| token_rate(text).map(|rate| (rate.per_second, rate.part));
        assert_eq!(read("2104/core"), Ok((2104.0, Part::Core)));
        assert_eq!(read("4,208 / chip"), Ok((4208.0, Part::Chip)));
        assert_eq!(read("34.5M"), Ok((34.5e6, Part::Job)));
        assert_eq!(read("1k/device"), Ok((1000.0, Part::Device)));
        for bad in ["fast", "2104/rack", "-1", "0", "2104\u{e9}"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
