//! A program out of a TORCH_TRACE log.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use profiler::compiler::program_file::ProgramFile;
use profiler::logs::torch_trace::StableHlo;
use profiler::logs::{self, Logs};
use profiler::note::Notes;

/// Bytes of a file that are looked at to tell a trace.
const LOOK_AT_BYTES: usize = 64 << 10;
/// Names that are listed where none fits.
const LISTED: usize = 12;

/// Reads the program of that name, or the one of most work; none where the path holds no trace.
///
/// # Errors
/// When a trace holds no such program.
pub(super) fn read(path: &Path, name: Option<&str>) -> Result<Option<ProgramFile>> {
    let files = traces(path);
    let mut logs = Logs::default();
    for file in &files {
        let bytes = profiler::source::read_inflated(file)?;
        if path.is_dir() || looks_like_trace(&bytes) {
            logs::read(file, &bytes, &mut logs, &mut Notes::default());
        }
    }
    let shown = path.display();
    let mut programs = logs.torch_trace.programs;
    if programs.is_empty() {
        if let Some(name) = name {
            bail!(
                "{shown} is no TORCH_TRACE log with programs: --program {name} chooses among those"
            );
        }
        return Ok(None);
    }
    // What torch.compile made is a part of a model; an eager launch is often one operation.
    programs.sort_by_cached_key(|program| {
        let weight = program.weight().saturating_mul(program.count);
        (std::cmp::Reverse(weight), program.name.clone())
    });
    let wanted = |program: &&StableHlo| name.is_none_or(|name| program.name.contains(name));
    let Some(program) = programs.iter().find(wanted) else {
        let mut known: Vec<&str> = Vec::new();
        for program in &programs {
            if known.len() < LISTED && !known.contains(&program.name.as_str()) {
                known.push(&program.name);
            }
        }
        bail!(
            "{shown} has no program whose name contains {:?}; of its {} the heaviest are {}",
            name.unwrap_or_default(),
            programs.len(),
            known.join(", ")
        );
    };
    let file = ProgramFile::of_bytes(program.text.as_bytes());
    let file = file.with_context(|| format!("cannot use {} of {shown}", program.name))?;
    Ok(Some(file))
}

/// The traces that a path holds: itself, or those of a folder.
fn traces(path: &Path) -> Vec<PathBuf> {
    if !path.is_dir() {
        return vec![path.to_owned()];
    }
    let mut files: Vec<PathBuf> = path
        .read_dir()
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned());
            name.is_some_and(|name| name.starts_with("dedicated_log_torch_trace_"))
        })
        .collect();
    files.sort();
    files
}

/// Whether one of the first lines is a header of a trace. A program's text has none.
fn looks_like_trace(bytes: &[u8]) -> bool {
    if !logs::looks_like_text(bytes) {
        return false;
    }
    let head = bytes.get(..bytes.len().min(LOOK_AT_BYTES));
    let head = String::from_utf8_lossy(head.unwrap_or_default());
    head.lines().any(|line| line.contains("] {\""))
}
