//! Batches are padded to their own longest sequence, so that each has a shape of its own.

use knowledge::advice::AdviceKind;

use crate::finding::{Applicability, Exhibit, Fix, Numerics, Remark, Severity};
use crate::python::ast::{AnyNodeRef, Expr, ExprCall, Number};
use crate::python::{NodeId, Ranged as _, SourceContext, TextRange};
use crate::rule::Rule;
use crate::rules::source::recompilation::{end_of_arguments, is_set, last_word, passes_more};

/// The bucket that is proposed: the lanes of a TPU, and the width of its tiles.
const BUCKET: u64 = 128;

/// See the card.
#[derive(Debug)]
pub struct UnpaddedBatches;

impl Rule for UnpaddedBatches {
    fn code(&self) -> &'static str {
        "TS101"
    }

    fn name(&self) -> &'static str {
        "batches-of-varying-shape"
    }

    fn card(&self) -> &'static str {
        include_str!("unpadded_batches.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        if context.runs_once() {
            return Vec::new();
        }
        context
            .calls()
            .filter_map(|(id, call)| remark(context, id, call))
            .collect()
    }
}

/// How a call pads.
enum Pads {
    /// `pad_sequence`: to the longest of the batch.
    Sequence,
    /// A tokenizer with `padding=True` or `"longest"`: the argument.
    Tokenizer(TextRange),
    /// A collator of the `transformers` package without a fixed length.
    Collator(String),
    /// `tokenizer.pad` without a fixed length.
    Pad,
}

fn remark(context: &SourceContext<'_>, id: NodeId, call: &ExprCall) -> Option<Remark> {
    let pads = pads(context, call)?;
    let in_batch = per_batch(context, id);
    let (severity, what) = match &pads {
        Pads::Sequence if in_batch => (Severity::High, "`pad_sequence`".to_owned()),
        Pads::Tokenizer(_) if in_batch => (
            Severity::High,
            format!("`{}(padding=…)`", last_word(&call.func)),
        ),
        Pads::Pad if in_batch => (Severity::High, "`pad` of a tokenizer".to_owned()),
        Pads::Collator(name) => (Severity::Medium, format!("`{name}`")),
        _ => return None,
    };
    let mut remark = Remark::new(
        AdviceKind::Recompilation,
        severity,
        format!(
            "{what} pads each batch to its own longest sequence: each new length is a program to compile"
        ),
    );
    remark
        .places
        .push(context.place(call.range(), "its length differs from batch to batch"));
    let limit = max_length(call);
    let buckets = buckets(limit);
    remark.evidence.push(Exhibit::text(
        "buckets",
        buckets.clone(),
        match limit {
            Some(limit) => format!("max_length={limit} of this call, halved three times"),
            None => {
                "powers of two; the longest sequence of the data is not in this file".to_owned()
            }
        },
    ));
    remark.advice.push(match limit {
        Some(limit) => format!("pad to the one length `{limit}` (`padding=\"max_length\"`), or to the smallest of the buckets {buckets}"),
        None => format!("pad to one fixed length (`padding=\"max_length\", max_length=…`), or to the smallest of a few buckets ({buckets}; `pad_to_multiple_of={BUCKET}` bounds their number)"),
    });
    remark.advice.push(
        "run one batch of each bucket before training, so that nothing compiles later".to_owned(),
    );
    remark.caveats.push(
        "padding to the longest costs more arithmetic where most sequences are short: buckets, or packing, keep it low".to_owned(),
    );
    remark.fix = fix(context, call, &pads, limit);
    Some(remark)
}

fn pads(context: &SourceContext<'_>, call: &ExprCall) -> Option<Pads> {
    let qualified = context.qualified(&call.func);
    if let Some(name) = qualified.as_deref() {
        if name == "torch.nn.utils.rnn.pad_sequence" {
            return Some(Pads::Sequence);
        }
        let last = name.rsplit('.').next().unwrap_or(name);
        let collator = matches!(
            last,
            "DataCollatorWithPadding"
                | "DataCollatorForSeq2Seq"
                | "DataCollatorForTokenClassification"
                | "DataCollatorForLanguageModeling"
                | "DataCollatorForMultipleChoice"
        );
        if collator && name.starts_with("transformers.") {
            let fixed = is_set(call, "pad_to_multiple_of")
                || is_max_length(call)
                || passes_more(call)
                || call.arguments.args.len() > 2;
            return (!fixed).then(|| Pads::Collator(last.to_owned()));
        }
        return None;
    }
    let word = last_word(&call.func);
    let owner = match &*call.func {
        Expr::Attribute(attribute) => last_word(&attribute.value),
        _ => "",
    };
    let tokenizer = |word: &str| word.ends_with("tokenizer") || word == "processor";
    if is_set(call, "pad_to_multiple_of") || passes_more(call) {
        return None;
    }
    if word == "pad" && tokenizer(owner) {
        return (!is_max_length(call)).then_some(Pads::Pad);
    }
    let called =
        tokenizer(word) || (tokenizer(owner) && matches!(word, "batch_encode_plus" | "__call__"));
    if !called {
        return None;
    }
    let padding = call.arguments.find_keyword("padding")?;
    let longest = match &padding.value {
        Expr::BooleanLiteral(yes) => yes.value,
        Expr::StringLiteral(text) => text.value.to_str() == "longest",
        _ => false,
    };
    longest.then(|| Pads::Tokenizer(padding.value.range()))
}

fn is_max_length(call: &ExprCall) -> bool {
    call.arguments.find_keyword("padding").is_some_and(|padding| {
        matches!(&padding.value, Expr::StringLiteral(text) if text.value.to_str() == "max_length")
    })
}

/// Whether a call is made for each batch: in a collator, in a step, in a loop over batches.
fn per_batch(context: &SourceContext<'_>, id: NodeId) -> bool {
    if context.heat(id).is_some() {
        return true;
    }
    context
        .index
        .ancestors(id)
        .any(|(_, node)| match node.node {
            AnyNodeRef::StmtFunctionDef(function) => {
                let name = function.name.as_str();
                name.contains("collat")
                    || name == "pad_batch"
                    || (name == "__call__"
                        && context
                            .index
                            .id_of(function)
                            .and_then(|id| context.index.class_of(id))
                            .is_some_and(|class| {
                                class.name.as_str().to_lowercase().contains("collat")
                            }))
            }
            AnyNodeRef::Keyword(keyword) => keyword
                .arg
                .as_ref()
                .is_some_and(|arg| arg.as_str() == "collate_fn"),
            _ => false,
        })
}

fn max_length(call: &ExprCall) -> Option<u64> {
    match &call.arguments.find_keyword("max_length")?.value {
        Expr::NumberLiteral(number) => match &number.value {
            Number::Int(int) => int.as_u64().filter(|length| (1..=1 << 24).contains(length)),
            _ => None,
        },
        _ => None,
    }
}

/// Four buckets up to a length.
fn buckets(limit: Option<u64>) -> String {
    let limit = limit.unwrap_or(1024);
    let mut sizes: Vec<u64> = [8, 4, 2, 1]
        .into_iter()
        .map(|parts| limit.div_ceil(parts))
        .map(|size| {
            if size == limit {
                size
            } else {
                size.next_multiple_of(BUCKET).min(limit)
            }
        })
        .collect();
    sizes.dedup();
    let words: Vec<String> = sizes.iter().map(u64::to_string).collect();
    words.join(", ")
}

fn fix(
    context: &SourceContext<'_>,
    call: &ExprCall,
    pads: &Pads,
    limit: Option<u64>,
) -> Option<Fix> {
    let (title, edit) = match (pads, limit) {
        (Pads::Sequence, _) => return None,
        (Pads::Tokenizer(padding), Some(_)) => (
            "pad to max_length".to_owned(),
            context.edit(*padding, "\"max_length\""),
        ),
        _ => {
            let (at, comma) = end_of_arguments(context, call)?;
            (
                format!("pad to multiples of {BUCKET}"),
                context.edit(
                    TextRange::empty(at),
                    format!("{comma}pad_to_multiple_of={BUCKET}"),
                ),
            )
        }
    };
    Some(Fix {
        title,
        applicability: Applicability::Unsafe,
        numerics: Numerics::WithinTolerance,
        edits: vec![edit],
    })
}

#[cfg(test)]
mod tests {
    use super::{UnpaddedBatches, buckets};
    use crate::rules::source::recompilation::found;

    #[test]
    fn collators_that_pad_to_the_longest_are_found() {
        let text = "from torch.nn.utils.rnn import pad_sequence\ndef collate(batch):\n    return pad_sequence(batch)\ndef collate_text(batch):\n    return tokenizer(batch, padding=True, max_length=512, truncation=True)\n";
        let findings = found(&UnpaddedBatches, text);
        assert_eq!(findings.len(), 2);
        let fix = findings[1].fix.as_ref().expect("a fix");
        assert_eq!(fix.edits[0].replacement, "\"max_length\"");
        assert!(findings[1].advice[0].contains("128, 256, 512"));
    }

    #[test]
    fn fixed_lengths_are_left_alone() {
        for call in [
            "tokenizer(batch, padding=\"max_length\", max_length=128)",
            "tokenizer(batch, padding=True, pad_to_multiple_of=64)",
            "tokenizer(batch)",
            "tokenizer.pad(batch, padding=\"max_length\")",
        ] {
            let text = format!("def collate(batch):\n    return {call}\n");
            assert!(found(&UnpaddedBatches, &text).is_empty(), "{call}");
        }
        // One prompt, once.
        assert!(found(&UnpaddedBatches, "ids = tokenizer(prompt, padding=True)\n").is_empty());
    }

    #[test]
    fn buckets_are_multiples_of_lanes() {
        assert_eq!(buckets(Some(512)), "128, 256, 512");
        assert_eq!(buckets(Some(2048)), "256, 512, 1024, 2048");
        assert_eq!(buckets(Some(100)), "100");
        assert_eq!(buckets(None), "128, 256, 512, 1024");
    }
}
