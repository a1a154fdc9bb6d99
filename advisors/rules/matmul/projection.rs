//! What people call a matmul: the layer that it belongs to, from the framework's name for it.

/// Parts of a framework name that say how a program was traced and not what it computes.
const MACHINERY: [&str; 11] = [
    "while",
    "body",
    "cond",
    "branch",
    "eval_jaxpr",
    "closed_call",
    "core_call",
    "remat",
    "checkpoint",
    "rematted_computation",
    "shard_map",
];

/// The layer of a framework op: `jit(step)/layers_7/mlp/up/dot_general:` is `layers_*/mlp/up`.
///
/// The op itself, an einsum's subscripts, the traced function and the marks of transformations
/// are left out, and numbers of layers are starred, so that all layers are one.
pub(crate) fn projection(framework_op: &str) -> String {
    let path = framework_op.trim_end_matches(':');
    let parts: Vec<&str> = path.split('/').collect();
    let outer = parts.split_last().map_or(&[][..], |(_, outer)| outer);
    let named: Vec<String> = outer
        .iter()
        .filter(|part| !part.starts_with("jit(") && !part.contains("->") && !part.is_empty())
        .map(|part| unwrapped(part))
        .filter(|part| !MACHINERY.contains(&part.as_str()) && !part.is_empty())
        .map(|part| starred(&part))
        .collect();
    named.join("/")
}

/// `transpose(jvp(mlp))` is `mlp (backward)`.
fn unwrapped(part: &str) -> String {
    let inner = part.rsplit('(').next().unwrap_or(part);
    let inner = inner.trim_end_matches(')');
    if part.starts_with("transpose(") && !inner.is_empty() {
        format!("{inner} (backward)")
    } else {
        inner.to_owned()
    }
}

/// Digits at the end of a part are a layer's number.
fn starred(part: &str) -> String {
    let name = part.trim_end_matches(|c: char| c.is_ascii_digit());
    if name.len() < part.len() && name.ends_with(['_', '.', '-']) {
        format!("{name}*")
    } else if name.is_empty() {
        "*".to_owned()
    } else {
        part.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_projection_is_the_layer_without_the_machinery() {
        for (framework_op, name) in [
            (
                "jit(step_fun)/QKVParallelLinear/mn,pn->mp/dot_general:",
                "QKVParallelLinear",
            ),
            (
                "jit(forward)/layers/while/body/eval_jaxpr/mlp/dot_general:",
                "layers/mlp",
            ),
            (
                "jit(f)/decoder/layers_17/up/dot_general",
                "decoder/layers_*/up",
            ),
            ("jit(f)/model.layers.3/q/dot_general", "model.layers.*/q"),
            (
                "jit(train)/transpose(jvp(mlp))/dot_general",
                "mlp (backward)",
            ),
            ("jit(f)/transpose(jvp())/dot_general:", ""),
            ("jit(f)/dot_general:", ""),
            ("", ""),
            (")/(/)/", ""),
        ] {
            assert_eq!(projection(framework_op), name, "{framework_op}");
        }
    }
}
