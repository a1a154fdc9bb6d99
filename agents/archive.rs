//! Files of a zip archive that are found by name: `.pt2` programs of `torch.export`. Weights lie in
//! the same archive, so that only what is asked for is read.

use std::io::{self, Read, Seek, SeekFrom};

use anyhow::{Context as _, Result, bail};

/// The directory's end stands in the last 64 KiB and its own 22 bytes.
const TAIL: u64 = (64 << 10) + 22;
/// A directory, or a file in the archive, that is larger is no graph.
const MAX_BYTES: u64 = 256 << 20;
const END: &[u8] = b"PK\x05\x06";
const END64: &[u8] = b"PK\x06\x06";
const ENTRY: &[u8] = b"PK\x01\x02";

/// A file of an archive.
#[derive(Clone, Debug, Default)]
struct Entry {
    name: String,
    method: u16,
    stored: u64,
    size: u64,
    header: u64,
}

/// The texts of the archive's files whose names `wanted` accepts, in the archive's order.
///
/// # Errors
/// When it is no zip archive, or one of the files is compressed in an unknown way or too large.
pub fn texts(
    mut file: impl Read + Seek,
    wanted: impl Fn(&str) -> bool,
) -> Result<Vec<(String, String)>> {
    let mut texts = Vec::new();
    for entry in entries(&mut file)? {
        if !wanted(&entry.name) {
            continue;
        }
        if entry.stored > MAX_BYTES || entry.size > MAX_BYTES {
            bail!(
                "{}: {} bytes are too many for a graph",
                entry.name,
                entry.size
            );
        }
        // The local header repeats the name, with another extra field.
        let header = bytes(&mut file, entry.header, 30)?;
        let skip = u64::from(u16_at(&header, 26)) + u64::from(u16_at(&header, 28));
        let stored = bytes(
            &mut file,
            entry.header.saturating_add(30 + skip),
            entry.stored,
        )?;
        let plain = match entry.method {
            0 => stored,
            8 => {
                let mut plain = Vec::new();
                flate2::read::DeflateDecoder::new(stored.as_slice())
                    .take(MAX_BYTES)
                    .read_to_end(&mut plain)
                    .with_context(|| format!("{} is damaged", entry.name))?;
                plain
            }
            method => bail!(
                "{}: compressed by method {method}, which is not known",
                entry.name
            ),
        };
        texts.push((entry.name, String::from_utf8_lossy(&plain).into_owned()));
    }
    Ok(texts)
}

/// The archive's directory.
fn entries(file: &mut (impl Read + Seek)) -> Result<Vec<Entry>> {
    let length = file.seek(SeekFrom::End(0))?;
    let from = length.saturating_sub(TAIL);
    let tail = bytes(file, from, length - from)?;
    let Some(at) = tail.windows(4).rposition(|window| window == END) else {
        bail!("not a zip archive: it has no directory");
    };
    let end = tail.get(at..).unwrap_or_default();
    let (mut size, mut start) = (u64::from(u32_at(end, 12)), u64::from(u32_at(end, 16)));
    if start == u64::from(u32::MAX) || size == u64::from(u32::MAX) {
        let Some(at) = tail.windows(4).rposition(|window| window == END64) else {
            bail!("not a zip archive that can be read: its long directory is missing");
        };
        let end = tail.get(at..).unwrap_or_default();
        (size, start) = (u64_at(end, 40), u64_at(end, 48));
    }
    if size > MAX_BYTES {
        bail!("a directory of {size} bytes is no directory");
    }
    let directory = bytes(file, start, size)?;
    let mut rest = directory.as_slice();
    let mut entries = Vec::new();
    while rest.get(..4) == Some(ENTRY) {
        let (name, extra) = (usize::from(u16_at(rest, 28)), usize::from(u16_at(rest, 30)));
        let comment = usize::from(u16_at(rest, 32));
        let text = rest.get(46..46 + name).unwrap_or_default();
        let mut entry = Entry {
            name: String::from_utf8_lossy(text).into_owned(),
            method: u16_at(rest, 10),
            stored: u64::from(u32_at(rest, 20)),
            size: u64::from(u32_at(rest, 24)),
            header: u64::from(u32_at(rest, 42)),
        };
        let long = rest.get(46 + name..46 + name + extra).unwrap_or_default();
        lengthen(&mut entry, long);
        entries.push(entry);
        rest = rest.get(46 + name + extra + comment..).unwrap_or_default();
    }
    Ok(entries)
}

/// Sizes that need more than 32 bits stand in the extra field of id 1, in this order.
fn lengthen(entry: &mut Entry, mut extra: &[u8]) {
    while extra.len() >= 4 {
        let (id, length) = (u16_at(extra, 0), usize::from(u16_at(extra, 2)));
        let field = extra.get(4..4 + length).unwrap_or_default();
        if id == 1 {
            let mut at = 0;
            for value in [&mut entry.size, &mut entry.stored, &mut entry.header] {
                if *value == u64::from(u32::MAX) {
                    *value = u64_at(field, at);
                    at += 8;
                }
            }
        }
        extra = extra.get(4 + length..).unwrap_or_default();
    }
}

fn bytes(file: &mut (impl Read + Seek), from: u64, count: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.by_ref().take(count).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn at<const N: usize>(bytes: &[u8], from: usize) -> [u8; N] {
    let slice = bytes.get(from..from.saturating_add(N));
    slice
        .and_then(|slice| slice.try_into().ok())
        .unwrap_or([0; N])
}

fn u16_at(bytes: &[u8], from: usize) -> u16 {
    u16::from_le_bytes(at(bytes, from))
}

fn u32_at(bytes: &[u8], from: usize) -> u32 {
    u32::from_le_bytes(at(bytes, from))
}

fn u64_at(bytes: &[u8], from: usize) -> u64 {
    u64::from_le_bytes(at(bytes, from))
}
