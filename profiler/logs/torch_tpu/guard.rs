//! Guards of Dynamo: what was assumed when a function was compiled.

/// A size that was not as assumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeGuard {
    /// The tensor, as the function names it.
    pub tensor: String,
    /// The axis.
    pub axis: usize,
    /// The size that was compiled for.
    pub expected: u64,
    /// The size that came.
    pub actual: u64,
}

impl SizeGuard {
    /// Reads `0/0: tensor 'x' size mismatch at index 0. expected 32, actual 20`.
    #[must_use]
    pub fn parse(guard: &str) -> Option<Self> {
        let (before, after) = guard.split_once(" size mismatch at index ")?;
        let (_, tensor) = before.split_once("tensor ")?;
        let (axis, after) = after.split_once(". expected ")?;
        let (expected, after) = after.split_once(", actual ")?;
        let digits = after
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(after.len());
        Some(Self {
            tensor: tensor.trim_matches('\'').to_owned(),
            axis: axis.parse().ok()?,
            expected: expected.parse().ok()?,
            actual: after.get(..digits)?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::SizeGuard;

    #[test]
    fn sizes_of_a_guard() {
        let guard = "0/1: tensor 'x' size mismatch at index 0. expected 20, actual 17";
        let expected = SizeGuard {
            tensor: "x".to_owned(),
            axis: 0,
            expected: 20,
            actual: 17,
        };
        assert_eq!(SizeGuard::parse(guard), Some(expected));
        assert_eq!(SizeGuard::parse("0/0: L['scale'] == 1.0"), None);
    }
}
