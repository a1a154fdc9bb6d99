//! The warning of attention without the flash kernel: which of its conditions is not met.

/// Reads the conditions as the warning lists them, with the values that it found.
///
/// The shape is known only by its own line, so a size that is only known at run time shows as
/// nothing else being wrong.
pub(super) fn unmet(conditions: &[String]) -> Vec<String> {
    let mut unmet = Vec::new();
    let current = |line: &str| -> Option<String> {
        let (_, after) = line.split_once("(current: ")?;
        Some(after.split(')').next()?.trim().to_owned())
    };
    for line in conditions {
        let line = line.trim().trim_start_matches("- ");
        if line.starts_with("inputs are float32 or bfloat16") {
            let dtype =
                current(line).filter(|dtype| !matches!(dtype.as_str(), "Float" | "BFloat16"));
            unmet.extend(dtype.map(|dtype| format!("inputs are {dtype}, not float32 or bfloat16")));
        } else if let Some(shape) = line.strip_prefix("(query shape: [") {
            let sizes = shape.split(']').next().unwrap_or_default();
            let width: Option<u64> = sizes.rsplit(',').next().and_then(|w| w.trim().parse().ok());
            let bad = width.filter(|width| *width >= 128 && width % 128 != 0);
            unmet.extend(bad.map(|width| {
                format!("the head dimension is {width}: above 128 it must be a multiple of 128")
            }));
        } else if line.starts_with("inputs have the same rank") {
            let ranks: Vec<&str> = line
                .split([',', '('])
                .filter_map(|part| part.rsplit_once(": "))
                .map(|(_, rank)| rank.trim_end_matches(')').trim())
                .collect();
            if ranks.windows(2).any(|pair| pair[0] != pair[1]) {
                unmet.push(format!(
                    "query, key and value have ranks {}",
                    ranks.join(", ")
                ));
            }
        } else if line.starts_with("query rank is at least") {
            let rank: Option<u64> = current(line).and_then(|rank| rank.parse().ok());
            unmet.extend(
                rank.filter(|rank| *rank < 3)
                    .map(|rank| format!("the query has rank {rank}")),
            );
        } else if line.starts_with("attn_mask does not require gradient") {
            let gradient = current(line).is_some_and(|current| current == "1");
            unmet.extend(gradient.then(|| "attn_mask requires a gradient".to_owned()));
        }
    }
    unmet
}

#[cfg(test)]
mod tests {
    use super::unmet;

    fn lines(dtype: &str, width: u64) -> Vec<String> {
        vec![
            "- inputs have static shapes".to_owned(),
            "- dropout_p is in [0.0, 1.0) (current: 0)".to_owned(),
            format!("- inputs are float32 or bfloat16 (current: {dtype})"),
            "- inputs have the same rank (query: 4, key: 4, value: 4)".to_owned(),
            format!("(query shape: [1, 4, 64, {width}])"),
        ]
    }

    #[test]
    fn the_condition_that_fails_is_named() {
        assert!(unmet(&lines("BFloat16", 64)).is_empty());
        assert_eq!(
            unmet(&lines("Half", 64)),
            ["inputs are Half, not float32 or bfloat16"]
        );
        let wide = unmet(&lines("Float", 160));
        assert!(wide[0].starts_with("the head dimension is 160"), "{wide:?}");
    }
}
