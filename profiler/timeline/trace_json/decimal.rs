//! Microseconds as text to whole picoseconds, without a float in between.
//!
//! XProf prints 17 significant digits, so `0.472 us` arrives as `0.47199999999999998`; Kineto
//! prints nanoseconds of a clock that is years from its origin, which an `f64` of microseconds
//! cannot hold. Both come out exact: digits beyond the picosecond are rounded, half up.

/// Picoseconds in a microsecond.
const PER_MICRO: i128 = 1_000_000;
/// Decimal places of a microsecond down to the picosecond.
const PLACES: usize = 6;
/// More digits than any time has; the ones beyond only count as powers of ten.
const MAX_DIGITS: u32 = 30;

/// Reads a number of microseconds.
pub(super) fn picos(text: &[u8]) -> Option<i128> {
    let (is_negative, digits) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let magnitude = plain(digits).or_else(|| scientific(digits))?;
    Some(if is_negative { -magnitude } else { magnitude })
}

/// `123.456789`: what nearly every number looks like.
fn plain(digits: &[u8]) -> Option<i128> {
    let mut parts = digits.splitn(2, |byte| *byte == b'.');
    let whole = parts.next().filter(|whole| !whole.is_empty())?;
    let fraction = parts.next().unwrap_or_default();
    if whole.len() > 18 || fraction.len() > 24 {
        return None;
    }
    let (kept, beyond) = fraction.split_at(fraction.len().min(PLACES));
    let mut picos = all_digits(kept)?;
    for _ in kept.len()..PLACES {
        picos *= 10;
    }
    all_digits(beyond)?;
    if beyond.first().is_some_and(|digit| *digit >= b'5') {
        picos += 1;
    }
    Some(i128::from(all_digits(whole)?) * PER_MICRO + i128::from(picos))
}

/// The value of up to 18 digits; `None` if there is anything else.
fn all_digits(bytes: &[u8]) -> Option<u64> {
    bytes.iter().try_fold(0_u64, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then(|| value.wrapping_mul(10).wrapping_add(u64::from(digit)))
    })
}

/// `1e-06` and numbers with more digits than `plain` takes.
fn scientific(text: &[u8]) -> Option<i128> {
    let text = std::str::from_utf8(text).ok()?;
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut value = 0_i128;
    let mut power = exponent.checked_add(PLACES as i64)?;
    let mut taken = 0;
    for (i, byte) in whole.bytes().chain(fraction.bytes()).enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit >= 10 {
            return None;
        }
        if i >= whole.len() && taken < MAX_DIGITS {
            power = power.checked_sub(1)?;
        }
        if taken < MAX_DIGITS {
            value = value * 10 + i128::from(digit);
            taken += u32::from(value > 0);
        } else if i < whole.len() {
            power = power.checked_add(1)?;
        }
    }
    scale(value, power)
}

/// `value * 10^power`, rounded half up; saturates instead of overflowing.
fn scale(value: i128, power: i64) -> Option<i128> {
    let shift = u32::try_from(power.unsigned_abs()).unwrap_or(u32::MAX);
    let factor = 10_i128.checked_pow(shift);
    Some(if value == 0 {
        0
    } else if power >= 0 {
        factor.map_or(i128::MAX, |factor| value.saturating_mul(factor))
    } else {
        factor.map_or(0, |factor| (value + factor / 2) / factor)
    })
}

#[cfg(test)]
mod tests {
    fn picos(text: &str) -> Option<i128> {
        super::picos(text.as_bytes())
    }

    #[test]
    fn seventeen_digits_round_to_the_picosecond_that_was_printed() {
        assert_eq!(picos("903051.47199999995"), Some(903_051_472_000));
        assert_eq!(picos("65.326455999999993"), Some(65_326_456));
        assert_eq!(picos("1144986.718988"), Some(1_144_986_718_988));
        assert_eq!(picos("0.99999999999999"), Some(1_000_000));
    }

    #[test]
    fn nanoseconds_far_from_the_origin_stay_exact() {
        assert_eq!(picos("5187842570122.536"), Some(5_187_842_570_122_536_000));
        assert_eq!(
            picos("1790857026000000.001"),
            Some(1_790_857_026_000_000_001_000)
        );
    }

    #[test]
    fn exponents_are_read() {
        assert_eq!(picos("1e-06"), Some(1));
        assert_eq!(picos("9.9999999999999995e-07"), Some(1));
        assert_eq!(picos("1.5E+3"), Some(1_500_000_000));
        assert_eq!(picos("1e-400"), Some(0));
        assert_eq!(picos("1e400"), Some(i128::MAX));
    }

    #[test]
    fn integers_and_signs_are_read() {
        assert_eq!(picos("7"), Some(7_000_000));
        assert_eq!(picos("-0.5"), Some(-500_000));
        assert_eq!(picos("7."), Some(7_000_000));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in [
            "",
            "-",
            ".",
            "x",
            "1.2.3",
            "1,5",
            "null",
            "{}",
            "1e",
            "1.1234567x",
        ] {
            assert_eq!(picos(text), None, "{text}");
        }
    }

    #[test]
    fn very_many_digits_do_not_overflow() {
        let many = "9".repeat(200);
        assert_eq!(picos(&many), Some(i128::MAX));
        assert_eq!(picos(&format!("0.{}", "0".repeat(200))), Some(0));
        assert_eq!(picos(&format!("0.{}", "9".repeat(200))), Some(1_000_000));
    }
}
