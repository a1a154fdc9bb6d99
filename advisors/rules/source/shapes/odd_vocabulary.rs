//! A vocabulary that is no multiple of the lanes.

use knowledge::advice::AdviceKind;
use profiler::units::percent;

use super::{Found, LANES, Role, configuration, exhibit, literals, odd, padded, places, price_it};
use super::{odd_sequence, sizes, waste};
use crate::finding::{Exhibit, Remark, Severity};
use crate::model_config::ModelConfig;
use crate::python::SourceContext;
use crate::rule::Rule;

/// See the card.
#[derive(Debug)]
pub struct OddVocabulary;

/// Below this a vocabulary is no language model's.
const LEAST: u64 = 1024;

impl Rule for OddVocabulary {
    fn code(&self) -> &'static str {
        "TS401"
    }

    fn name(&self) -> &'static str {
        "odd-vocabulary"
    }

    fn card(&self) -> &'static str {
        include_str!("odd_vocabulary.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        check(&literals::found(context))
    }

    fn check_config(&self, config: &ModelConfig) -> Vec<Remark> {
        check(&configuration::found(config))
    }
}

fn check(found: &[Found]) -> Vec<Remark> {
    let odd_ones = odd(found, Role::Vocabulary, LEAST);
    let Some(first) = odd_ones.first() else {
        return Vec::new();
    };
    let sequence = odd_sequence::odd_ones(found).first().copied();
    let to = padded(first.size, LANES);
    let empty = percent(waste(first.size, LANES));
    let mut remark = match sequence {
        None => Remark::new(
            AdviceKind::Padding,
            Severity::Low,
            format!(
                "the vocabulary of {} is padded to {to} ({empty} empty): rounding it up alone often gains nothing",
                first.size
            ),
        ),
        Some(sequence) => Remark::new(
            AdviceKind::Padding,
            Severity::Medium,
            format!(
                "the vocabulary of {} and the sequence of {} are both odd: logits are copied to another layout; as {to} and {} the copy goes away",
                first.size,
                sequence.size,
                padded(sequence.size, LANES)
            ),
        ),
    };
    remark.places = places(&odd_ones);
    remark
        .places
        .extend(sequence.into_iter().flat_map(|one| places(&[one])));
    remark
        .evidence
        .push(exhibit(first, "embedding rows, output columns"));
    remark.evidence.push(Exhibit::text(
        "where it was tried",
        "a decoder compiled for v6e with 50304 for 50257: 15 % less time where it returns its logits, 36 % with the sequence of 1023 as 1024 too; a Llama layer: no change; a GPT-2 block: 28 % fewer cycles, 73 % with the sequence",
        "the decoder: compiled pairs, modelled, tests/fixtures/programs/twins/README.md; the others: cycles that libtpu 0.0.50 estimates of TorchTPU exports",
    ));
    remark.advice = vec![
        format!(
            "store {} rows{} and leave the new ones unused (mask their logits); checkpoints need the rows added",
            to,
            match sizes(&odd_ones).len() {
                1 => String::new(),
                several =>
                    format!(" ({several} vocabularies here, each to its next multiple of {LANES})"),
            }
        ),
        price_it(),
    ];
    remark.caveats = vec![
        "a training step whose logits never leave the program has no such copy to lose; padding at run time, inside the program, never gained".to_owned(),
    ];
    vec![remark]
}

#[cfg(test)]
mod tests {
    use crate::finding::Severity;
    use crate::rules::source::shapes::testing::{in_config, in_source};

    #[test]
    fn gpt2s_vocabulary_in_a_constructor() {
        let found = in_source(
            "TS401",
            "from transformers import GPT2Config\nc = GPT2Config(vocab_size=50257, n_positions=1024)\n",
        );
        let [one] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!(one.severity, Severity::Low);
        assert!(
            one.title
                .contains("50257 is padded to 50304 (0.09 % empty)"),
            "{}",
            one.title
        );
        assert_eq!((one.places[0].line, one.places[0].column), (2, 16));
    }

    #[test]
    fn with_an_odd_sequence_both_are_named() {
        let found = in_source(
            "TS401",
            "block_size = 1023\nimport torch.nn as nn\nwte = nn.Embedding(50257, 768)\n",
        );
        let [one] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!(one.severity, Severity::Medium);
        assert!(one.title.contains("as 50304 and 1024"), "{}", one.title);
        assert_eq!(one.places.len(), 2);
    }

    #[test]
    fn even_ones_small_ones_and_a_librarys_defaults_are_left_alone() {
        for text in [
            "c = GPT2Config(vocab_size=50304)\n",
            "c = GPT2Config(vocab_size=99)\n",
            "class BertConfig(PreTrainedConfig):\n    vocab_size: int = 30522\n",
            "n = count(vocab_size=50257)\n",
        ] {
            assert!(in_source("TS401", text).is_empty(), "{text}");
        }
    }

    #[test]
    fn a_configuration_is_read_too() {
        let text = include_str!("../../../../tests/fixtures/models/gpt2.json");
        let found = in_config("TS401", text);
        let [one] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!(one.places[0].snippet, "  \"vocab_size\": 50257,");
        let text = include_str!("../../../../tests/fixtures/models/llama_3_8b.json");
        assert!(in_config("TS401", text).is_empty());
    }
}
