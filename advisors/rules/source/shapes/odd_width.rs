//! Widths of a model that are no multiple of the lanes.

use knowledge::advice::AdviceKind;
use profiler::units::percent;

use super::literals::{self, Matrix};
use super::{
    Found, LANES, MAX_PLACES, Role, WIDE_MXU, configuration, exhibit, odd, padded, places,
    price_it, sizes, waste,
};
use crate::finding::{Exhibit, Remark, Severity};
use crate::model_config::ModelConfig;
use crate::python::SourceContext;
use crate::rule::Rule;

/// See the card.
#[derive(Debug)]
pub struct OddWidth;

/// Below this a model is a toy, or a width is one of many small ones.
const LEAST: u64 = 256;
/// A product whose padding is less is as good as full.
const MIN_WASTE: f64 = 0.02;
/// Outputs up to this many may be classes, of which there are as many as there are.
const CLASSES: u64 = 1000;

impl Rule for OddWidth {
    fn code(&self) -> &'static str {
        "TS402"
    }

    fn name(&self) -> &'static str {
        "odd-width"
    }

    fn card(&self) -> &'static str {
        include_str!("odd_width.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        let mut remarks = check(&literals::found(context));
        remarks.extend(check_matrices(context));
        remarks
    }

    fn check_config(&self, config: &ModelConfig) -> Vec<Remark> {
        check(&configuration::found(config))
    }
}

fn check(found: &[Found]) -> Vec<Remark> {
    let mut remarks = Vec::new();
    let widths = odd(found, Role::Hidden, LEAST);
    if let Some(first) = widths.first() {
        let to = padded(first.size, LANES);
        let mut remark = Remark::new(
            AdviceKind::Padding,
            Severity::Low,
            format!(
                "the width of {} is padded to {to} ({} empty), and an embedding of it may be copied to another layout each step",
                named(&widths),
                percent(waste(first.size, LANES))
            ),
        );
        remark.places = places(&widths);
        remark.evidence.push(exhibit(first, "the model's width"));
        remark.evidence.push(Exhibit::text(
            "where it was tried",
            "a decoder of vocabulary 50257 compiled for v6e with width 1280 for 1200: 8 % less time; a table of that width is stored with the vocabulary in the lanes, and its rows are gathered from a copy (0.22 of 2.88 ms)",
            "compiled pairs, modelled: tests/fixtures/programs/twins/README.md",
        ));
        remark.advice = vec![
            format!("for a model yet to be trained choose {to}; the FLOPs are spent already",),
            price_it(),
        ];
        remark.caveats = vec![
            "another width is another model: where a checkpoint fixes it, leave it (padding inside the program made the same decoder 8 % slower)".to_owned(),
        ];
        remarks.push(remark);
    }
    let mut inner = odd(found, Role::Intermediate, 2 * LEAST);
    inner.extend(odd(found, Role::Expert, LEAST));
    inner.retain(|one| waste(one.size, LANES) >= MIN_WASTE);
    if let Some(first) = inner.first() {
        let is_expert = inner.iter().any(|one| one.role == Role::Expert);
        let mut remark = Remark::new(
            AdviceKind::Padding,
            Severity::Low,
            format!(
                "the inner width of {} is padded to {} ({} of its matmuls multiply zeros)",
                named(&inner),
                padded(first.size, LANES),
                percent(waste(first.size, LANES))
            ),
        );
        remark.places = places(&inner);
        remark.evidence.push(exhibit(
            first,
            "columns of one matmul, contracted by the next",
        ));
        remark.advice = vec![
            format!(
                "for a model yet to be trained choose a multiple of {LANES}, of {WIDE_MXU} for v6e and TPU7x"
            ),
            price_it(),
        ];
        remark.caveats = vec![if is_expert {
            "look at how experts are stored first: [experts, in, out] instead of [experts, out, in] took 47 % off what is not the kernels of a layer compiled for v6e, and an \"aligned\" layer stored the other way was slower than the odd one".to_owned()
        } else {
            "another width is another model; the zeros cost time only where the MXU is the limit, not HBM".to_owned()
        }];
        remarks.push(remark);
    }
    remarks
}

/// Sizes in words.
fn named(found: &[&Found]) -> String {
    let mut sizes: Vec<String> = sizes(found).iter().map(u64::to_string).collect();
    let more = sizes.len().saturating_sub(3);
    sizes.truncate(3);
    let words = sizes.join(", ");
    if more > 0 {
        format!("{words} and {more} more")
    } else {
        words
    }
}

/// The share of a product's padded size that is zeros, with both sizes in lanes.
fn empty(matrix: &Matrix) -> f64 {
    let [inputs, outputs] = matrix.sizes;
    let full = padded(inputs, LANES) as f64 * padded(outputs, LANES) as f64;
    1.0 - inputs as f64 * outputs as f64 / full.max(1.0)
}

fn check_matrices(context: &SourceContext<'_>) -> Option<Remark> {
    let matrices: Vec<Matrix> = literals::matrices(context)
        .into_iter()
        .filter(|matrix| {
            let [inputs, outputs] = matrix.sizes;
            let classifies = outputs <= CLASSES && inputs.is_multiple_of(LANES);
            inputs.min(outputs) >= LEAST && !classifies && empty(matrix) >= MIN_WASTE
        })
        .collect();
    let worst = matrices
        .iter()
        .max_by(|a, b| empty(a).total_cmp(&empty(b)))?;
    let [inputs, outputs] = worst.sizes;
    let (to_in, to_out) = (padded(inputs, LANES), padded(outputs, LANES));
    let mut remark = Remark::new(
        AdviceKind::Padding,
        Severity::Low,
        format!(
            "nn.Linear of {inputs} x {outputs} is computed as {to_in} x {to_out}: {} of it is zeros",
            percent(empty(worst))
        ),
    );
    remark.places = matrices
        .iter()
        .take(MAX_PLACES)
        .map(|matrix| {
            let [inputs, outputs] = matrix.sizes;
            let label = format!(
                "computed as {} x {}",
                padded(inputs, LANES),
                padded(outputs, LANES)
            );
            context.place(matrix.range, label)
        })
        .collect();
    remark.evidence.push(Exhibit::text(
        "layers with padding",
        matrices.len().to_string(),
        "nn.Linear with two sizes of 256 and more that are written as numbers",
    ));
    remark.advice = vec![
        format!(
            "choose sizes just below a multiple of {LANES} or on it ({WIDE_MXU} on v6e and TPU7x): what is above costs a whole tile"
        ),
        price_it(),
    ];
    remark.caveats = vec![
        "another size is another model; padding inside the program never gained where it was tried"
            .to_owned(),
    ];
    Some(remark)
}

#[cfg(test)]
mod tests {
    use crate::finding::Severity;
    use crate::rules::source::shapes::testing::{in_config, in_source};

    #[test]
    fn a_width_of_1200_is_padded_to_1280() {
        let found = in_source(
            "TS402",
            "config = LlamaConfig(vocab_size=50304, hidden_size=1200, intermediate_size=3200)\n",
        );
        let [one] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!(one.severity, Severity::Low);
        assert!(
            one.title
                .contains("width of 1200 is padded to 1280 (6.25 % empty)"),
            "{}",
            one.title
        );
        assert!(
            one.advice
                .iter()
                .any(|words| words.contains("tpu-tune what-if"))
        );
    }

    #[test]
    fn a_linear_layer_says_what_is_computed() {
        let found = in_source(
            "TS402",
            "from torch import nn\na = nn.Linear(1000, 4001)\nb = nn.Linear(2048, 1000)\nc = nn.Linear(in_features=784, out_features=10)\nd = nn.Linear(4096, 4096)\n",
        );
        let [one] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!(one.places.len(), 1);
        assert!(
            one.title.contains("1000 x 4001 is computed as 1024 x 4096"),
            "{}",
            one.title
        );
        assert!(one.title.contains("4.61 %"), "{}", one.title);
    }

    #[test]
    fn experts_of_an_odd_width_are_told_about_their_layout_first() {
        let found = in_source("TS402", "d = dict(moe_intermediate_size=600)\n");
        let [one] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert!(one.title.contains("600 is padded to 640"), "{}", one.title);
        assert!(one.caveats[0].contains("[experts, in, out]"));
    }

    #[test]
    fn widths_that_fill_their_lanes_and_small_ones_are_left_alone() {
        for text in [
            "c = LlamaConfig(hidden_size=4096, intermediate_size=11008)\n",
            "c = BertConfig(hidden_size=37, intermediate_size=37)\n",
            "x = f(hidden_size=1200)\n",
        ] {
            assert!(in_source("TS402", text).is_empty(), "{text}");
        }
        let text = include_str!("../../../../tests/fixtures/models/llama_2_7b.json");
        assert!(in_config("TS402", text).is_empty());
        // 2,880 is 22.5 times 128.
        let text = include_str!("../../../../tests/fixtures/models/gpt_oss_20b.json");
        assert_eq!(in_config("TS402", text).len(), 2);
    }
}
