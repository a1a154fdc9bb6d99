//! Files of a zip archive that are found by name: `.pt2` programs of `torch.export`. Weights lie in
//! the same archive, so that only what is asked for is read.

use std::io::{Read, Seek};

use anyhow::{Context as _, Result, bail};
use zip::ZipArchive;

/// A file in the archive that is larger is no graph.
const MAX_BYTES: u64 = 256 << 20;

/// The texts of the archive's files whose names `wanted` accepts, in the archive's order.
///
/// # Errors
/// When it is no zip archive, or one of the files is compressed in an unknown way or too large.
pub fn texts(
    file: impl Read + Seek,
    wanted: impl Fn(&str) -> bool,
) -> Result<Vec<(String, String)>> {
    let mut archive = ZipArchive::new(file).context("not a zip archive that can be read")?;
    let mut texts = Vec::new();
    for at in 0..archive.len() {
        let mut entry = archive.by_index(at)?;
        let name = entry.name()?.into_owned();
        if !wanted(&name) {
            continue;
        }
        // What the directory states may be a lie, so the bytes are counted as they come.
        let mut plain = Vec::new();
        let read = (&mut entry).take(MAX_BYTES + 1).read_to_end(&mut plain);
        read.with_context(|| format!("{name} is damaged"))?;
        if plain.len() as u64 > MAX_BYTES {
            bail!("{name}: more than {MAX_BYTES} bytes are too many for a graph");
        }
        texts.push((name, String::from_utf8_lossy(&plain).into_owned()));
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write as _};

    use zip::write::{SimpleFileOptions, ZipWriter};

    use super::texts;

    #[test]
    fn files_are_found_by_name_stored_or_deflated() {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, method) in [
            ("model/graph.json", zip::CompressionMethod::Deflated),
            ("model/weights", zip::CompressionMethod::Stored),
            ("model/other.json", zip::CompressionMethod::Stored),
        ] {
            let options = SimpleFileOptions::default().compression_method(method);
            writer.start_file(name, options).expect("a file");
            writer.write_all(name.as_bytes()).expect("memory");
        }
        let bytes = writer.finish().expect("an archive").into_inner();
        let found = texts(Cursor::new(&bytes), |name| name.ends_with(".json")).expect("texts");
        let pair = |name: &str| (name.to_owned(), name.to_owned());
        assert_eq!(found, [pair("model/graph.json"), pair("model/other.json")]);
        let half = bytes.get(..bytes.len() / 2).expect("half");
        assert!(texts(Cursor::new(half), |_| true).is_err());
    }
}
