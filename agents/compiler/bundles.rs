//! The second kind of compiler process: one that also writes the final schedule of each kernel.
//!
//! Its flags are read once, as libtpu starts, and are undocumented: a build that does not know
//! them ends at start, which is an answer too. Listings are large and slow to make, so there is
//! one such process, for small programs.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use profiler::compiler::llo::{UNKNOWN_FLAG_MESSAGE, bundle_flags, is_bundle_file};
use profiler::compiler::protocol::Request;
use tempfile::TempDir;

use super::error::CompileError;
use super::process::{Spawn, Worker};

/// A compilation that takes longer is not worth its listings.
const MAX_TIME: Duration = Duration::from_secs(180);
/// Bytes of listings that are read for one program, at most.
const MAX_BYTES: u64 = 512 << 20;

/// The process, started when it is needed and kept warm.
pub struct Bundles {
    spawn: Spawn,
    timeout: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    worker: Option<(Worker, TempDir)>,
    /// Why this build has no listings.
    lacking: Option<CompileError>,
}

impl Bundles {
    /// Nothing is started yet.
    #[must_use]
    pub fn new(spawn: Spawn, timeout: Duration) -> Self {
        Self {
            spawn,
            timeout: timeout.min(MAX_TIME),
            state: Mutex::default(),
        }
    }

    /// Compiles with listings, and returns their names and contents.
    ///
    /// # Errors
    /// As of any compilation, and where this build of the compiler writes no listings; then each
    /// later program is refused at once.
    pub fn ask(
        &self,
        request: &Request,
        body: &[u8],
    ) -> Result<Vec<(String, String)>, CompileError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lacking) = &state.lacking {
            return Err(lacking.clone());
        }
        let (mut worker, folder) = match state.worker.take() {
            Some(warm) => warm,
            None => self.start().inspect_err(|error| {
                if error.to_string().contains(UNKNOWN_FLAG_MESSAGE) {
                    state.lacking = Some(error.clone());
                }
            })?,
        };
        let outcome = worker.ask(request, body, self.timeout);
        let files = listings(folder.path());
        let alive = outcome
            .as_ref()
            .err()
            .is_none_or(CompileError::leaves_the_worker);
        // What the next program writes must not be mixed with this one's.
        if alive && cleared(folder.path()) && !worker.is_worn() {
            state.worker = Some((worker, folder));
        }
        outcome.map(|_| files)
    }

    fn start(&self) -> Result<(Worker, TempDir), CompileError> {
        let failed = |message: String| CompileError::Start { message };
        let folder = tempfile::Builder::new()
            .prefix("tpu-tune-bundles-")
            .tempdir()
            .map_err(|error| failed(format!("no folder for its listings: {error}")))?;
        let path = folder
            .path()
            .to_str()
            .filter(|path| !path.contains(char::is_whitespace))
            .ok_or_else(|| {
                failed(
                    "its flags allow no white space in the folder for temporary files".to_owned(),
                )
            })?;
        let spawn = Spawn {
            init_args: bundle_flags(path),
            ..self.spawn.clone()
        };
        Ok((Worker::start(&spawn)?, folder))
    }
}

/// The listings in a folder, by name.
fn listings(folder: &Path) -> Vec<(String, String)> {
    let mut left = MAX_BYTES;
    let mut files: Vec<(String, String)> = entries(folder)
        .filter_map(|path| {
            let name = path.file_name()?.to_str()?.to_owned();
            let bytes = std::fs::metadata(&path).ok()?.len();
            if !is_bundle_file(&name) || bytes > left {
                return None;
            }
            left -= bytes;
            let text = std::fs::read(&path).ok()?;
            Some((name, String::from_utf8_lossy(&text).into_owned()))
        })
        .collect();
    files.sort();
    files
}

/// Whether everything in a folder could be removed.
fn cleared(folder: &Path) -> bool {
    entries(folder).all(|path| {
        if path.is_dir() {
            std::fs::remove_dir_all(path).is_ok()
        } else {
            std::fs::remove_file(path).is_ok()
        }
    })
}

fn entries(folder: &Path) -> impl Iterator<Item = std::path::PathBuf> {
    let entries = folder.read_dir().into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path()))
}
