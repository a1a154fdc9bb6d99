use std::path::Path;

use proptest::prelude::*;

use crate::logs::Logs;
use crate::logs::jax::JaxLog;
use crate::logs::jax::miss::{Difference, Reason};
use crate::note::Notes;

fn read(text: &str) -> JaxLog {
    let mut logs = Logs::default();
    crate::logs::read(
        Path::new("run.log"),
        text.as_bytes(),
        &mut logs,
        &mut Notes::default(),
    );
    logs.jax
}

const NEW: &str = include_str!("../../../tests/fixtures/logs/jax/varied_0.12.log");
const MIDDLE: &str = include_str!("../../../tests/fixtures/logs/jax/varied_0.6.log");
const OLD: &str = include_str!("../../../tests/fixtures/logs/jax/varied_0.4.30.log");
const OLDEST: &str = include_str!("../../../tests/fixtures/logs/jax/varied_0.4.13.log");
const WARM: &str = include_str!("../../../tests/fixtures/logs/jax/cache_warm_0.6.log");
const COLD: &str = include_str!("../../../tests/fixtures/logs/jax/cache_cold_0.12.log");

#[test]
fn compiles_are_counted_in_the_wording_of_each_version() {
    for text in [NEW, MIDDLE, OLD, OLDEST] {
        let log = read(text);
        let step = &log.functions["train_step"];
        assert_eq!((step.compiles, step.events.len()), (5, 5));
        assert!(step.events.iter().all(|event| event.seconds.is_some()));
        assert_eq!(log.functions["<lambda>"].compiles, 3);
        assert_eq!(log.functions["evaluate"].compiles, 2);
        let varying = step.varying_arguments();
        assert_eq!(
            varying.iter().map(|(place, _)| *place).collect::<Vec<_>>(),
            [1, 2]
        );
        assert_eq!(
            varying[0].1,
            [
                "float32[16,64]",
                "float32[12,64]",
                "float32[9,64]",
                "bfloat16[16,64]"
            ]
        );
    }
    let key = "Finished XLA compilation of jit(train_step) in ";
    let stated = NEW
        .lines()
        .filter_map(|line| line.strip_prefix(key)?.strip_suffix(" sec"));
    let stated: f64 = stated
        .map(|time| time.parse::<f64>().expect("a time"))
        .sum();
    let found = read(NEW).functions["train_step"].seconds;
    assert!(stated > 0.1 && (found - stated).abs() < 1e-9);
}

#[test]
fn the_wording_until_2022_is_known() {
    let log = read(
        "WARNING:absl:Finished tracing + transforming g for jit in 2.5 sec\nWARNING:absl:Compiling g (140417) for args (ShapedArray(float32[3]),).\nWARNING:absl:Finished XLA compilation of g in 1.25 sec\n",
    );
    let g = &log.functions["g"];
    assert_eq!((g.compiles, g.seconds), (1, 1.25));
    assert_eq!(g.events[0].types, "for args (ShapedArray(float32[3]),).");
}

#[test]
fn misses_name_function_line_and_what_changed_in_each_wording() {
    for text in [NEW, MIDDLE, OLD] {
        let log = read(text);
        let of = |name: &str| -> Vec<_> {
            log.misses
                .iter()
                .filter(|miss| miss.function == name)
                .collect()
        };
        let steps = of("train_step");
        assert_eq!(steps.len(), 5);
        assert_eq!(steps[0].reason, Reason::NewFunction);
        assert!(
            steps
                .iter()
                .all(|miss| miss.defined == "/home/user/varied.py:7" && miss.is_user_code())
        );
        let Reason::Arguments(shape) = &steps[1].reason else {
            panic!("the shape changed");
        };
        assert_eq!(
            (
                shape[0].argument.as_str(),
                shape[0].now.as_str(),
                shape[0].before.as_str()
            ),
            ("batch", "f32[12,64]", "f32[16,64]")
        );
        let difference = |at: usize| match &steps[at].reason {
            Reason::Arguments(changes) => changes[0].difference(),
            _ => Difference::Other,
        };
        assert_eq!(
            [1, 2, 3, 4].map(difference),
            [
                Difference::Shape,
                Difference::Shape,
                Difference::Dtype,
                Difference::WeakType
            ]
        );
        let lambdas = of("<lambda>");
        assert_eq!(lambdas.len(), 3);
        assert!(
            lambdas[1..]
                .iter()
                .all(|miss| miss.reason == Reason::Redefined)
        );
        assert!(steps[1].call.starts_with("/home/user/varied.py:24:14"));
    }
    let log = read(MIDDLE);
    let evaluated: Vec<_> = log
        .misses
        .iter()
        .filter(|miss| miss.function == "evaluate")
        .collect();
    assert_eq!(
        evaluated[1].reason,
        Reason::Static("'double'".to_owned(), "'single'".to_owned())
    );
    assert!(evaluated[1].seconds.is_some_and(|seconds| seconds > 0.0));
}

#[test]
fn the_persistent_cache_is_counted() {
    let warm = read(WARM);
    assert_eq!((warm.persistent.hits, warm.persistent.misses), (3, 1));
    assert_eq!(
        (warm.persistent.too_fast, warm.persistent.limit_seconds),
        (1, Some(0.06))
    );
    assert!(warm.functions["train_step"].events[0].from_cache);
    let cold = read(COLD);
    assert_eq!(
        (
            cold.persistent.hits,
            cold.persistent.misses,
            cold.persistent.written
        ),
        (0, 4, 3)
    );
    assert!(!cold.functions["train_step"].events[0].from_cache);
}

proptest! {
    #[test]
    fn no_text_panics(lines in proptest::collection::vec(
        prop_oneof![
            "TRACING CACHE MISS at [ -~]{0,40}( costing [0-9.]{1,4} ms because)?:",
            "  (for|never seen function:|but seen another function|\\* at|\\* key with|now) [ -~\u{e9}]{0,60}",
            "Compiling [a-z()<> ]{0,20} with global shapes and types [(\\[]?(ShapedArray\\([a-z0-9\\[\\],()\u{e9}]{0,20}\\)?(, )?){0,3}",
            "Finished (XLA compilation of|tracing|tracing \\+ transforming) [a-z()]{0,12} in [0-9.e]{0,6} sec",
            "(Persistent compilation cache hit|PERSISTENT COMPILATION CACHE MISS) for '?[a-z_]{0,9}'?",
            "Not writing persistent cache entry because it took < [0-9.]{0,4} seconds \\([0-9.s)]{0,5}",
            "\\PC{0,60}",
        ], 0..40,
    )) {
        read(&lines.join("\n"));
    }
}
