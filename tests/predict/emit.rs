//! Predicted profiles as other tools and our own readers see them.

use std::path::{Path, PathBuf};

use knowledge::chips::{chip, chips};
use profiler::chip::Generation;
use profiler::emit::{EmbeddedHlo, trace_json, xplane};
use profiler::evidence::Evidence;
use profiler::session::{Origin, Session};
use profiler::source::{LoadOptions, load};

use crate::support::{fixture, fixture_bytes, peers};
use crate::xprof_agreement::compare;

/// Optimized programs of real compiles, with their proto.
const PROGRAMS: [&str; 3] = ["block_infer_v6e", "mlp_fsdp_v6e", "host_offload_v6e"];

/// A program's session, priced by the roofline of v6e, and what is written of it.
struct Predicted {
    session: Session,
    folder: tempfile::TempDir,
    xplane: PathBuf,
    json: PathBuf,
}

fn predicted(name: &str) -> Predicted {
    let proto = format!("hlo/{name}.hlo_proto.pb");
    let mut session = load(&[fixture(&proto)], &LoadOptions::default()).expect("readable");
    profiler::roofline_session::price(&mut session, chip(Generation::V6e));
    let bytes = fixture_bytes(&proto);
    let module = session.programs[0].module.expect("a module");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, bytes: Vec<u8>| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("disk has room");
        path
    };
    let embedded = EmbeddedHlo {
        module,
        bytes: &bytes,
    };
    let xplane = write("predicted.xplane.pb", xplane(&session, &[embedded]));
    let json = write("predicted.trace.json", trace_json(&session));
    Predicted {
        session,
        folder,
        xplane,
        json,
    }
}

fn evidence(session: &Session) -> Evidence<'_> {
    Evidence::gather(session, Some(Generation::V6e), chips())
}

fn read(path: &Path) -> Session {
    load(&[path.to_owned()], &LoadOptions::default()).expect("readable")
}

#[test]
fn xprof_reads_a_predicted_profile_with_our_figures() {
    if !peers::installed() {
        return;
    }
    for name in PROGRAMS {
        let predicted = predicted(name);
        let xprof = peers::xprof_figures(&[&predicted.xplane]);
        compare(name, &predicted.session, &xprof);
    }
}

#[test]
fn a_predicted_profile_reads_back_with_the_same_figures() {
    for name in PROGRAMS {
        let predicted = predicted(name);
        let ours = evidence(&predicted.session);
        for path in [&predicted.xplane, &predicted.json] {
            let session = read(path);
            assert_eq!(session.origin, Origin::Predicted, "{name}");
            let (then, now) = (
                predicted.session.prediction.as_ref().expect("predicted"),
                session.prediction.as_ref().expect("marked"),
            );
            assert_eq!(now.provenance, then.provenance, "{name}");
            assert_eq!(now.step(), then.step(), "{name}");
            let read = evidence(&session);
            assert_eq!(read.step_time(), ours.step_time(), "{name}");
            assert_eq!(read.ops.len(), ours.ops.len(), "{name}");
            // Classes come from the bodies of fusions, which trace JSON has not.
            let has_bodies = path == &predicted.xplane;
            let figures = |evidence: &Evidence<'_>| {
                let mut rows: Vec<_> = evidence
                    .ops
                    .iter()
                    .map(|op| {
                        let name = evidence.session.op(op.id).name.clone();
                        let class = has_bodies.then_some(op.class);
                        let cost = has_bodies.then_some((op.cost.flops, op.cost.hbm_bytes));
                        (name, class, op.occurrences, op.self_ps, op.total_ps, cost)
                    })
                    .collect();
                rows.sort_by(|a, b| a.0.cmp(&b.0));
                rows
            };
            assert_eq!(figures(&read), figures(&ours), "{name}, {}", path.display());
        }
        drop(predicted.folder);
    }
}
