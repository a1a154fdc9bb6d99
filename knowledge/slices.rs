//! How many chips one slice has at most.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use profiler::chip::{Generation, Sourced};

const FILE: &str = "slices.toml";
const TEXT: &str = include_str!("data/slices.toml");

/// Chips of the largest slice of a generation: all of them linked by ICI.
///
/// ```
/// let chips = knowledge::slices::largest(profiler::chip::Generation::V6e);
/// assert_eq!(chips, 256);
/// ```
#[must_use]
pub fn largest(generation: Generation) -> u64 {
    static PARSED: LazyLock<BTreeMap<String, Sourced<u64>>> =
        LazyLock::new(|| crate::parse(FILE, TEXT).expect("the tests parse this built-in file"));
    PARSED
        .get(generation.name())
        .map(|chips| chips.value)
        .expect("the tests find each generation")
}

#[cfg(test)]
mod tests {
    use super::largest;
    use profiler::chip::Generation;

    #[test]
    fn every_generation_has_a_largest_slice() {
        for generation in Generation::ALL {
            let chips = largest(generation);
            let named = profiler::compiler::target::Target::slices(generation)
                .map(|target| u64::from(target.chips()))
                .max();
            assert!(Some(chips) >= named, "{generation:?}: {chips}");
        }
    }
}
