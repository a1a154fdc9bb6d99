//! Heads that do not fill the lanes.

use knowledge::advice::AdviceKind;
use profiler::units::percent;

use super::waste;
use super::{Found, LANES, Role, configuration, exhibit, literals, odd, padded, places, price_it};
use crate::finding::{Exhibit, Remark, Severity};
use crate::model_config::ModelConfig;
use crate::python::SourceContext;
use crate::rule::Rule;

/// See the card.
#[derive(Debug)]
pub struct NarrowHead;

/// Below this a head is a toy's.
const LEAST: u64 = 32;
/// A wider one is no head.
const MOST: u64 = 1024;

impl Rule for NarrowHead {
    fn code(&self) -> &'static str {
        "TS404"
    }

    fn name(&self) -> &'static str {
        "narrow-head"
    }

    fn card(&self) -> &'static str {
        include_str!("narrow_head.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        check(&literals::found(context))
    }

    fn check_config(&self, config: &ModelConfig) -> Vec<Remark> {
        check(&configuration::found(config))
    }
}

fn check(found: &[Found]) -> Vec<Remark> {
    let mut heads = odd(found, Role::Head, LEAST);
    heads.retain(|head| head.size <= MOST);
    let Some(first) = heads.iter().max_by_key(|head| head.size).copied() else {
        return Vec::new();
    };
    let to = padded(first.size, LANES);
    let empty = percent(waste(first.size, LANES));
    let is_wide = first.size > LANES;
    let mut remark = if is_wide {
        Remark::new(
            AdviceKind::Padding,
            Severity::Low,
            format!(
                "a head of {} is padded to {to} ({empty} empty), and TorchTPU's attention kernel refuses it",
                first.size
            ),
        )
    } else {
        Remark::new(
            AdviceKind::Padding,
            Severity::Info,
            format!(
                "a head of {} fills {} of 128 lanes: a KV cache in whole lanes takes {:.1} times its size",
                first.size,
                first.size,
                to as f64 / first.size.max(1) as f64
            ),
        )
    };
    remark.places = places(&heads);
    remark.evidence.push(exhibit(first, "width of a head"));
    remark.advice = if is_wide {
        remark.evidence.push(Exhibit::text(
            "the kernel",
            "takes heads below 128 or a multiple of it; else scores are computed whole and pass through HBM",
            "torch_tpu 0.2.0, warning \"TorchTPU only supports FLASH_ATTENTION SDPBackend\"",
        ));
        vec![
            format!(
                "pad queries, keys and values to {to} before the kernel, its scale kept, or split the head"
            ),
            price_it(),
        ]
    } else {
        remark.evidence.push(Exhibit::text(
            "where it was tried",
            "heads of 128 for 100 or 80 in a decoder compiled for v6e: between 2 % slower and no change",
            "compiled pairs, modelled: tests/fixtures/programs/twins/README.md",
        ));
        vec![
            "for a model yet to be trained take fewer heads of 128; for one that is trained leave it".to_owned(),
            price_it(),
        ]
    };
    remark.caveats = vec![
        "where attention is bound by its scores in HBM, the width of a head changes nothing"
            .to_owned(),
    ];
    vec![remark]
}

#[cfg(test)]
mod tests {
    use crate::finding::Severity;
    use crate::rules::source::shapes::testing::{in_config, in_source};

    #[test]
    fn narrow_ones_are_info_and_wide_odd_ones_low() {
        let of = |size: u64| {
            let found = in_source("TS404", &format!("c = Args(head_dim={size})\n"));
            found.first().map(|one| (one.severity, one.title.clone()))
        };
        let (severity, title) = of(64).expect("half of the lanes");
        assert_eq!(severity, Severity::Info);
        assert!(title.contains("2.0 times"), "{title}");
        let (severity, title) = of(192).expect("neither one nor two");
        assert_eq!(severity, Severity::Low);
        assert!(title.contains("padded to 256 (25.0 % empty)"), "{title}");
        assert!(of(128).is_none() && of(256).is_none() && of(8).is_none());
    }

    #[test]
    fn of_a_configuration_the_quotient_counts() {
        let text = include_str!("../../../../tests/fixtures/models/gpt2.json");
        let found = in_config("TS404", text);
        assert_eq!(found[0].places[0].snippet.trim(), "\"n_head\": 12");
        // Queries and keys of latent attention: 128 and 64.
        let text = include_str!("../../../../tests/fixtures/models/deepseek_v3.json");
        assert!(in_config("TS404", text)[0].title.contains("192"));
        let text = include_str!("../../../../tests/fixtures/models/qwen3_8b.json");
        assert!(in_config("TS404", text).is_empty());
    }
}
