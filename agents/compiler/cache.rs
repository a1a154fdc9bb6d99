//! Results of the compiler by the content that they were made of.
//!
//! An entry is a function of the program, the options, the target and the compiler's build alone,
//! so it is never out of date. The oldest go when the folder grows too large.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use profiler::compiler::compiled::Compiled;
use profiler::compiler::protocol::{read_frame, write_frame};
use sha2::{Digest, Sha256};

/// Bytes that the results may take on disk.
const MAX_BYTES: u64 = 1 << 30;
/// Part of every key: entries of another layout are not found.
const LAYOUT: &str = "tpu-tune compile 3";

/// The folder for what can be made again: `$XDG_CACHE_HOME/tpu-tune`, else `~/.cache/tpu-tune`.
#[must_use]
pub fn cache_folder() -> Option<PathBuf> {
    let base = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| Some(std::env::home_dir()?.join(".cache")))?;
    Some(base.join("tpu-tune"))
}

/// Results on disk.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// Results in a folder, which is made when the first one is kept.
    #[must_use]
    pub fn in_folder(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The key of what is made of these parts; no two lists of parts have the same one.
    #[must_use]
    pub fn key(parts: &[&[u8]]) -> String {
        let mut hash = Sha256::new();
        hash.update(LAYOUT);
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash.finalize().iter().map(|b| format!("{b:02x}")).collect()
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{key}.gz"))
    }

    /// A result that was kept. One that cannot be read is none.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Compiled> {
        let path = self.path(key);
        let file = BufReader::new(File::open(&path).ok()?);
        let (mut compiled, hlo) = read_frame::<Compiled>(&mut GzDecoder::new(file)).ok()??;
        compiled.hlo = hlo;
        // The oldest go first, and this one is not old.
        let _ = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        Some(compiled)
    }

    /// Keeps a result. That it could not be kept is no reason to fail: it is made again.
    pub fn put(&self, key: &str, compiled: &Compiled) {
        if let Err(error) = self.write(key, compiled) {
            tracing::debug!(%error, folder = %self.folder.display(), "a result was not kept");
        }
    }

    fn write(&self, key: &str, compiled: &Compiled) -> std::io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        // Written whole or not at all, also when two processes keep the same result.
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        let mut out = GzEncoder::new(BufWriter::new(&mut file), Compression::fast());
        write_frame(&mut out, compiled, &compiled.hlo)?;
        out.finish()?.flush()?;
        file.persist(self.path(key)).map_err(|error| error.error)?;
        prune(&self.folder)
    }
}

/// Removes the oldest entries until the folder is within its limit.
fn prune(folder: &Path) -> std::io::Result<()> {
    let mut entries: Vec<(SystemTime, u64, PathBuf)> = fs::read_dir(folder)?
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let meta = entry.metadata().ok()?;
            let at = meta.modified().ok()?;
            meta.is_file().then(|| (at, meta.len(), entry.path()))
        })
        .collect();
    let mut total: u64 = entries.iter().map(|(_, bytes, _)| bytes).sum();
    entries.sort();
    for (_, bytes, path) in entries {
        if total <= MAX_BYTES {
            break;
        }
        fs::remove_file(path)?;
        total = total.saturating_sub(bytes);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_found_again_and_a_damaged_one_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = Cache::in_folder(folder.path().join("compiles"));
        let key = Cache::key(&[b"program", b"v6e:1x1"]);
        assert_ne!(key, Cache::key(&[b"programv6e", b":1x1"]));
        assert_eq!(cache.get(&key), None);
        let compiled = Compiled {
            build: profiler::compiler::compiled::CompilerBuild::default(),
            hlo: vec![7; 1000],
            memory: profiler::compiler::compiled::CompiledMemory::default(),
            flops: Some(2.0),
            bytes_accessed: None,
        };
        cache.put(&key, &compiled);
        assert_eq!(cache.get(&key), Some(compiled));
        let path = cache.path(&key);
        let bytes = fs::read(&path).expect("the entry");
        fs::write(&path, &bytes[..bytes.len() / 2]).expect("cut");
        assert_eq!(cache.get(&key), None);
    }
}
