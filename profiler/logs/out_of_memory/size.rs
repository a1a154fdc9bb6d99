//! Sizes as memory reports write them: `27.90G`, `530.00M`, `0B`, `134217728`.

use std::fmt;

use crate::units::Bytes;

/// A size with the digits that the text has. Units are binary: `G` is GiB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Size {
    /// The size; as exact as the text's digits.
    pub bytes: Bytes,
    /// The number as written, without its unit.
    digits: String,
    /// The unit for people.
    unit: &'static str,
}

impl Size {
    /// Reads a size at the start of a text, after spaces.
    ///
    /// ```
    /// use profiler::logs::out_of_memory::Size;
    ///
    /// let size = Size::parse("27.90G of 16.00G hbm").expect("a size");
    /// assert_eq!(size.to_string(), "27.90 GiB");
    /// assert_eq!(Size::parse("unknown size"), None);
    /// ```
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim_start();
        let end = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        // A size that ends a sentence: `by 11.90.` has no unit, and the point is not a digit.
        let digits = text.get(..end)?.trim_end_matches('.');
        let value: f64 = digits.parse().ok()?;
        let letters: &str = text.get(digits.len()..)?;
        let (factor, unit) = match letters.bytes().next() {
            Some(b'T') => (1u64 << 40, "TiB"),
            Some(b'G') => (1 << 30, "GiB"),
            Some(b'M') => (1 << 20, "MiB"),
            Some(b'K') => (1 << 10, "KiB"),
            _ => (1, "B"),
        };
        Some(Self {
            // The cast saturates; digits alone cannot make a NaN or a negative number.
            bytes: Bytes((value * factor as f64).round() as u64),
            digits: digits.to_owned(),
            unit,
        })
    }

    /// The size that stands after `marker`.
    #[must_use]
    pub fn after(text: &str, marker: &str) -> Option<Self> {
        let at = text.find(marker)?;
        Self::parse(text.get(at + marker.len()..)?)
    }

    /// Half a unit of its last digit, in bytes: how far the true size may be from
    /// [`Size::bytes`].
    #[must_use]
    pub fn rounding(&self) -> u64 {
        let decimals = self
            .digits
            .split_once('.')
            .map_or(0, |(_, fraction)| fraction.len());
        let unit = match self.unit {
            "TiB" => 1u64 << 40,
            "GiB" => 1 << 30,
            "MiB" => 1 << 20,
            "KiB" => 1 << 10,
            _ => return 0,
        };
        let steps = 10u64.saturating_pow(u32::try_from(decimals).unwrap_or(u32::MAX));
        unit / steps.saturating_mul(2).max(1)
    }
}

impl fmt::Display for Size {
    /// The text's own digits and the binary unit; a bare count of bytes in the unit that fits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.unit == "B" && self.bytes.0 >= 1 << 10 {
            self.bytes.fmt(f)
        } else {
            write!(f, "{} {}", self.digits, self.unit)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Size;

    #[test]
    fn sizes_keep_their_digits() {
        for (text, bytes, shown) in [
            ("27.90G of", 29_957_396_890, "27.90 GiB"),
            ("  530.00M ", 555_745_280, "530.00 MiB"),
            ("4.0K", 4096, "4.0 KiB"),
            ("0B", 0, "0 B"),
            ("268435456) would", 268_435_456, "256 MiB"),
            ("5.22M.", 5_473_567, "5.22 MiB"),
            ("31.24G).", 33_543_694_582, "31.24 GiB"),
        ] {
            let size = Size::parse(text).expect(text);
            assert_eq!((size.bytes.0, size.to_string().as_str()), (bytes, shown));
        }
        for text in ["", "unknown size", ".", "G", "..G"] {
            assert_eq!(Size::parse(text), None, "{text}");
        }
        let size = Size::parse("8.77G").expect("a size");
        assert_eq!(size.rounding(), (1 << 30) / 200);
        assert!(Size::parse("99999999999999999999999999G").is_some());
    }
}
