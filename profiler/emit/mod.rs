//! Sessions, written for other tools to open: XProf reads the XSpace, Perfetto the trace JSON.
//!
//! ```text
//! Session ──> xplane     *.xplane.pb     XProf, and our own reader
//!         └─> trace_json *.trace.json    Perfetto, chrome://tracing, and our own reader
//! ```
//!
//! What is written of a predicted session says so: in the host's name, in a warning that XProf
//! shows, and in a [`mark`] by which our own readers know it again.

mod encoder;
mod hlo_line;
pub mod mark;
mod trace_json;
mod xplane;

use crate::session::ModuleId;

pub use trace_json::trace_json;
pub use xplane::xplane;

/// The HLO of a program, to be embedded.
#[derive(Clone, Copy, Debug)]
pub struct EmbeddedHlo<'a> {
    /// The module of the session that it is of.
    pub module: ModuleId,
    /// An `xla.HloProto`, an `xla.HloModuleProto`, or what the compiler returns: a module with its
    /// configuration.
    pub bytes: &'a [u8],
}

/// What a line of a device holds, numbered as libtpu does.
const LINES: [(u64, &str); 4] = [
    (1, "Steps"),
    (2, "XLA Modules"),
    (3, "XLA Ops"),
    (4, "Async XLA Ops"),
];

/// The name of a program on a device's line: `jit_f(123)`.
fn module_label(session: &crate::session::Session, module: ModuleId) -> String {
    match session.modules.get(module as usize) {
        Some(found) => match found.program_id {
            Some(id) => format!("{}({id})", found.name),
            None => found.name.clone(),
        },
        None => String::new(),
    }
}

/// Steps of a device: its markers, else the runs of the program that takes the most time.
fn steps(
    session: &crate::session::Session,
    device: &crate::session::Device,
) -> Vec<(u64, u64, String)> {
    if !device.steps.is_empty() {
        let name = |id: u32| session.names.get(id as usize).cloned();
        return device
            .steps
            .iter()
            .map(|(start, duration, id)| (start, duration, name(id).unwrap_or_default()))
            .collect();
    }
    let mut sums: std::collections::BTreeMap<ModuleId, u64> = std::collections::BTreeMap::new();
    for (_, duration, module) in device.modules.iter() {
        let sum = sums.entry(module).or_default();
        *sum = sum.saturating_add(duration);
    }
    let longest = sums
        .iter()
        .reduce(|best, next| if next.1 > best.1 { next } else { best })
        .map(|(module, _)| *module);
    device
        .modules
        .iter()
        .filter(|(_, _, module)| Some(*module) == longest)
        .zip(0u64..)
        .map(|((start, duration, _), number)| (start, duration, number.to_string()))
        .collect()
}

#[cfg(test)]
mod tests;
