//! A sharding in the languages of those who use it: JAX, PyTorch, Shardy, GSPMD.

use serde::Serialize;

use crate::compiler::sharding::annotate::{gspmd, shardy, shardy_mesh};
use crate::compiler::sharding::mesh::Mesh;
use crate::compiler::sharding::problem::{Problem, Role};
use crate::compiler::sharding::spec::{Sharding, Spec};

/// A sharding, printed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Printed {
    /// `jax.make_mesh((2, 2), ("fsdp", "tensor"))`.
    pub jax_mesh: String,
    /// `init_device_mesh("tpu", (2, 2), mesh_dim_names=("fsdp", "tensor"))`.
    pub torch_mesh: String,
    /// Shardy's mesh: `<["fsdp"=2, "tensor"=2]>`.
    pub shardy_mesh: String,
    /// Groups of arguments, in the program's order.
    pub arguments: Vec<PrintedGroup>,
}

/// How a group of arguments lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PrintedGroup {
    /// Their name, layer numbers as `*`.
    pub name: String,
    /// What they are for.
    pub role: Role,
    /// Sizes.
    pub dims: Vec<u64>,
    /// How many there are.
    pub count: usize,
    /// `PartitionSpec("fsdp", None)`.
    pub partition_spec: String,
    /// `[Shard(0), Replicate()]`: one for each axis of the mesh.
    pub placements: String,
    /// `#sdy.sharding<@mesh, [{"fsdp"}, {}]>`.
    pub shardy: String,
    /// `{devices=[2,1]<=[2]}`.
    pub gspmd: String,
}

impl Printed {
    /// Prints a sharding of a problem's arguments.
    #[must_use]
    pub fn new(problem: &Problem, sharding: &Sharding) -> Self {
        let mesh = &sharding.mesh;
        let sizes: Vec<String> = mesh.axes.iter().map(|axis| axis.size.to_string()).collect();
        let names: Vec<String> = mesh.axes.iter().map(|axis| quoted(&axis.name)).collect();
        let (sizes, names) = (tuple(&sizes), tuple(&names));
        let arguments = problem.groups.iter().filter_map(|group| {
            let spec = sharding.arguments.get(*group.members.first()?)?;
            Some(PrintedGroup {
                name: group.name.clone(),
                role: group.role,
                dims: group.dims.clone(),
                count: group.members.len(),
                partition_spec: partition_spec(spec, mesh),
                placements: placements(spec, mesh),
                shardy: shardy(spec, mesh),
                gspmd: gspmd(spec, mesh),
            })
        });
        Self {
            jax_mesh: format!("jax.make_mesh({sizes}, {names})"),
            torch_mesh: format!("init_device_mesh(\"tpu\", {sizes}, mesh_dim_names={names})"),
            shardy_mesh: shardy_mesh(mesh),
            arguments: arguments.collect(),
        }
    }
}

fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

/// A Python tuple.
fn tuple(items: &[String]) -> String {
    match items {
        [only] => format!("({only},)"),
        _ => format!("({})", items.join(", ")),
    }
}

/// JAX: `PartitionSpec("fsdp", None)`, trailing `None`s left out.
#[must_use]
pub fn partition_spec(spec: &Spec, mesh: &Mesh) -> String {
    let last = spec.dims.iter().rposition(|axes| !axes.is_empty());
    let kept = last.map_or(0, |last| last + 1);
    let dims: Vec<String> = spec
        .dims
        .iter()
        .take(kept)
        .map(|axes| {
            let names = axes.iter().filter_map(|axis| mesh.axes.get(*axis));
            let names: Vec<String> = names.map(|axis| quoted(&axis.name)).collect();
            match names.as_slice() {
                [] => "None".to_owned(),
                [only] => only.clone(),
                _ => tuple(&names),
            }
        })
        .collect();
    format!("PartitionSpec({})", dims.join(", "))
}

/// PyTorch: of each mesh axis what it does with the tensor, `[Shard(0), Replicate()]`.
#[must_use]
pub fn placements(spec: &Spec, mesh: &Mesh) -> String {
    let of_axis = |mesh_axis: usize| {
        let dim = spec.dims.iter().position(|axes| axes.contains(&mesh_axis));
        dim.map_or_else(|| "Replicate()".to_owned(), |dim| format!("Shard({dim})"))
    };
    let all: Vec<String> = (0..mesh.axes.len()).map(of_axis).collect();
    format!("[{}]", all.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compiler::sharding::mesh::MeshAxis;

    #[test]
    fn each_language_says_the_same() {
        let mesh = Mesh {
            axes: [("fsdp", 2), ("tensor", 4)]
                .map(|(name, size)| MeshAxis {
                    name: name.to_owned(),
                    size,
                })
                .to_vec(),
        };
        let told = |dims: &[&[usize]]| {
            let spec = Spec {
                dims: dims.iter().map(|axes| axes.to_vec()).collect(),
            };
            (partition_spec(&spec, &mesh), placements(&spec, &mesh))
        };
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(
            told(&[&[1], &[0]]),
            pair(
                "PartitionSpec(\"tensor\", \"fsdp\")",
                "[Shard(1), Shard(0)]"
            )
        );
        assert_eq!(
            told(&[&[], &[0, 1], &[]]),
            pair(
                "PartitionSpec(None, (\"fsdp\", \"tensor\"))",
                "[Shard(1), Shard(1)]"
            )
        );
        assert_eq!(
            told(&[&[], &[]]),
            pair("PartitionSpec()", "[Replicate(), Replicate()]")
        );
    }
}
