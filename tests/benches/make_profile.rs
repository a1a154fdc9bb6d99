//! Writes a TPU-shaped profile: `make_profile MEGABYTES OUT` a long one of about that size,
//! `make_profile SCENARIO OUT` one of the tests'. `OUT` ends in `.xplane.pb` or `.trace.json`.
//!
//! Fit for measuring speed and as seeds, not for advice: durations are modelled.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    unused_imports,
    reason = "a tool for benchmarks"
)]

mod long_capture;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};

use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};

use support::profile::TpuProfile;
use support::proto::{XLine, XPlane, XSpace};

fn main() -> io::Result<()> {
    let usage = "usage: make_profile MEGABYTES|SCENARIO OUT.xplane.pb|OUT.trace.json";
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [what, path] = args.as_slice() else {
        panic!("{usage}");
    };
    let is_json = path.ends_with(".json");
    if let Some((_, scenario)) = support::scenarios::ALL
        .iter()
        .find(|(name, _)| name == what)
    {
        let profile = scenario();
        let bytes = if is_json {
            support::trace_json::to_string(&profile).into_bytes()
        } else {
            support::xspace::to_bytes(&profile)
        };
        return std::fs::write(path, bytes);
    }
    let size = what.parse::<usize>().expect(usage) * 1_000_000;
    let out = BufWriter::new(File::create(path)?);
    let events = if is_json {
        write_json(size, out)?
    } else {
        write_xspace(size, out)?
    };
    let bytes = std::fs::metadata(path)?.len();
    println!("{path}: {bytes} bytes, {events} events");
    Ok(())
}

/// The pieces of a capture without end.
fn pieces() -> impl Iterator<Item = TpuProfile> {
    let first = long_capture::first();
    (0..).map(move |n| long_capture::later(&first, n))
}

fn write_json(size: usize, mut out: impl Write) -> io::Result<usize> {
    let mut written = 0;
    let mut events = 0;
    for piece in pieces() {
        let text = support::trace_json::to_string(&piece);
        let start = text.find("[").expect("a list of events") + 1;
        let end = text.rfind(",{}]").expect("the list's empty end");
        let from = if written == 0 { 0 } else { start };
        if written > 0 {
            out.write_all(b",")?;
        }
        out.write_all(&text.as_bytes()[from..end])?;
        events += text.matches("\"ph\":\"X\"").count();
        written += end - from;
        if written >= size {
            out.write_all(&text.as_bytes()[end..])?;
            break;
        }
    }
    out.flush()?;
    Ok(events)
}

/// A plane whose lines are still growing.
#[derive(Default)]
struct Growing {
    /// Everything but the lines.
    plane: XPlane,
    /// The encoded lines, whose length is not known before the end.
    lines: Vec<Vec<u8>>,
}

fn write_xspace(size: usize, mut out: impl Write) -> io::Result<usize> {
    let mut planes: Vec<Growing> = Vec::new();
    let mut hostnames = Vec::new();
    let mut written = 0;
    let mut events = 0;
    for piece in pieces() {
        let space = support::xspace::to_xspace(&piece);
        hostnames = space.hostnames;
        planes.resize_with(space.planes.len(), Growing::default);
        for (growing, plane) in planes.iter_mut().zip(space.planes) {
            events += plane
                .lines
                .iter()
                .map(|line| line.events.len())
                .sum::<usize>();
            written += grow(growing, plane);
        }
        if written >= size {
            break;
        }
    }
    for Growing { plane, lines } in planes {
        let head = XPlane {
            id: plane.id,
            name: plane.name.clone(),
            ..XPlane::default()
        };
        let tail = XPlane {
            id: 0,
            name: String::new(),
            ..plane
        };
        let mut bytes = head.encode_to_vec();
        for line in &lines {
            header(3, line.len(), &mut bytes);
            bytes.extend(line);
        }
        tail.encode(&mut bytes).expect("room");
        let mut start = Vec::new();
        header(1, bytes.len(), &mut start);
        out.write_all(&start)?;
        out.write_all(&bytes)?;
    }
    let rest = XSpace {
        hostnames,
        ..XSpace::default()
    };
    out.write_all(&rest.encode_to_vec())?;
    out.flush()?;
    Ok(events)
}

fn header(field: u32, len: usize, bytes: &mut Vec<u8>) {
    encode_key(field, WireType::LengthDelimited, bytes);
    encode_varint(len as u64, bytes);
}

/// Appends a piece's events to a plane; returns how many bytes they take.
fn grow(growing: &mut Growing, mut plane: XPlane) -> usize {
    let pieces = std::mem::take(&mut plane.lines);
    // Steps are numbered on: what an id stands for may differ from piece to piece.
    let known = &mut growing.plane.event_metadata;
    let mut ids = BTreeMap::new();
    for (id, mut metadata) in std::mem::take(&mut plane.event_metadata) {
        if known.get(&id).is_some_and(|known| *known != metadata) {
            metadata.id = known.keys().last().map_or(1, |last| last + 1);
            ids.insert(id, metadata.id);
        }
        known.insert(metadata.id, metadata);
    }
    plane.event_metadata = std::mem::take(known);
    growing.plane = plane;
    growing.lines.resize_with(pieces.len(), Vec::new);
    let mut added = 0;
    for (bytes, mut line) in growing.lines.iter_mut().zip(pieces) {
        for event in &mut line.events {
            event.metadata_id = *ids.get(&event.metadata_id).unwrap_or(&event.metadata_id);
        }
        let before = bytes.len();
        if before > 0 {
            // A message's fields may go on in a second message of the same bytes.
            line = XLine {
                events: line.events,
                ..XLine::default()
            };
        }
        line.encode(bytes).expect("room");
        added += bytes.len() - before;
    }
    added
}
