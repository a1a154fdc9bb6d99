//! What the tests build on: an oracle for the wire formats, a writer of
//! TPU-shaped profiles, and scenarios whose right answers are known.
//!
//! ```text
//! fixtures/hlo/*.txt --hlo--> Module --cost--> Op ---+
//!                                                    v
//!                    scenarios/* --durations--> TpuProfile --xspace--> .xplane.pb
//!                                                    +------trace_json--> .trace.json
//!                                                    +------kineto-----> .pt.trace.json
//! ```
//!
//! Nothing here uses the product's own readers: what both get right they get
//! right independently.
#![allow(
    clippy::print_stderr,
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "a library for the tests, each of which uses a part"
)]

pub mod chip;
pub mod committed;
pub mod cost;
pub mod hlo;
pub mod kineto;
pub mod model;
pub mod oracle;
pub mod peers;
pub mod profile;
pub mod proto;
pub mod scenarios;
pub mod shape;
pub mod trace_json;
pub mod xspace;

use std::io::Read;
use std::path::{Path, PathBuf};

/// The path of a fixture: `fixture("hlo/decode_v6e.after_optimizations.txt")`.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

/// The bytes of a fixture, inflated if only `name.gz` is there.
pub fn fixture_bytes(name: &str) -> Vec<u8> {
    let path = fixture(name);
    if path.exists() {
        return std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
    let gz = fixture(&format!("{name}.gz"));
    let file = std::fs::File::open(&gz).unwrap_or_else(|e| panic!("{}: {e}", gz.display()));
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(file)
        .read_to_end(&mut bytes)
        .unwrap_or_else(|e| panic!("{}: {e}", gz.display()));
    bytes
}

/// The text of a fixture, inflated if only `name.gz` is there.
pub fn fixture_text(name: &str) -> String {
    String::from_utf8(fixture_bytes(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}
