//! Profiles that are committed, and the proof that their generators make them.

use std::io::Write;

use super::{fixture, fixture_bytes, kineto, scenarios, xspace};

/// The sample that the documentation analyzes first.
pub const SAMPLE: &str = "profiles/transformer_fsdp_v6e.xplane.pb";

/// A run as `torch.profiler` would export it.
pub const KINETO: &str = "profiles/attention_v6e.pt.trace.json";

/// What makes the bytes of a file.
type Generate = fn() -> Vec<u8>;

/// Each generated fixture (gzipped, so `NAME.gz` on disk) and its bytes.
const GENERATED: &[(&str, Generate)] = &[(SAMPLE, sample), (KINETO, kineto)];

fn sample() -> Vec<u8> {
    xspace::to_bytes(&scenarios::sample())
}

fn kineto() -> Vec<u8> {
    let mut profile = scenarios::attention_naive();
    "tt_jit_attention_L9C0_forward_bmm".clone_into(&mut profile.programs[0].name);
    kineto::to_string(&profile).into_bytes()
}

#[test]
fn committed_profiles_are_what_their_generators_write() {
    for (name, generate) in GENERATED {
        assert!(
            fixture_bytes(name) == generate(),
            "{name}.gz is not what its generator writes; if the change is meant, run\n    \
             cargo test --test tests -- --ignored regenerate_committed_profiles"
        );
    }
}

#[test]
#[ignore = "rewrites fixtures"]
fn regenerate_committed_profiles() {
    for (name, generate) in GENERATED {
        let path = fixture(&format!("{name}.gz"));
        let file = std::fs::File::create(&path).expect("fixtures are writable");
        let mut gz = flate2::GzBuilder::new().write(file, flate2::Compression::best());
        gz.write_all(&generate()).expect("disk has room");
        gz.finish().expect("disk has room");
    }
}
