//! Compilations: `Compiling f with global shapes and types …`, `Finished XLA compilation of …`.

use std::collections::BTreeMap;

use crate::logs::{At, Line};

/// What stands in lines that begin a compilation, end it, and end a trace.
pub(super) const COMPILING: &str = "with global shapes and types";
pub(super) const COMPILING_OLD: &str = " for args (ShapedArray(";
pub(super) const COMPILED: &str = "Finished XLA compilation of ";
pub(super) const TRACED: &str = "Finished tracing ";
/// Functions that are kept, and compilations of each.
const MAX_FUNCTIONS: usize = 4096;
const MAX_EVENTS: usize = 128;
/// Characters of types and of names that are kept.
const MAX_TYPES: usize = 4096;
/// Bytes of types that are kept of all compilations together.
const MAX_ALL_TYPES: usize = 16 << 20;
const MAX_NAME: usize = 200;

/// A compilation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Compile {
    /// Where it is said first.
    pub at: At,
    /// How long XLA took, in seconds.
    pub seconds: Option<f64>,
    /// Types of the arguments as the log has them; empty where it has none.
    pub types: String,
    /// Whether the program came from the persistent cache.
    pub from_cache: bool,
}

/// All compilations of the functions of one name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Function {
    /// Compilations.
    pub compiles: u64,
    /// Their time in seconds.
    pub seconds: f64,
    /// Time of tracing in seconds.
    pub trace_seconds: f64,
    /// The first compilations.
    pub events: Vec<Compile>,
}

impl Function {
    /// Takes over what another text says.
    pub(super) fn merge(&mut self, other: Self) {
        self.compiles += other.compiles;
        self.seconds += other.seconds;
        self.trace_seconds += other.trace_seconds;
        let room = MAX_EVENTS.saturating_sub(self.events.len());
        self.events.extend(other.events.into_iter().take(room));
    }

    /// Time of all compilations but the first of each file, in seconds.
    #[must_use]
    pub fn repeated_seconds(&self) -> f64 {
        let mut files: Vec<u32> = Vec::new();
        let mut first = 0.0;
        for event in &self.events {
            if !files.contains(&event.at.file) {
                files.push(event.at.file);
                first += event.seconds.unwrap_or(0.0);
            }
        }
        (self.seconds - first).max(0.0)
    }

    /// Arguments whose types differ among the compilations: the argument's place from 0, and its
    /// types in their order, each once.
    #[must_use]
    pub fn varying_arguments(&self) -> Vec<(usize, Vec<String>)> {
        let calls: Vec<Vec<String>> = (self.events.iter())
            .filter(|event| !event.types.is_empty())
            .map(|event| arguments(&event.types))
            .collect();
        let Some(first) = calls.first() else {
            return Vec::new();
        };
        if calls.iter().any(|call| call.len() != first.len()) {
            return Vec::new();
        }
        let mut varying = Vec::new();
        for place in 0..first.len() {
            let mut seen: Vec<String> = Vec::new();
            for kind in calls.iter().filter_map(|call| call.get(place)) {
                if !seen.contains(kind) {
                    seen.push(kind.clone());
                }
            }
            if seen.len() > 1 {
                varying.push((place, seen));
            }
        }
        varying
    }
}

/// The types in `(ShapedArray(float32[64,32]), ShapedArray(float32[], weak_type=True))`.
fn arguments(types: &str) -> Vec<String> {
    let parts = types.split("ShapedArray(").skip(1);
    let kind = |part: &str| {
        let mut depth = 1;
        let end = part.find(|c| {
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            depth == 0
        });
        end.and_then(|end| part.get(..end))
            .unwrap_or(part)
            .to_owned()
    };
    parts.map(kind).collect()
}

/// Reads compilations.
#[derive(Debug, Default)]
pub(super) struct CompileReader {
    /// By name.
    pub(super) functions: BTreeMap<String, Function>,
    /// The function that was loaded from the persistent cache and not yet finished.
    loaded: Option<String>,
    /// Bytes of types that are kept by now.
    kept: usize,
}

impl CompileReader {
    /// The module, as `jit_f`, comes from the persistent cache.
    pub(super) fn loaded_from_cache(&mut self, module: String) {
        self.loaded = Some(module);
    }

    /// Reads a line.
    pub(super) fn line(&mut self, line: Line<'_>) {
        let text = line.text;
        let begins = text.split_once(COMPILING).or_else(|| {
            // `Compiling f (140417529333056) for args (…)`, until 2022.
            let (before, _) = text.split_once(COMPILING_OLD)?;
            let named = before.rsplit_once(" (").map_or(before, |(named, _)| named);
            Some((named, text.get(before.len()..)?))
        });
        if let Some((before, types)) = begins {
            let Some((_, name)) = before.rsplit_once("Compiling ") else {
                return;
            };
            let name = bare(name.trim().trim_end_matches(" for"));
            let types = types
                .trim_start()
                .split(". Argument mapping")
                .next()
                .unwrap_or_default();
            let mut types: String = types.chars().take(MAX_TYPES).collect();
            if self.kept >= MAX_ALL_TYPES {
                types.clear();
            }
            let kept = types.len();
            if let Some(function) = self.function(name) {
                function.compiles += 1;
                let event = Compile {
                    at: line.at,
                    types,
                    ..Compile::default()
                };
                if function.events.len() < MAX_EVENTS {
                    function.events.push(event);
                    self.kept += kept;
                }
            }
        } else if let Some((name, seconds)) = timed(text, COMPILED) {
            let name = bare(name);
            let from_cache = self.loaded.as_deref().is_some_and(|module| {
                module
                    .strip_prefix("jit_")
                    .is_some_and(|loaded| loaded == name || is_mangled(loaded, name))
            });
            if from_cache {
                self.loaded = None;
            }
            let Some(function) = self.function(name) else {
                return;
            };
            function.seconds += seconds;
            let full = function.events.len() >= MAX_EVENTS;
            match function.events.last_mut() {
                Some(event) if event.seconds.is_none() => {
                    event.seconds = Some(seconds);
                    event.from_cache = from_cache;
                }
                // Compilations that are not kept were counted where they began.
                Some(event) if !event.types.is_empty() && full => {}
                _ => {
                    function.compiles += 1;
                    if function.events.len() < MAX_EVENTS {
                        let seconds = Some(seconds);
                        function.events.push(Compile {
                            at: line.at,
                            seconds,
                            from_cache,
                            ..Compile::default()
                        });
                    }
                }
            }
        } else if let Some((name, seconds)) = timed(text, TRACED) {
            let name = name.trim_start_matches("+ transforming ");
            let name = name.rsplit_once(" for ").map_or(name, |(name, _)| name);
            // Traces of what is not compiled on its own are part of their callers' traces.
            if let Some(function) = self.functions.get_mut(bare(name)) {
                function.trace_seconds += seconds;
            }
        }
    }

    fn function(&mut self, name: &str) -> Option<&mut Function> {
        let known = self.functions.contains_key(name);
        if name.is_empty()
            || name.len() > MAX_NAME
            || (!known && self.functions.len() >= MAX_FUNCTIONS)
        {
            return None;
        }
        Some(self.functions.entry(name.to_owned()).or_default())
    }
}

/// `Finished … of NAME in 1.2 sec`.
fn timed<'a>(text: &'a str, key: &str) -> Option<(&'a str, f64)> {
    let (_, rest) = text.split_once(key)?;
    let (name, time) = rest.rsplit_once(" in ")?;
    let seconds: f64 = time.split_whitespace().next()?.parse().ok()?;
    (seconds.is_finite() && seconds >= 0.0).then_some((name.trim(), seconds))
}

/// The name of a function without `jit(…)` or `pmap(…)` around it.
fn bare(name: &str) -> &str {
    let inner = name.split_once('(').filter(|(wrapper, _)| {
        !wrapper.is_empty()
            && wrapper
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '_')
    });
    inner.map_or(name, |(_, inner)| inner.strip_suffix(')').unwrap_or(inner))
}

/// Whether a module's name is a function's with other characters replaced.
fn is_mangled(module: &str, name: &str) -> bool {
    module.len() >= name.len()
        && (module.chars().zip(name.chars()))
            .all(|(a, b)| a == b || (a == '_' && !b.is_ascii_alphanumeric()))
}
