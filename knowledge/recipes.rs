//! What public recipes reach, and what compiler flags were measured to cost.

use std::sync::LazyLock;

use profiler::chip::{Generation, Sourced};
use serde::Deserialize;

use crate::advice::AdviceKind;

const RECIPES_FILE: &str = "recipes/published.toml";
const RECIPES: &str = include_str!("data/recipes/published.toml");
const FLAGS_FILE: &str = "recipes/flags.toml";
const FLAGS: &str = include_str!("data/recipes/flags.toml");

/// A public recipe with a measured throughput.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Model, program and number format, for people.
    pub name: String,
    /// What names of the model begin with: letters and digits only, in small letters.
    pub model: Vec<String>,
    /// The chip.
    pub generation: Generation,
    /// Chips that it was measured on, where the source says so.
    #[serde(default)]
    pub chips: Option<u64>,
    /// The model's FLOPs over time, in TFLOP/s on a chip.
    pub tflops_per_chip: Sourced<f64>,
    /// What one would try next; absent where little is left to gain.
    #[serde(default)]
    pub kind: Option<AdviceKind>,
    /// What limits it, in words.
    #[serde(default)]
    pub limited_by: String,
    /// What to do about it.
    #[serde(default)]
    pub advice: Vec<String>,
}

/// A flag that was measured to cost throughput on a chip.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlagEffect {
    /// The flag, without dashes.
    pub name: String,
    /// The chip.
    pub generation: Generation,
    /// For numbers: the effect is of values from here on.
    #[serde(default)]
    pub at_least: Option<u64>,
    /// For numbers: the effect is of values up to here.
    #[serde(default)]
    pub at_most: Option<u64>,
    /// Change of throughput in percent, the worst that was measured.
    pub worst_percent: f64,
    /// Change of throughput in percent, the best that was measured.
    pub best_percent: f64,
    /// On what.
    pub on: String,
    /// The kind of advice that setting it would have been.
    pub kind: AdviceKind,
    /// Where it is told.
    pub source: String,
}

impl FlagEffect {
    /// Whether the effect is that of `value`: one in the range, or, without a range, `true`.
    #[must_use]
    pub fn applies_to(&self, value: &str) -> bool {
        if self.at_least.is_none() && self.at_most.is_none() {
            return value.eq_ignore_ascii_case("true") || value == "1";
        }
        let in_range = |value: u64| {
            self.at_least.is_none_or(|least| value >= least)
                && self.at_most.is_none_or(|most| value <= most)
        };
        value.parse().is_ok_and(in_range)
    }
}

/// The recipe of a model on a chip: that of the number of chips, else the first one.
///
/// ```
/// use knowledge::recipes::recipe;
/// use profiler::chip::Generation;
///
/// let found = recipe("mixtral_8x7b_dropped", Generation::V6e, Some(256)).expect("published");
/// assert_eq!(found.tflops_per_chip.value, 302.311);
/// assert_eq!(recipe("my-model", Generation::V6e, None), None);
/// ```
#[must_use]
pub fn recipe(model: &str, generation: Generation, chips: Option<u64>) -> Option<&'static Recipe> {
    let name: String = model
        .rsplit('/')
        .next()
        .unwrap_or(model)
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect();
    let fits = |recipe: &&Recipe| {
        recipe.generation == generation
            && recipe
                .model
                .iter()
                .any(|model| name.starts_with(model.as_str()))
    };
    let mut found = recipes().iter().filter(fits);
    let first = found.clone().next();
    found
        .find(|recipe| recipe.chips.is_some() && recipe.chips == chips)
        .or(first)
}

/// All recipes.
#[must_use]
pub fn recipes() -> &'static [Recipe] {
    static RECIPES_READ: LazyLock<Vec<Recipe>> = LazyLock::new(|| {
        let file: RecipeFile =
            crate::parse(RECIPES_FILE, RECIPES).expect("the tests parse this built-in file");
        file.recipe
    });
    &RECIPES_READ
}

/// All flags with a measured effect.
#[must_use]
pub fn flag_effects() -> &'static [FlagEffect] {
    static FLAGS_READ: LazyLock<Vec<FlagEffect>> = LazyLock::new(|| {
        let file: FlagFile =
            crate::parse(FLAGS_FILE, FLAGS).expect("the tests parse this built-in file");
        file.flag
    });
    &FLAGS_READ
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecipeFile {
    recipe: Vec<Recipe>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FlagFile {
    flag: Vec<FlagEffect>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chips::chip;

    #[test]
    fn rates_are_below_the_peak_and_told_somewhere() {
        for recipe in recipes() {
            let peak = chip(recipe.generation)
                .peak_tflops_per_chip("bf16")
                .expect("known");
            assert!(recipe.tflops_per_chip.value < 0.6 * peak, "{}", recipe.name);
            assert!(recipe.tflops_per_chip.source.starts_with("https://"));
            assert_eq!(
                recipe.kind.is_some(),
                !recipe.advice.is_empty(),
                "{}",
                recipe.name
            );
            let plain = |name: &String| {
                name.chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
            };
            assert!(recipe.model.iter().all(plain));
        }
    }

    #[test]
    fn the_number_of_chips_picks_among_recipes_of_a_model() {
        let rate = |chips| {
            recipe("meta/Llama-3.1-8B", Generation::V6e, chips).map(|r| r.tflops_per_chip.value)
        };
        assert_eq!(rate(Some(256)), Some(417.397));
        assert_eq!(rate(Some(8)), Some(413.433));
        assert_eq!(rate(Some(12)), Some(413.433));
    }

    #[test]
    fn flags_say_of_which_values_they_speak() {
        for flag in flag_effects() {
            assert!(flag.worst_percent <= flag.best_percent && flag.best_percent <= 0.0);
            assert!(flag.source.starts_with("https://"));
        }
        let flag = |name: &str| {
            flag_effects()
                .iter()
                .find(|flag| flag.name.contains(name))
                .expect(name)
        };
        assert!(flag("scoped_vmem").applies_to("524288"));
        assert!(!flag("scoped_vmem").applies_to("65536"));
        assert!(flag("async_collective").applies_to("true"));
        assert!(!flag("async_collective").applies_to("false"));
        assert!(!flag("windowed_einsum").applies_to("1000000"));
    }
}
