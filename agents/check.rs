//! Source files from disk to findings, and fixes back to disk.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use advisors::finding::{Applicability, Place};
use advisors::python::{Project, edits};
use advisors::rank;
use advisors::report::{InputFile, NoteSummary, Report};
use advisors::rule::Rule;
use anyhow::{Context as _, Result, bail};

/// What is done with fixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fixing {
    /// Nothing.
    No,
    /// They are printed as a patch.
    Diff,
    /// The files are changed.
    Write,
}

/// What a check found and changed.
#[derive(Debug)]
pub struct Outcome {
    /// What is left to do.
    pub report: Report,
    /// Files that were read.
    pub files: usize,
    /// Lines in them.
    pub lines: u64,
    /// Fixes applied, by file.
    pub fixed: BTreeMap<String, usize>,
    /// The fixes as a patch.
    pub patch: String,
}

/// Folders that hold no code of the project itself.
const SKIPPED: &[&str] = &["node_modules", "__pycache__", "venv", "site-packages"];
/// Rounds of fixes: those that overlap wait for the next.
const MAX_ROUNDS: usize = 8;

/// The Python files and models' configurations of paths, folders searched, by path. A file that is
/// named is read whatever its name.
///
/// # Errors
/// When a path cannot be read, or no file is found.
pub fn sources(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        let meta = fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
        if meta.is_dir() {
            walk(path, &mut files)?;
        } else {
            files.push(path.clone());
        }
    }
    files.sort();
    files.dedup();
    if files.is_empty() {
        let shown: Vec<String> = paths
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        bail!(
            "{} holds no Python file (*.py) and no model's config.json",
            shown.join(", ")
        );
    }
    Ok(files)
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    // What the folder's own .gitignore leaves out is left out; links are not followed: they lead
    // out of the project, or in circles. What lies above the folder decides nothing.
    let entries = ignore::WalkBuilder::new(folder)
        .parents(false)
        .require_git(false)
        .git_global(false)
        .filter_entry(|entry| {
            entry.depth() == 0 || !SKIPPED.iter().any(|name| *name == entry.file_name())
        })
        .build();
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read {}", folder.display()))?;
        let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
        let path = entry.path();
        let ending = path.extension().and_then(|ending| ending.to_str());
        let is_read = match ending {
            Some("py") => true,
            Some("json") => is_config(path),
            _ => false,
        };
        if is_file && is_read {
            files.push(path.strip_prefix(".").unwrap_or(path).to_owned());
        }
    }
    Ok(())
}

/// A configuration of a model is a few kilobytes; larger JSON is data, and is not opened.
const MAX_CONFIG_BYTES: u64 = 256 << 10;

/// Whether a JSON file describes a model.
fn is_config(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.len() <= MAX_CONFIG_BYTES)
        && fs::read_to_string(path).is_ok_and(|text| profiler::model::Decoder::is_config(&text))
}

/// Checks files, and fixes them where that was asked for.
///
/// # Errors
/// When a file cannot be read or written.
pub fn check(
    project: &Project,
    paths: Vec<PathBuf>,
    rules: &[&dyn Rule],
    fixing: Fixing,
    at_most: Applicability,
) -> Result<Outcome> {
    let mut texts = Vec::with_capacity(paths.len());
    for path in &paths {
        let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        texts.push((path.display().to_string(), bytes));
    }
    let inputs = texts
        .iter()
        .map(|(path, bytes)| InputFile {
            path: path.clone(),
            format: if path.ends_with(".json") {
                "model configuration".to_owned()
            } else {
                "Python".to_owned()
            },
            stored_bytes: bytes.len() as u64,
        })
        .collect();
    let mut fixed = BTreeMap::new();
    let mut patch = String::new();
    let mut checked = advisors::python::check(project, texts.clone(), rules);
    if fixing != Fixing::No {
        let original: BTreeMap<String, String> = texts
            .iter()
            .filter_map(|(path, bytes)| {
                Some((path.clone(), String::from_utf8(bytes.clone()).ok()?))
            })
            .collect();
        let mut current = original.clone();
        for _ in 0..MAX_ROUNDS {
            let fixes = edits::fixes_by_file(&checked.findings, at_most);
            let mut changed = Vec::new();
            for (path, fixes) in fixes {
                let Some(text) = current.get(path) else {
                    continue;
                };
                let edited = edits::apply(path, text, &fixes)?;
                if edited.applied > 0 && edited.text != *text {
                    *fixed.entry(path.to_owned()).or_default() += edited.applied;
                    changed.push((path.to_owned(), edited.text));
                }
            }
            if changed.is_empty() {
                break;
            }
            current.extend(changed);
            let again = texts.iter().map(|(path, bytes)| {
                let text = current.get(path).map(|text| text.clone().into_bytes());
                (path.clone(), text.unwrap_or_else(|| bytes.clone()))
            });
            checked = advisors::python::check(project, again.collect(), rules);
        }
        for path in fixed.keys() {
            let (Some(before), Some(after)) = (original.get(path), current.get(path)) else {
                continue;
            };
            match fixing {
                Fixing::Write => write(Path::new(path), after)?,
                _ => patch.push_str(&unified(path, before, after)),
            }
        }
    }
    let notes = checked.notes.iter().map(|note| NoteSummary {
        code: note.code().to_owned(),
        level: "warning".to_owned(),
        message: note.to_string(),
        count: 1,
    });
    Ok(Outcome {
        report: Report::of_source(inputs, checked.findings, notes.collect()),
        files: checked.files,
        lines: checked.lines,
        fixed,
        patch,
    })
}

/// Adds to the report of a run what its sources say, and the lines that its findings point at.
///
/// # Errors
/// When a source cannot be read.
pub fn join(
    report: &mut Report,
    project: &Project,
    paths: &[PathBuf],
    rules: &[&dyn Rule],
) -> Result<()> {
    let paths = sources(paths)?;
    for finding in &mut report.findings {
        let mut seen = BTreeSet::new();
        for op in &finding.ops {
            if seen.insert(op.source.as_str()) {
                finding.places.extend(place_of(&op.source, &paths));
            }
        }
    }
    let outcome = check(project, paths, rules, Fixing::No, Applicability::Safe)?;
    report.inputs.extend(outcome.report.inputs);
    report.findings.extend(outcome.report.findings);
    report.notes.extend(outcome.report.notes);
    rank::sort(&mut report.findings);
    Ok(())
}

/// The line of `file:line` in the source that has the longest tail of the path in common, at least
/// the file's name: the paths of a profile are those of the machine that traced it.
fn place_of(source: &str, paths: &[PathBuf]) -> Option<Place> {
    let (traced, line) = source.rsplit_once(':')?;
    let line: u64 = line.parse().ok()?;
    let tail = |path: &Path| {
        let parts = path
            .components()
            .rev()
            .zip(Path::new(traced).components().rev());
        parts.take_while(|(a, b)| a == b).count()
    };
    let path = paths.iter().max_by_key(|path| tail(path))?;
    if tail(path) == 0 {
        return None;
    }
    let text = fs::read_to_string(path).ok()?;
    let at = usize::try_from(line).ok()?.checked_sub(1)?;
    Some(Place {
        file: path.display().to_string(),
        line,
        end_line: line,
        snippet: text.lines().nth(at)?.to_owned(),
        ..Place::default()
    })
}

/// Replaces a file as a whole: it has the old text or the new one, whatever happens.
fn write(path: &Path, text: &str) -> Result<()> {
    let failed = || format!("cannot write {}", path.display());
    // A link stays a link: what it leads to is replaced.
    let target = fs::canonicalize(path).with_context(failed)?;
    let folder = target.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder).with_context(failed)?;
    file.write_all(text.as_bytes()).with_context(failed)?;
    let permissions = fs::metadata(&target).with_context(failed)?.permissions();
    fs::set_permissions(file.path(), permissions).with_context(failed)?;
    file.persist(&target).with_context(failed)?;
    Ok(())
}

/// A patch that `git apply` and `patch -p1` take.
fn unified(path: &str, before: &str, after: &str) -> String {
    let path = path.trim_start_matches("./").trim_start_matches('/');
    similar::TextDiff::from_lines(before, after)
        .unified_diff()
        .context_radius(3)
        .header(&format!("a/{path}"), &format!("b/{path}"))
        .to_string()
}
