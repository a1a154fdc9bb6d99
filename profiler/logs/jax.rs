//! JAX logs: compiles, cache misses, the persistent cache.
//!
//! ```text
//! JAX_LOG_COMPILES:          Compiling f with global shapes and types … ──> Function (compile.rs)
//! JAX_EXPLAIN_CACHE_MISSES:  TRACING CACHE MISS at file:line …          ──> CacheMiss (miss.rs)
//! JAX_COMPILATION_CACHE_DIR: Persistent compilation cache hit …         ──> PersistentCache
//! ```
//!
//! Wordings of JAX 0.4.13 to 0.12 are known; what a version does not say stays empty.

pub mod compile;
pub mod miss;
pub mod persistent;

use std::collections::BTreeMap;

use crate::logs::{Line, LineReader, Logs, More};
use crate::note::Notes;

use compile::{CompileReader, Function};
use miss::{CacheMiss, MissReader};
use persistent::PersistentCache;

/// What JAX says of its compilations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JaxLog {
    /// Compiled functions by name.
    pub functions: BTreeMap<String, Function>,
    /// Explained misses of the tracing cache, the first thousands of them.
    pub misses: Vec<CacheMiss>,
    /// Misses that were met, also those that were not kept.
    pub miss_count: u64,
    /// The persistent compilation cache.
    pub persistent: PersistentCache,
}

impl JaxLog {
    /// Compilations of all functions.
    #[must_use]
    pub fn compiles(&self) -> u64 {
        self.functions
            .values()
            .map(|function| function.compiles)
            .sum()
    }

    /// Time of all compilations in seconds, as far as the log states it.
    #[must_use]
    pub fn compile_seconds(&self) -> f64 {
        self.functions
            .values()
            .map(|function| function.seconds)
            .sum()
    }
}

/// Reads all of it.
#[derive(Debug, Default)]
pub(super) struct Reader {
    compiles: CompileReader,
    misses: MissReader,
    persistent: PersistentCache,
}

impl LineReader for Reader {
    fn triggers(&self) -> &'static [&'static str] {
        &[
            miss::MARK,
            compile::COMPILING,
            compile::COMPILING_OLD,
            compile::COMPILED,
            compile::TRACED,
            persistent::HIT,
            persistent::MISS,
            persistent::NOT_WRITTEN,
            persistent::WRITTEN,
        ]
    }

    fn line(&mut self, line: Line<'_>) -> More {
        if self.misses.line(line) {
            return More::NextLine;
        }
        if let Some(loaded) = self.persistent.line(line) {
            self.compiles.loaded_from_cache(loaded);
        } else {
            self.compiles.line(line);
        }
        More::Triggers
    }

    fn finish(self: Box<Self>, logs: &mut Logs, _notes: &mut Notes) -> bool {
        let (misses, miss_count) = self.misses.finish();
        let functions = self.compiles.functions;
        let found = !functions.is_empty() || miss_count > 0 || !self.persistent.is_empty();
        let all = &mut logs.jax;
        for (name, function) in functions {
            all.functions.entry(name).or_default().merge(function);
        }
        all.misses.extend(misses);
        all.miss_count += miss_count;
        all.persistent.merge(self.persistent);
        found
    }
}

#[cfg(test)]
mod tests;
