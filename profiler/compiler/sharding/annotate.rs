//! Writes a sharding into a program's text, as Shardy or GSPMD read it.

use std::fmt::Write as _;
use std::ops::Range;

use crate::compiler::sharding::mesh::Mesh;
use crate::compiler::sharding::signature::{Port, Signature, SignatureError};
use crate::compiler::sharding::spec::{Sharding, Spec};

/// Name of the mesh in Shardy's annotations.
pub const MESH_NAME: &str = "mesh";

/// The language of annotations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// `sdy.mesh` and `sdy.sharding`; the compiler's option `shardy` must be on.
    #[default]
    Shardy,
    /// `mhlo.sharding`; the compiler's option `shardy` must be off.
    Gspmd,
}

/// The program with a sharding on each argument, on each result that takes a donated argument's
/// place, and with as many partitions as the mesh has devices.
///
/// # Errors
/// When the program has no usable `@main`.
pub fn annotate(
    text: &str,
    sharding: &Sharding,
    dialect: Dialect,
) -> Result<String, SignatureError> {
    let signature = Signature::parse(text)?;
    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    for (port, spec) in signature.arguments.iter().zip(&sharding.arguments) {
        edits.push(edit(text, port, spec, &sharding.mesh, dialect));
        let result = port
            .aliases
            .and_then(|result| signature.results.get(result));
        if let Some(result) = result
            && result.dims() == port.dims()
        {
            edits.push(edit(text, result, spec, &sharding.mesh, dialect));
        }
    }
    edits.extend(module_edits(text, &sharding.mesh, dialect));
    edits.sort_by_key(|(range, _)| (range.start, range.end));
    let mut out = String::with_capacity(text.len() + 64 * edits.len());
    let mut at = 0;
    for (range, new) in edits {
        // An edit within another one would garble the text: the first one stands.
        if range.start < at {
            continue;
        }
        out.push_str(text.get(at..range.start).unwrap_or_default());
        out.push_str(&new);
        at = range.end;
    }
    out.push_str(text.get(at..).unwrap_or_default());
    Ok(out)
}

/// The attributes of a port with the new sharding in place of any other.
fn edit(
    text: &str,
    port: &Port,
    spec: &Spec,
    mesh: &Mesh,
    dialect: Dialect,
) -> (Range<usize>, String) {
    let mut attributes: Vec<String> = port
        .attributes
        .iter()
        .filter(|(name, _)| name != "sdy.sharding" && name != "mhlo.sharding")
        .filter_map(|(_, range)| text.get(range.clone()).map(str::to_owned))
        .collect();
    if port.tensor.is_some() {
        attributes.push(match dialect {
            Dialect::Shardy => format!("sdy.sharding = {}", shardy(spec, mesh)),
            Dialect::Gspmd => format!("mhlo.sharding = \"{}\"", gspmd(spec, mesh)),
        });
    }
    let new = if attributes.is_empty() {
        String::new()
    } else {
        format!(" {{{}}}", attributes.join(", "))
    };
    let end = port
        .braces
        .as_ref()
        .map_or(port.ty.end, |braces| braces.end);
    (port.ty.end..end, new)
}

/// Takes meshes out, puts ours in, and sets the number of partitions.
fn module_edits(text: &str, mesh: &Mesh, dialect: Dialect) -> Vec<(Range<usize>, String)> {
    let mut edits = Vec::new();
    let mut at = 0;
    let mut opened = false;
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let trimmed = line.trim_start();
        if trimmed.starts_with("sdy.mesh ") {
            edits.push((start..at, String::new()));
        }
        if !opened && trimmed.starts_with("module") {
            opened = true;
            edits.extend(partitions(line, start, mesh.devices()));
            if dialect == Dialect::Shardy {
                edits.push((
                    at..at,
                    format!("  sdy.mesh @{MESH_NAME} = {}\n", shardy_mesh(mesh)),
                ));
            }
        }
    }
    edits
}

fn partitions(line: &str, start: usize, devices: u64) -> Option<(Range<usize>, String)> {
    const NAME: &str = "mhlo.num_partitions = ";
    let from = line.find(NAME)? + NAME.len();
    let digits = line
        .get(from..)?
        .bytes()
        .take_while(u8::is_ascii_digit)
        .count();
    Some((start + from..start + from + digits, devices.to_string()))
}

/// Shardy's mesh: `<["data"=2, "tensor"=4]>`.
#[must_use]
pub fn shardy_mesh(mesh: &Mesh) -> String {
    let axes: Vec<String> = mesh
        .axes
        .iter()
        .map(|axis| format!("\"{}\"={}", axis.name, axis.size))
        .collect();
    format!("<[{}]>", axes.join(", "))
}

/// Shardy's annotation of a tensor: `#sdy.sharding<@mesh, [{"data"}, {}]>`.
#[must_use]
pub fn shardy(spec: &Spec, mesh: &Mesh) -> String {
    let dims: Vec<String> = spec
        .dims
        .iter()
        .map(|axes| {
            let names = axes.iter().filter_map(|axis| mesh.axes.get(*axis));
            let names: Vec<String> = names.map(|axis| format!("\"{}\"", axis.name)).collect();
            format!("{{{}}}", names.join(", "))
        })
        .collect();
    format!("#sdy.sharding<@{MESH_NAME}, [{}]>", dims.join(", "))
}

fn parts(sizes: impl Iterator<Item = u64>) -> u64 {
    sizes.fold(1, u64::saturating_mul)
}

/// GSPMD's annotation of a tensor:
/// `{devices=[2,1,4]<=[2,4] last_tile_dim_replicate}`, `{replicated}`.
#[must_use]
pub fn gspmd(spec: &Spec, mesh: &Mesh) -> String {
    if spec.is_replicated() || mesh.devices() <= 1 {
        return "{replicated}".to_owned();
    }
    let size = |axis: &usize| mesh.axes.get(*axis).map_or(1, |axis| axis.size);
    let mut tiles: Vec<u64> = spec
        .dims
        .iter()
        .map(|axes| parts(axes.iter().map(size)))
        .collect();
    // Mesh axes in the order in which the tiles count them, those that cut nothing last.
    let mut order: Vec<usize> = spec.dims.iter().flatten().copied().collect();
    let rest: Vec<usize> = (0..mesh.axes.len())
        .filter(|a| !order.contains(a))
        .collect();
    let copies = parts(rest.iter().map(size));
    order.extend(rest);
    let mut suffix = "";
    if copies > 1 {
        tiles.push(copies);
        suffix = " last_tile_dim_replicate";
    }
    let numbers = |list: &[u64]| {
        let list: Vec<String> = list.iter().map(u64::to_string).collect();
        list.join(",")
    };
    let mut out = format!("{{devices=[{}]<=[", numbers(&tiles));
    if order.iter().enumerate().all(|(place, axis)| place == *axis) {
        // In the order of the devices' numbers: one run of them.
        let _ = write!(out, "{}]", mesh.devices());
    } else {
        let sizes: Vec<u64> = mesh.axes.iter().map(|axis| axis.size).collect();
        let order: Vec<u64> = order.iter().map(|axis| *axis as u64).collect();
        let _ = write!(out, "{}]T({})", numbers(&sizes), numbers(&order));
    }
    out.push_str(suffix);
    out.push('}');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compiler::sharding::mesh::MeshAxis;

    fn mesh(axes: &[(&str, u64)]) -> Mesh {
        let axes = axes.iter().map(|(name, size)| MeshAxis {
            name: (*name).to_owned(),
            size: *size,
        });
        Mesh {
            axes: axes.collect(),
        }
    }

    fn spec(dims: &[&[usize]]) -> Spec {
        Spec {
            dims: dims.iter().map(|axes| axes.to_vec()).collect(),
        }
    }

    #[test]
    fn gspmd_lists_tiles_in_the_mesh_order() {
        let mesh = mesh(&[("data", 2), ("tensor", 4)]);
        let told = |dims: &[&[usize]]| gspmd(&spec(dims), &mesh);
        assert_eq!(told(&[&[], &[]]), "{replicated}");
        assert_eq!(
            told(&[&[0], &[]]),
            "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"
        );
        assert_eq!(
            told(&[&[1], &[]]),
            "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}"
        );
        assert_eq!(told(&[&[0], &[1]]), "{devices=[2,4]<=[8]}");
        assert_eq!(told(&[&[1], &[0]]), "{devices=[4,2]<=[2,4]T(1,0)}");
        assert_eq!(told(&[&[0, 1], &[]]), "{devices=[8,1]<=[8]}");
    }

    #[test]
    fn a_program_is_edited_and_nothing_else_in_it_changes() {
        let text = "module @m attributes {mhlo.num_partitions = 1 : i32} {
  sdy.mesh @old = <[\"x\"=1]>
  func.func public @main(%arg0: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@old, [{}, {}]>, tf.aliasing_output = 0 : i32}, %arg1: tensor<4xf32>) -> (tensor<8x4xf32>) {
    return %arg0 : tensor<8x4xf32>
  }
}
";
        let sharding = Sharding {
            mesh: mesh(&[("fsdp", 4)]),
            arguments: vec![spec(&[&[0], &[]]), spec(&[&[]])],
        };
        let shardy = annotate(text, &sharding, Dialect::Shardy).expect("a program");
        assert_eq!(
            shardy,
            "module @m attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <[\"fsdp\"=4]>
  func.func public @main(%arg0: tensor<8x4xf32> {tf.aliasing_output = 0 : i32, sdy.sharding = #sdy.sharding<@mesh, [{\"fsdp\"}, {}]>}, %arg1: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) -> (tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"fsdp\"}, {}]>}) {
    return %arg0 : tensor<8x4xf32>
  }
}
"
        );
        let gspmd = annotate(text, &sharding, Dialect::Gspmd).expect("a program");
        assert!(gspmd.contains("mhlo.sharding = \"{devices=[4,1]<=[4]}\""));
        assert!(!gspmd.contains("sdy."));
        let again = annotate(&shardy, &sharding, Dialect::Shardy).expect("a program");
        assert_eq!(again, shardy);
    }
}
