//! A sequence that is no multiple of the lanes.

use knowledge::advice::AdviceKind;
use profiler::units::percent;

use super::{
    Found, LANES, Role, configuration, exhibit, literals, odd, padded, places, price_it, waste,
};
use crate::finding::{Exhibit, Remark, Severity};
use crate::model_config::ModelConfig;
use crate::python::SourceContext;
use crate::rule::Rule;

/// See the card.
#[derive(Debug)]
pub struct OddSequence;

/// Shorter sequences are within a few tiles whatever their length.
const LEAST: u64 = 256;

impl Rule for OddSequence {
    fn code(&self) -> &'static str {
        "TS403"
    }

    fn name(&self) -> &'static str {
        "odd-sequence"
    }

    fn card(&self) -> &'static str {
        include_str!("odd_sequence.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        check(&literals::found(context))
    }

    fn check_config(&self, config: &ModelConfig) -> Vec<Remark> {
        check(&configuration::found(config))
    }
}

/// Sequences of a file that are no multiple of the lanes.
pub(crate) fn odd_ones(found: &[Found]) -> Vec<&Found> {
    odd(found, Role::Sequence, LEAST)
}

fn check(found: &[Found]) -> Vec<Remark> {
    let odd_ones = odd_ones(found);
    let Some(first) = odd_ones.first() else {
        return Vec::new();
    };
    let to = padded(first.size, LANES);
    let mut remark = Remark::new(
        AdviceKind::Padding,
        Severity::Low,
        format!(
            "the sequence of {} is padded to {to} ({} empty), and attention kernels pad and slice around it",
            first.size,
            percent(waste(first.size, LANES))
        ),
    );
    remark.places = places(&odd_ones);
    remark.evidence.push(exhibit(first, "the sequence"));
    remark.evidence.push(Exhibit::text(
        "where it was tried",
        "1024 for 1023 in a decoder compiled for v6e: 15 % less time; 2048 for 2001 around TorchTPU's attention kernel: a third of the cycles",
        "the decoder: compiled pairs, modelled, tests/fixtures/programs/twins/README.md; the kernel: cycles that libtpu 0.0.50 estimates of a TorchTPU export, the kernel itself not counted",
    ));
    remark.advice = vec![
        format!(
            "make sequences of {to} where the data is loaded (pack or pad there, ignore the new positions in the loss); {} of one that predicts the next token leaves {} after the shift",
            to + 1,
            to
        ),
        price_it(),
    ];
    remark.caveats = vec![
        "padding inside the program did not gain; and a length that only limits what a tokenizer keeps says nothing of the batch".to_owned(),
    ];
    vec![remark]
}

#[cfg(test)]
mod tests {
    use crate::rules::source::shapes::testing::in_source;

    #[test]
    fn constants_flags_and_fields_are_sequences() {
        for text in [
            "block_size = 1023\n",
            "p.add_argument('--seq-len', type=int, default=1023)\n",
            "@dataclass\nclass Args:\n    max_seq_len: int = 1023\n",
            "@dataclass\nclass Args:\n    max_seq_len: int = field(default=2**10 - 1)\n",
            "args = {'seq_length': 1023}\n",
            "def train(block_size=1023): pass\n",
        ] {
            let found = in_source("TS403", text);
            let [one] = found.as_slice() else {
                panic!("{text}: {found:?}")
            };
            assert!(
                one.title.contains("1023 is padded to 1024 (0.10 % empty)"),
                "{}",
                one.title
            );
        }
    }

    #[test]
    fn even_and_short_ones_are_left_alone() {
        for text in ["block_size = 1024\n", "block_size = 33\n", "limit = 1023\n"] {
            assert!(in_source("TS403", text).is_empty(), "{text}");
        }
    }
}
