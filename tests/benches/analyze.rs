//! `cargo bench`: reading and analysing a long capture.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    unused_imports,
    reason = "a benchmark"
)]

mod long_capture;
#[path = "../support/mod.rs"]
mod support;

use std::hint::black_box;
use std::path::Path;

use advisors::Report;
use advisors::registry::RULES;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use profiler::evidence::Evidence;
use profiler::session_builder::SessionBuilder;
use profiler::source::read_bytes;

fn session(name: &str, bytes: &[u8]) -> profiler::session::Session {
    let mut builder = SessionBuilder::default();
    read_bytes(Path::new(name), bytes, &mut builder).unwrap();
    builder.finish()
}

fn benches(criterion: &mut Criterion) {
    let profile = long_capture::first();
    let inputs = [
        ("xspace", support::xspace::to_bytes(&profile)),
        (
            "trace_json",
            support::trace_json::to_string(&profile).into_bytes(),
        ),
    ];
    for (name, bytes) in &inputs {
        let mut group = criterion.benchmark_group(*name);
        group
            .sample_size(20)
            .throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function("read", |b| b.iter(|| session(name, black_box(bytes))));
        let read = session(name, bytes);
        group.bench_function("analyze", |b| {
            b.iter(|| {
                let evidence = Evidence::gather(&read, None, knowledge::chips::chips());
                Report::new(black_box(&evidence), RULES)
            });
        });
        group.finish();
    }
}

criterion_group!(all, benches);
criterion_main!(all);
