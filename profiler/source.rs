//! From paths to a [`Session`]: which files, of which format, and what is wrong with them.
//!
//! Formats are told by content, never by name. Nothing is ever written. Of a directory, the
//! newest run is read; all hosts of that run are merged.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use crate::compiler::program_file;
use crate::logs;
use crate::program;
use crate::session::{Format, Input, Session, SessionProgram};
use crate::session_builder::SessionBuilder;
use crate::timeline::{trace_json, xplane};
use crate::wire::{Message, Value};

/// How inputs are read.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// The run under `plugins/profile/` to read instead of the newest.
    pub run: Option<String>,
}

/// Why an input cannot be used. Each says what was found and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The path does not exist or cannot be read.
    #[error("cannot read {path}: {error}")]
    Unreadable {
        /// The path.
        path: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// The file has no bytes.
    #[error(
        "{path} is empty (0 bytes): above 2 GB the profiler writes an empty xplane.pb; capture fewer steps, or give the trace.json.gz of the same run if there is one"
    )]
    Empty {
        /// The path.
        path: String,
    },
    /// Bytes were replaced by U+FFFD.
    #[error(
        "{path} was mangled by a lossy UTF-8 conversion: U+FFFD stands {replaced} times in its first MiB in place of bytes that are lost; copy the original file again in binary mode"
    )]
    Mangled {
        /// The path.
        path: String,
        /// How many replacement characters the first MiB has.
        replaced: usize,
    },
    /// A Riegeli container.
    #[error(
        "{path} is a Riegeli file, which tpu-tune does not read: convert it to xplane.pb, or give the trace.json.gz of the same run"
    )]
    Riegeli {
        /// The path.
        path: String,
    },
    /// Too large when inflated.
    #[error(
        "{path} inflates to more than {limit} bytes from {stored}: refused as a gzip bomb; inflate it yourself if you trust it"
    )]
    GzipBomb {
        /// The path.
        path: String,
        /// Its size.
        stored: u64,
        /// The limit that it broke.
        limit: u64,
    },
    /// Gzip, but damaged from the start.
    #[error("{path} is damaged gzip ({error}): nothing of it could be inflated; copy it again")]
    BadGzip {
        /// The path.
        path: String,
        /// What the inflater said.
        error: std::io::Error,
    },
    /// A program that no compiler has seen.
    #[error(
        "{path} is a StableHLO program, not a profile: `tpu-tune predict {path} --target v6e-4` compiles it and predicts its profile"
    )]
    Uncompiled {
        /// The path.
        path: String,
    },
    /// No known format.
    #[error(
        "{path} is not a profile that tpu-tune knows: it starts with {start}; expected an XSpace (*.xplane.pb), a trace JSON (*.trace.json[.gz]), a Kineto JSON, or HLO as text or proto"
    )]
    Unknown {
        /// The path.
        path: String,
        /// The first bytes, readable.
        start: String,
    },
    /// Text of no known kind.
    #[error(
        "{path} is text in which tpu-tune knows nothing: expected a TORCH_TRACE log, a PyTorch/XLA metrics report, a log of JAX, TorchTPU, MaxText, TorchTitan, vLLM or SGLang, an out-of-memory report, a launch command, or HLO; Python sources go to `tpu-tune check`"
    )]
    NothingInText {
        /// The path.
        path: String,
    },
    /// Looked like one, but could not be read.
    #[error("{path} looks like {format} but cannot be read: {error}")]
    Broken {
        /// The path.
        path: String,
        /// What it looked like.
        format: &'static str,
        /// What is wrong.
        error: String,
    },
    /// A directory without anything to read.
    #[error(
        "{path} holds no profile: looked for *.xplane.pb, *.trace.json[.gz], dedicated_log_torch_trace_*.log and HLO dumps in it and in plugins/profile/<run>/ below it"
    )]
    NothingFound {
        /// The path.
        path: String,
    },
    /// The run asked for is not there.
    #[error("{path} has no run {run:?}; it has: {known}")]
    NoSuchRun {
        /// The directory.
        path: String,
        /// What was asked for.
        run: String,
        /// The runs that exist.
        known: String,
    },
    /// Inputs of two runs.
    #[error(
        "the inputs are of different runs: {plane} of host {host} is in two of them with different events; compare two runs with `tpu-tune diff A B`"
    )]
    TwoRuns {
        /// The plane that both have.
        plane: String,
        /// Its host.
        host: String,
    },
}

/// Bytes of a file, mapped where it is large.
enum Content {
    Mapped(memmap2::Mmap),
    Owned(Vec<u8>),
}

impl Deref for Content {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Owned(bytes) => bytes,
        }
    }
}

/// Files below this are read, larger ones are mapped.
const MAP_ABOVE_BYTES: u64 = 1 << 20;
/// Gzip of JSON reaches about 40:1; above this ratio a large result is refused.
const MAX_GZIP_RATIO: u64 = 250;
/// Results smaller than this are accepted at any ratio.
const ALWAYS_INFLATE_BYTES: u64 = 256 << 20;
/// No result may be larger than this.
const MAX_INFLATED_BYTES: u64 = 16 << 30;

/// Reads all inputs as one run.
///
/// # Errors
/// When an input that was named cannot be used at all; partial damage is a note.
pub fn load(paths: &[PathBuf], options: &LoadOptions) -> Result<Session, LoadError> {
    let mut builder = SessionBuilder::default();
    let mut unknown = Vec::new();
    for path in paths {
        let meta = fs::metadata(path).map_err(|error| unreadable(path, error))?;
        let files = if meta.is_dir() {
            files_of_run(path, options, &mut builder)?
        } else {
            vec![path.clone()]
        };
        for file in files {
            match load_file(&file, &mut builder) {
                // Of several texts some may say nothing: that is no reason to read none.
                Err(error @ LoadError::NothingInText { .. }) => unknown.push(error),
                outcome => outcome?,
            }
        }
    }
    if builder.session.inputs.is_empty()
        && let Some(error) = unknown.pop()
    {
        return Err(error);
    }
    for error in unknown {
        builder.notes().warn("nothing-in-text", error.to_string());
    }
    if let Some((host, plane)) = builder.conflict() {
        return Err(LoadError::TwoRuns { plane, host });
    }
    let mut session = builder.finish();
    warn_of_strangers(&mut session);
    Ok(session)
}

/// Hosts of one run run the same programs, but for pipelines whose stages differ.
fn warn_of_strangers(session: &mut Session) {
    let mut programs: BTreeMap<u32, BTreeSet<&str>> = BTreeMap::new();
    for device in &session.devices {
        let ran = programs.entry(device.host).or_default();
        let modules = device
            .modules
            .id
            .iter()
            .filter_map(|id| session.modules.get(*id as usize));
        ran.extend(modules.map(|module| module.name.as_str()));
    }
    let mut hosts = programs.values().filter(|ran| !ran.is_empty());
    let Some(first) = hosts.next() else { return };
    if hosts.any(|ran| ran.is_disjoint(first)) {
        session.notes.warn(
            "no-common-program",
            "hosts in these inputs ran no program in common: if they are two runs, compare them with `tpu-tune diff A B`",
        );
    }
}

fn unreadable(path: &Path, error: std::io::Error) -> LoadError {
    LoadError::Unreadable {
        path: path.display().to_string(),
        error,
    }
}

fn read_content(path: &Path) -> Result<Content, LoadError> {
    let mut file = fs::File::open(path).map_err(|error| unreadable(path, error))?;
    let meta = file.metadata().map_err(|error| unreadable(path, error))?;
    if meta.is_file() && meta.len() > MAP_ABOVE_BYTES {
        // SAFETY: the map is only read. If another process truncates the file meanwhile the
        // process gets SIGBUS, as any reader of a mapped file does; profiles are not rewritten.
        #[expect(unsafe_code, reason = "mapping a file is the point of memmap2")]
        let map = unsafe { memmap2::Mmap::map(&file) };
        return map
            .map(Content::Mapped)
            .map_err(|error| unreadable(path, error));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)
        .map_err(|error| unreadable(path, error))?;
    Ok(Content::Owned(bytes))
}

/// A file's bytes, inflated where they are gzip.
///
/// # Errors
/// When the file cannot be read whole.
pub fn read_inflated(path: &Path) -> Result<Vec<u8>, LoadError> {
    let content = read_content(path)?;
    if !content.starts_with(&[0x1f, 0x8b]) {
        return Ok(content.to_vec());
    }
    let shown = path.display().to_string();
    let mut builder = SessionBuilder::default();
    let bytes = inflate(&content, &shown, &mut builder)?;
    if builder.notes().has_warnings() {
        return Err(LoadError::BadGzip {
            path: shown,
            error: std::io::ErrorKind::UnexpectedEof.into(),
        });
    }
    Ok(bytes)
}

fn load_file(path: &Path, builder: &mut SessionBuilder) -> Result<(), LoadError> {
    let content = read_content(path)?;
    read_bytes(path, &content, builder)
}

/// Reads one file's bytes, inflating them if need be, into the builder. `path` is for messages
/// and names the host where the file does not.
///
/// # Errors
/// When the bytes cannot be used at all; partial damage is a note.
pub fn read_bytes(
    path: &Path,
    stored: &[u8],
    builder: &mut SessionBuilder,
) -> Result<(), LoadError> {
    let shown = path.display().to_string();
    let inflated;
    let content: &[u8] = if stored.starts_with(&[0x1f, 0x8b]) {
        inflated = inflate(stored, &shown, builder)?;
        &inflated
    } else {
        stored
    };
    let format = sniff(content, &shown)?;
    let broken = |error: String| LoadError::Broken {
        path: shown.clone(),
        format: format.name(),
        error,
    };
    match format {
        Format::XSpace => {
            xplane::read(content, &host_hint(path), builder).map_err(|e| broken(e.to_string()))?;
        }
        Format::TraceJson | Format::Kineto => {
            trace_json::read(content, &host_hint(path), builder)
                .map_err(|e| broken(e.to_string()))?;
        }
        Format::StableHlo => return Err(LoadError::Uncompiled { path: shown }),
        Format::Log => {
            let session = &mut builder.session;
            if !logs::read(path, content, &mut session.logs, &mut session.notes) {
                return Err(LoadError::NothingInText { path: shown });
            }
        }
        Format::HloText | Format::HloProto => {
            let (program, notes) = if format == Format::HloText {
                program::parse_module(&String::from_utf8_lossy(content))
            } else {
                program::read_hlo_proto(content)
            };
            builder.notes().merge(notes);
            builder.add_program(SessionProgram {
                module: None,
                program,
            });
        }
    }
    let stored_bytes = stored.len() as u64;
    builder.add_input(Input {
        path: path.to_owned(),
        format,
        stored_bytes,
    });
    Ok(())
}

fn inflate(stored: &[u8], path: &str, builder: &mut SessionBuilder) -> Result<Vec<u8>, LoadError> {
    let size = stored.len() as u64;
    let limit =
        (size.saturating_mul(MAX_GZIP_RATIO)).clamp(ALWAYS_INFLATE_BYTES, MAX_INFLATED_BYTES);
    let mut bytes = Vec::new();
    let outcome = flate2::read::MultiGzDecoder::new(stored)
        .take(limit + 1)
        .read_to_end(&mut bytes);
    if bytes.len() as u64 > limit {
        return Err(LoadError::GzipBomb {
            path: path.to_owned(),
            stored: size,
            limit,
        });
    }
    if let Err(error) = outcome {
        if bytes.is_empty() {
            return Err(LoadError::BadGzip {
                path: path.to_owned(),
                error,
            });
        }
        builder.notes().warn(
            "truncated-gzip",
            format!(
                "{path} is damaged gzip: only the first {} bytes could be inflated",
                bytes.len()
            ),
        );
    }
    Ok(bytes)
}

/// Tells the format from the content.
///
/// # Errors
/// When there is no content, it is of a known unreadable kind, or of no known kind.
pub fn sniff(bytes: &[u8], path: &str) -> Result<Format, LoadError> {
    let path = || path.to_owned();
    if bytes.is_empty() {
        return Err(LoadError::Empty { path: path() });
    }
    if bytes.starts_with(&[0x83, 0xaf, 0x70, 0xd1, 0x0d, 0x88, 0x4a, 0x3f]) {
        return Err(LoadError::Riegeli { path: path() });
    }
    if trace_json::looks_like_trace_json(bytes) {
        return Ok(if trace_json::looks_like_kineto(bytes) {
            Format::Kineto
        } else {
            Format::TraceJson
        });
    }
    if program::looks_like_hlo_text(bytes) {
        return Ok(Format::HloText);
    }
    if program_file::looks_like_stablehlo(bytes) {
        return Ok(Format::StableHlo);
    }
    let replaced = count_replacements(bytes);
    if replaced > 16 && replaced > bytes.len().min(1 << 20) / 2000 {
        return Err(LoadError::Mangled {
            path: path(),
            replaced,
        });
    }
    if logs::looks_like_text(bytes) {
        return Ok(Format::Log);
    }
    match protobuf_kind(bytes) {
        Some(format) => Ok(format),
        None => Err(LoadError::Unknown {
            path: path(),
            start: readable_start(bytes),
        }),
    }
}

/// Of the first bytes: a lossy conversion spares no part of a binary file.
fn count_replacements(bytes: &[u8]) -> usize {
    const LOOK_AT_BYTES: usize = 1 << 20;
    let bytes = &bytes[..bytes.len().min(LOOK_AT_BYTES)];
    let mut count = 0;
    let mut at = 0;
    while let Some(window) = bytes.get(at..at + 3) {
        if window == [0xef, 0xbf, 0xbd] {
            count += 1;
            at += 3;
        } else {
            at += 1;
        }
    }
    count
}

/// `XSpace` and `HloProto` both start with field 1 as a message. A plane's own field 1 is a
/// number (or absent, with the name in field 2 first); an HLO module's is its name.
fn protobuf_kind(bytes: &[u8]) -> Option<Format> {
    let mut fields = Message::new(bytes);
    match fields.next()? {
        (1, Value::Bytes(inner)) => {
            let mut inner = Message::new(inner);
            match inner.next() {
                Some((1, Value::Varint(_))) => Some(Format::XSpace),
                Some((2, Value::Bytes(name))) => {
                    std::str::from_utf8(name).is_ok().then_some(Format::XSpace)
                }
                Some((3, Value::Bytes(_))) | None => Some(Format::XSpace),
                Some((1, Value::Bytes(name))) if program::looks_like_hlo_proto(bytes) => {
                    let _ = name;
                    Some(Format::HloProto)
                }
                _ => None,
            }
        }
        (2..=4, Value::Bytes(text))
            if std::str::from_utf8(text).is_ok() && fields.error().is_none() =>
        {
            Some(Format::XSpace)
        }
        _ => None,
    }
}

fn readable_start(bytes: &[u8]) -> String {
    let start = &bytes[..bytes.len().min(16)];
    format!("\"{}\"", start.escape_ascii())
}

/// The host's name as the file's name gives it: what stands before `.xplane.pb` and the like.
fn host_hint(path: &Path) -> String {
    let name = path
        .file_name()
        .map(|n| n.to_string_lossy().into_owned())
        .unwrap_or_default();
    let stem = ["xplane.pb", "trace.json", "pt.trace.json"]
        .iter()
        .find_map(|ending| {
            name.find(&format!(".{ending}"))
                .map(|at| name[..at].to_owned())
        });
    stem.filter(|stem| !stem.is_empty())
        .unwrap_or_else(|| "host".to_owned())
}

/// What a file in a run directory is, by its name's ending.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    XSpace,
    TraceJson,
    Perfetto,
    Hlo,
    TorchTrace,
}

fn kind_of(name: &str) -> Option<Kind> {
    let bare = name.strip_suffix(".gz").unwrap_or(name);
    if bare.ends_with(".xplane.pb") || bare.ends_with(".xspace.pb") {
        Some(Kind::XSpace)
    } else if bare == "perfetto_trace.json" {
        Some(Kind::Perfetto)
    } else if bare.ends_with(".trace.json") || bare == "trace.json" {
        Some(Kind::TraceJson)
    } else if bare.ends_with(".hlo_proto.pb")
        || (bare.contains("after_optimizations")
            && bare.ends_with(".txt")
            && !bare.contains("buffer-assignment")
            && !bare.contains("memory-usage"))
    {
        Some(Kind::Hlo)
    } else if bare.starts_with("dedicated_log_torch_trace_") && bare.ends_with(".log") {
        Some(Kind::TorchTrace)
    } else {
        None
    }
}

fn list(directory: &Path) -> Result<Vec<PathBuf>, LoadError> {
    let entries = fs::read_dir(directory).map_err(|error| unreadable(directory, error))?;
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .collect();
    paths.sort();
    Ok(paths)
}

fn files_of_run(
    directory: &Path,
    options: &LoadOptions,
    builder: &mut SessionBuilder,
) -> Result<Vec<PathBuf>, LoadError> {
    let runs = runs_below(directory)?;
    if let Some(wanted) = &options.run {
        let run = runs.iter().find(|run| {
            run.file_name()
                .is_some_and(|n| n.to_string_lossy() == *wanted)
        });
        return match run {
            Some(run) => choose_files(run, builder),
            None => Err(LoadError::NoSuchRun {
                path: directory.display().to_string(),
                run: wanted.clone(),
                known: names_of(&runs),
            }),
        };
    }
    let own = choose_files(directory, builder)?;
    if !own.is_empty() {
        return Ok(own);
    }
    let Some(newest) = runs.last() else {
        return Err(LoadError::NothingFound {
            path: directory.display().to_string(),
        });
    };
    if runs.len() > 1 {
        builder.notes().info(
            "newest-run",
            format!(
                "of {} runs the newest was read: {}; choose another with --run",
                runs.len(),
                names_of(std::slice::from_ref(newest))
            ),
        );
    }
    choose_files(newest, builder)
}

fn names_of(runs: &[PathBuf]) -> String {
    if runs.is_empty() {
        return "no runs".to_owned();
    }
    let names: Vec<_> = runs
        .iter()
        .filter_map(|run| run.file_name())
        .map(|n| n.to_string_lossy())
        .collect();
    names.join(", ")
}

/// Directories with profiles below `plugins/profile/`, oldest first: their names are times.
fn runs_below(directory: &Path) -> Result<Vec<PathBuf>, LoadError> {
    let mut runs = Vec::new();
    for root in [
        directory.join("plugins/profile"),
        directory.join("profile"),
        directory.to_owned(),
    ] {
        if !root.is_dir() {
            continue;
        }
        for run in list(&root)? {
            if !run.is_dir() {
                continue;
            }
            let holds = list(&run)?.iter().any(|file| {
                let name = file.file_name().map(|n| n.to_string_lossy().into_owned());
                name.is_some_and(|name| kind_of(&name).is_some())
            });
            if holds {
                runs.push(run);
            }
        }
        if !runs.is_empty() {
            break;
        }
    }
    Ok(runs)
}

/// Of each host the XSpace, else its trace JSON; and the HLO beside them.
fn choose_files(directory: &Path, builder: &mut SessionBuilder) -> Result<Vec<PathBuf>, LoadError> {
    let mut candidates: Vec<(String, Kind, PathBuf, u64)> = Vec::new();
    for path in list(directory)? {
        let name = path
            .file_name()
            .map(|n| n.to_string_lossy().into_owned())
            .unwrap_or_default();
        let Some(kind) = kind_of(&name) else { continue };
        let Ok(meta) = fs::metadata(&path) else {
            continue;
        };
        if meta.is_file() {
            candidates.push((host_hint(&path), kind, path, meta.len()));
        }
    }
    let has_trace = |host: &str| {
        candidates
            .iter()
            .any(|(h, kind, _, size)| h == host && *kind == Kind::TraceJson && *size > 0)
    };
    let has_xspace = |host: &str| {
        candidates
            .iter()
            .any(|(h, kind, _, size)| h == host && *kind == Kind::XSpace && *size > 0)
    };
    let any_timeline = candidates
        .iter()
        .any(|(_, kind, _, size)| *kind < Kind::Perfetto && *size > 0);
    let mut chosen = Vec::new();
    for (host, kind, path, size) in &candidates {
        let take = match kind {
            Kind::XSpace if *size == 0 && has_trace(host) => {
                builder.notes().warn(
                    "empty-xplane",
                    format!(
                        "{} is empty (the profiler writes 0 bytes above 2 GB): read from its trace.json instead, without FLOPs, bytes by memory, program ids, peaks and HLO",
                        path.display()
                    ),
                );
                false
            }
            Kind::XSpace | Kind::Hlo => true,
            // An empty one is of a process that launched nothing.
            Kind::TorchTrace => *size > 0,
            Kind::TraceJson => !has_xspace(host),
            Kind::Perfetto => !any_timeline,
        };
        if take {
            chosen.push(path.clone());
        }
    }
    Ok(chosen)
}
