//! Accelerator types: `v6e-8`, `v5p-256`, `tpu7x-4x4x4`.

use crate::chip::Generation;

/// Chips that a launch asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accelerator {
    /// Their generation.
    pub generation: Generation,
    /// How many in a slice, where the name says it without doubt.
    pub chips: Option<u64>,
}

impl Accelerator {
    /// Reads an accelerator type. Up to v5p its number counts TensorCores, two a chip; for v5e and
    /// v6e chips; a topology is always of chips. The number of a `tpu7x-…` is left open.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (name, size) = text.trim().split_once('-')?;
        let name = name.to_ascii_lowercase();
        let generation = match name.as_str() {
            "v5litepod" => Generation::V5e,
            _ => Generation::ALL.into_iter().find(|g| g.name() == name)?,
        };
        let sides: Option<Vec<u64>> = size.split('x').map(|side| side.parse().ok()).collect();
        let sides = sides?;
        if sides.contains(&0) {
            return None;
        }
        let product = sides.iter().fold(1u64, |n, side| n.saturating_mul(*side));
        let chips = match (sides.len(), generation) {
            (1, Generation::V5e | Generation::V6e) => Some(product),
            (1, Generation::Tpu7x) => None,
            (1, _) => Some(product / 2).filter(|chips| *chips > 0),
            _ => Some(product),
        };
        Some(Self { generation, chips })
    }
}

#[cfg(test)]
mod tests {
    use super::Accelerator;

    #[test]
    fn chips_of_a_slice() {
        for (text, expected) in [
            ("v6e-8", Some(("v6e", Some(8)))),
            ("v5litepod-16", Some(("v5e", Some(16)))),
            ("v5p-256", Some(("v5p", Some(128)))),
            ("tpu7x-4x4x4", Some(("tpu7x", Some(64)))),
            ("tpu7x-128", Some(("tpu7x", None))),
            ("v6e-0", None),
            ("h100-8", None),
            ("v6e", None),
            ("v4-axb", None),
        ] {
            let found = Accelerator::parse(text);
            let found = found.map(|found| (found.generation.name(), found.chips));
            assert_eq!(found, expected, "{text}");
        }
    }
}
