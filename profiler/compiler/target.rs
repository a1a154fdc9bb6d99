//! What a program is compiled for, by the names that people use.
//!
//! As in Google's naming, the number after v2 to v5p and tpu7x counts TensorCores, and after v5e
//! and v6e chips: `v5p-8` is four chips, `v6e-8` eight. A topology can be named outright, as
//! `v5p:2x2x1`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::chip::Generation;

/// Chips of one generation in a grid.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Target {
    /// Which generation.
    pub generation: Generation,
    /// Chips along each dimension of the torus: two of them on v2, v3, v5e and v6e, else three.
    pub grid: Vec<u32>,
}

/// Why a target's name cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The generation is not one.
    #[error(
        "unknown target {name:?}: expected a generation and a size, as in v6e-4 or v5p:2x2x1; `tpu-tune targets` lists them"
    )]
    Unknown {
        /// What was given.
        name: String,
    },
    /// There is no slice of that many.
    #[error(
        "there is no {generation}-{count}: {generation} counts {unit}, and its slices are {known}"
    )]
    Size {
        /// The generation.
        generation: &'static str,
        /// The size that was given.
        count: u32,
        /// What the number counts.
        unit: &'static str,
        /// The sizes that there are.
        known: String,
    },
    /// The grid does not fit the generation.
    #[error(
        "{generation} has no topology {grid}: expected {dimensions} dimensions, as in {example}"
    )]
    Grid {
        /// The generation.
        generation: &'static str,
        /// The grid that was given.
        grid: String,
        /// How many dimensions it has.
        dimensions: usize,
        /// One that exists.
        example: String,
    },
}

/// Grids by number of chips, for generations with a two-dimensional torus.
const FLAT: &[&[u32]] = &[
    &[1, 1],
    &[2, 2],
    &[2, 4],
    &[4, 4],
    &[4, 8],
    &[8, 8],
    &[8, 16],
    &[16, 16],
];
/// The same for v2 and v3: no slice is smaller than a board of four chips.
const BOARDS: &[&[u32]] = &[&[2, 2], &[4, 4], &[4, 8], &[8, 8], &[8, 16], &[16, 16]];
/// The same with a three-dimensional torus.
const DEEP: &[&[u32]] = &[
    &[1, 1, 1],
    &[2, 2, 1],
    &[2, 2, 2],
    &[2, 2, 4],
    &[2, 4, 4],
    &[4, 4, 4],
    &[4, 4, 8],
    &[4, 8, 8],
    &[8, 8, 8],
];
/// Chips along a dimension, at most: pods are smaller.
const MAX_SIDE: u32 = 64;

fn grids(generation: Generation) -> &'static [&'static [u32]] {
    match generation {
        Generation::V2 | Generation::V3 => BOARDS,
        Generation::V5e | Generation::V6e => FLAT,
        // No slice of a single chip.
        Generation::V4 => &DEEP[1..],
        Generation::V5p | Generation::Tpu7x => DEEP,
    }
}

/// The generation of that name; names that end in the middle are none.
fn named(text: &str) -> Option<Generation> {
    let whole = text.ends_with(|c: char| c.is_ascii_alphanumeric());
    Generation::parse(text).filter(|_| whole)
}

/// TensorCores on a chip.
fn cores_per_chip(generation: Generation) -> u32 {
    match generation {
        Generation::V5e | Generation::V6e => 1,
        _ => 2,
    }
}

impl Target {
    /// Reads a name: `v6e-4`, `v5litepod-4`, `v5p-8`, `tpu7x-16`, `v5p:2x2x1`, `v6e` (one chip,
    /// or the smallest slice).
    ///
    /// # Errors
    /// When there is no such target, saying which there are.
    pub fn parse(name: &str) -> Result<Self, TargetError> {
        let unknown = || TargetError::Unknown {
            name: name.chars().take(40).collect(),
        };
        let trimmed = name.trim();
        if let Some(generation) = named(trimmed) {
            let first = grids(generation)[0].to_vec();
            return Ok(Self {
                generation,
                grid: first,
            });
        }
        if let Some((generation, grid)) = trimmed.split_once([':', '=']) {
            let generation = named(generation).ok_or_else(unknown)?;
            return Self::of_grid(generation, grid);
        }
        let (generation, count) = trimmed.rsplit_once('-').ok_or_else(unknown)?;
        let generation = named(generation).ok_or_else(unknown)?;
        let count: u32 = count.parse().map_err(|_| unknown())?;
        let per_chip = cores_per_chip(generation);
        grids(generation)
            .iter()
            .find(|grid| grid.iter().product::<u32>() * per_chip == count)
            .map(|grid| Self {
                generation,
                grid: grid.to_vec(),
            })
            .ok_or_else(|| TargetError::Size {
                generation: generation.name(),
                count,
                unit: counted(generation),
                known: Self::slices(generation)
                    .map(|target| target.name())
                    .collect::<Vec<_>>()
                    .join(", "),
            })
    }

    fn of_grid(generation: Generation, text: &str) -> Result<Self, TargetError> {
        let example = grids(generation)[grids(generation).len().min(2) - 1];
        let grid: Option<Vec<u32>> = text
            .split('x')
            .map(|side| side.parse().ok().filter(|s| (1..=MAX_SIDE).contains(s)))
            .collect();
        let grid = grid.filter(|grid| grid.len() == example.len());
        grid.map(|grid| Self { generation, grid })
            .ok_or_else(|| TargetError::Grid {
                generation: generation.name(),
                grid: text.chars().take(20).collect(),
                dimensions: example.len(),
                example: format!("{}:{}", generation.name(), joined(example)),
            })
    }

    /// The slices that have names, smallest first.
    pub fn slices(generation: Generation) -> impl Iterator<Item = Self> {
        grids(generation).iter().map(move |grid| Self {
            generation,
            grid: grid.to_vec(),
        })
    }

    /// Chips.
    #[must_use]
    pub fn chips(&self) -> u32 {
        self.grid.iter().product()
    }

    /// TensorCores.
    #[must_use]
    pub fn tensor_cores(&self) -> u32 {
        self.chips() * cores_per_chip(self.generation)
    }

    /// Devices as JAX counts them: two on a chip of v2, v3 and TPU7x, else one (on v4 and v5p of
    /// two TensorCores together).
    #[must_use]
    pub fn devices(&self) -> u32 {
        match self.generation {
            Generation::V2 | Generation::V3 | Generation::Tpu7x => 2 * self.chips(),
            _ => self.chips(),
        }
    }

    /// The name that people use: `v5p-8` for four chips.
    #[must_use]
    pub fn name(&self) -> String {
        let named = grids(self.generation).iter().any(|grid| *grid == self.grid);
        if !named {
            return self.topology();
        }
        let count = self.chips() * cores_per_chip(self.generation);
        format!("{}-{count}", self.generation.name())
    }

    /// The name that the compiler takes: `v5p:2x2x1`.
    #[must_use]
    pub fn topology(&self) -> String {
        format!("{}:{}", self.generation.name(), joined(&self.grid))
    }

    /// What the number in [`Self::name`] counts.
    #[must_use]
    pub fn counted(&self) -> &'static str {
        counted(self.generation)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

fn counted(generation: Generation) -> &'static str {
    match generation {
        Generation::V5e | Generation::V6e => "chips",
        _ => "TensorCores",
    }
}

fn joined(grid: &[u32]) -> String {
    let sides: Vec<String> = grid.iter().map(u32::to_string).collect();
    sides.join("x")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str) -> (String, u32, u32, u32) {
        let target = Target::parse(name).expect(name);
        (
            target.topology(),
            target.chips(),
            target.tensor_cores(),
            target.devices(),
        )
    }

    #[test]
    fn numbers_count_what_google_counts() {
        assert_eq!(found("v6e-8"), ("v6e:2x4".to_owned(), 8, 8, 8));
        assert_eq!(found("v5litepod-4"), ("v5e:2x2".to_owned(), 4, 4, 4));
        assert_eq!(found("v5p-8"), ("v5p:2x2x1".to_owned(), 4, 8, 4));
        assert_eq!(found("tpu7x-16"), ("tpu7x:2x2x2".to_owned(), 8, 16, 16));
        assert_eq!(found("TPU v6 lite"), ("v6e:1x1".to_owned(), 1, 1, 1));
        assert_eq!(found("v5p:2x2x1"), found("v5p-8"));
    }

    #[test]
    fn names_are_read_back() {
        for generation in Generation::ALL {
            for target in Target::slices(generation) {
                assert_eq!(Target::parse(&target.name()), Ok(target.clone()));
                assert_eq!(Target::parse(&target.topology()), Ok(target));
            }
        }
    }

    #[test]
    fn what_does_not_exist_is_refused_with_what_does() {
        let size = Target::parse("v6e-3")
            .expect_err("no such slice")
            .to_string();
        assert!(
            size.contains("counts chips") && size.contains("v6e-4"),
            "{size}"
        );
        let grid = Target::parse("v5p:2x2")
            .expect_err("two dimensions")
            .to_string();
        assert!(grid.contains("v5p:2x2x1"), "{grid}");
        for junk in ["", "h100", "v6e-", "v6e:0x0", "v6e:99999x2", "v6e--4"] {
            assert!(Target::parse(junk).is_err(), "{junk}");
        }
    }
}
