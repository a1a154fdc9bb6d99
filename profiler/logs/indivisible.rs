//! Errors of JAX on axes that a mesh does not divide.
//!
//! Two wordings: `… was given the sharding of S, which implies that the global size of its
//! dimension D should be divisible by N, but it is equal to M (full shape: …)`, and since JAX 0.7
//! `… was given the sharding S implies that array axis D is partitioned N times, but the dimension
//! size is M (full shape: …, …)`.

use crate::logs::{At, Line, LineReader, Logs, More};
use crate::note::Notes;

/// An axis that its sharding does not divide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Indivisible {
    /// Where it stands first.
    pub at: At,
    /// How often it stands in the texts.
    pub count: u64,
    /// The line.
    pub text: String,
    /// What was sharded, as `pjit arguments with pytree key path batch['tokens']`.
    pub what: String,
    /// Axes of the mesh with their sizes, as printed.
    pub mesh: Vec<(String, u64)>,
    /// The partition spec, as printed.
    pub spec: String,
    /// The axis of the array, from 0.
    pub axis: u64,
    /// Its size.
    pub size: u64,
    /// Parts that the sharding cuts it into.
    pub parts: u64,
    /// The whole shape, as `(6, 128)`.
    pub shape: String,
}

/// Different errors that are kept.
const MAX_KEPT: usize = 64;
/// Characters of a line that are kept.
const MAX_SHOWN: usize = 600;

/// Reads such errors.
#[derive(Debug, Default)]
pub(super) struct Reader {
    found: Vec<Indivisible>,
}

impl LineReader for Reader {
    fn triggers(&self) -> &'static [&'static str] {
        &["was given the sharding"]
    }

    fn line(&mut self, line: Line<'_>) -> More {
        if let Some(new) = parse(line.at, line.text) {
            add(&mut self.found, new);
        }
        More::Triggers
    }

    fn finish(self: Box<Self>, logs: &mut Logs, _notes: &mut Notes) -> bool {
        let found = !self.found.is_empty();
        for error in self.found {
            add(&mut logs.indivisible, error);
        }
        found
    }
}

fn add(list: &mut Vec<Indivisible>, new: Indivisible) {
    let same = |known: &&mut Indivisible| {
        (&known.what, &known.spec, known.axis) == (&new.what, &new.spec, new.axis)
            && (&known.mesh, known.size) == (&new.mesh, new.size)
    };
    if let Some(known) = list.iter_mut().find(same) {
        known.count += new.count;
    } else if list.len() < MAX_KEPT {
        list.push(new);
    }
}

fn parse(at: At, text: &str) -> Option<Indivisible> {
    let (before, after) = text.split_once("was given the sharding")?;
    let what = before
        .rsplit_once("One of ")
        .map_or(before, |(_, what)| what);
    let between = |start: &str, end: char| {
        let (_, rest) = after.split_once(start)?;
        rest.split(end).next()
    };
    let number = |starts: [&str; 2]| {
        let rest = starts.iter().find_map(|start| after.split_once(start))?.1;
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse::<u64>().ok()
    };
    let spec = after
        .split_once("spec=")
        .and_then(|(_, rest)| rest.split(", memory_kind").next())
        .unwrap_or_default();
    Some(Indivisible {
        at,
        count: 1,
        text: text.trim().chars().take(MAX_SHOWN).collect(),
        what: what.trim().chars().take(MAX_SHOWN).collect(),
        mesh: between("Mesh(", ')').map(mesh_axes).unwrap_or_default(),
        spec: spec.chars().take(MAX_SHOWN).collect(),
        axis: number(["its dimension ", "array axis "])?,
        size: number(["it is equal to ", "dimension size is "])?,
        parts: number(["divisible by ", "is partitioned "])?,
        shape: between("full shape: (", ')')
            .map(|shape| format!("({})", shape.chars().take(80).collect::<String>()))
            .unwrap_or_default(),
    })
}

/// `'fsdp': 8, 'tp': 1, axis_types=(…`: names with sizes.
fn mesh_axes(text: &str) -> Vec<(String, u64)> {
    let pairs = text.split(',').map_while(|part| {
        let (name, size) = part.split_once(':')?;
        let name = name.trim().trim_matches(['\'', '"']);
        Some((name.to_owned(), size.trim().parse().ok()?))
    });
    pairs.take(16).collect()
}

#[cfg(test)]
mod tests {
    use super::parse;
    use crate::logs::At;

    #[test]
    fn both_wordings() {
        let old = "ValueError: One of pjit arguments with pytree key path batch['tokens'] was given the sharding of NamedSharding(mesh=Mesh('fsdp': 8, 'tp': 1, axis_types=(Auto, Auto)), spec=PartitionSpec(('fsdp', 'tp'),), memory_kind=unpinned_host), which implies that the global size of its dimension 0 should be divisible by 8, but it is equal to 6 (full shape: (6, 128))";
        let new = "IndivisibleError: One of device_put args was given the sharding NamedSharding(mesh=Mesh('fsdp': 8, 'tp': 1, axis_types=(Auto, Auto)), spec=P(('fsdp', 'tp'),), memory_kind=device) implies that array axis 0 is partitioned 8 times, but the dimension size is 6 (full shape: (6, 128), per-dimension tiling factors: (8, 1) should evenly divide the shape).";
        for (text, what) in [
            (old, "pjit arguments with pytree key path batch['tokens']"),
            (new, "device_put args"),
        ] {
            let error = parse(At::default(), text).expect("an error");
            assert_eq!(error.what, what);
            assert_eq!((error.axis, error.size, error.parts), (0, 6, 8));
            assert_eq!(error.shape, "(6, 128)");
            let axes: Vec<(&str, u64)> = error
                .mesh
                .iter()
                .map(|(name, size)| (name.as_str(), *size))
                .collect();
            assert_eq!(axes, [("fsdp", 8), ("tp", 1)]);
            assert!(error.spec.contains("('fsdp', 'tp')"), "{}", error.spec);
        }
        assert_eq!(parse(At::default(), "x was given the sharding of y"), None);
    }
}
