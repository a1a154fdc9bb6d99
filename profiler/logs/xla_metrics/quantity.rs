//! Figures as PyTorch/XLA prints them: `06m15s595ms691.023us`, `4.66GB`, `5610335.00`.

/// A figure of a report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Quantity {
    /// A duration in seconds.
    Seconds(f64),
    /// A size in bytes; PyTorch/XLA's units are powers of 1024.
    Bytes(f64),
    /// A plain number.
    Count(f64),
}

impl Quantity {
    /// The duration in seconds, if it is one.
    #[must_use]
    pub fn seconds(self) -> Option<f64> {
        match self {
            Self::Seconds(value) => Some(value),
            _ => None,
        }
    }

    /// The size in bytes, if it is one.
    #[must_use]
    pub fn bytes(self) -> Option<f64> {
        match self {
            Self::Bytes(value) => Some(value),
            _ => None,
        }
    }

    /// The number, whatever its unit.
    #[must_use]
    pub fn value(self) -> f64 {
        match self {
            Self::Seconds(value) | Self::Bytes(value) | Self::Count(value) => value,
        }
    }
}

/// Units of durations, longer names first, in seconds.
const TIMES: [(&str, f64); 7] = [
    ("ms", 1e-3),
    ("us", 1e-6),
    ("ns", 1e-9),
    ("d", 86_400.0),
    ("h", 3_600.0),
    ("m", 60.0),
    ("s", 1.0),
];
/// Units of sizes in bytes.
const SIZES: [(&str, f64); 6] = [
    ("KB", 1024.0),
    ("MB", 1_048_576.0),
    ("GB", 1_073_741_824.0),
    ("TB", 1_099_511_627_776.0),
    ("PB", 1_125_899_906_842_624.0),
    ("B", 1.0),
];
/// A figure is never longer: more is no figure.
const MAX_CHARS: usize = 64;

/// Reads the figure at the start of a text, up to white space, `;` or `,`.
///
/// ```
/// use profiler::logs::xla_metrics::quantity::{Quantity, parse};
///
/// assert_eq!(parse("01m30s500ms"), Some(Quantity::Seconds(90.5)));
/// assert_eq!(parse("1.50KB; 80%=576.00KB"), Some(Quantity::Bytes(1536.0)));
/// assert_eq!(parse("12547.00"), Some(Quantity::Count(12547.0)));
/// assert_eq!(parse("nanB"), None);
/// ```
#[must_use]
pub fn parse(text: &str) -> Option<Quantity> {
    let text = figure(text);
    if text.is_empty() || text.len() > MAX_CHARS {
        return None;
    }
    let mut rest = text;
    let mut seconds = 0.0;
    let mut is_time = false;
    while !rest.is_empty() {
        let digits = rest.len()
            - rest
                .trim_start_matches(|c: char| c.is_ascii_digit() || c == '.')
                .len();
        let value: f64 = rest.get(..digits)?.parse().ok()?;
        rest = rest.get(digits..)?;
        if rest.is_empty() && !is_time {
            return Some(Quantity::Count(value));
        }
        if let Some((_, bytes)) = SIZES.iter().find(|(unit, _)| rest == *unit) {
            return (!is_time).then_some(Quantity::Bytes(value * bytes));
        }
        let (unit, factor) = TIMES.iter().find(|(unit, _)| rest.starts_with(unit))?;
        rest = rest.get(unit.len()..)?;
        seconds += value * factor;
        is_time = true;
    }
    is_time.then_some(Quantity::Seconds(seconds))
}

/// The characters of the figure that a text begins with.
#[must_use]
pub fn figure(text: &str) -> &str {
    let text = text.trim_start();
    let end = text.find(|c: char| c.is_whitespace() || c == ';' || c == ',');
    end.and_then(|end| text.get(..end)).unwrap_or(text)
}
