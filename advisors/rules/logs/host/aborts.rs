//! Runs that end, or cannot begin, for a reason that is known.

use knowledge::advice::AdviceKind;
use profiler::logs::torch_tpu::Saying;

use crate::finding::{Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::place;

/// See the card.
#[derive(Debug)]
pub struct Aborts;

impl Rule for Aborts {
    fn code(&self) -> &'static str {
        "TL208"
    }

    fn name(&self) -> &'static str {
        "torch-tpu-aborts"
    }

    fn card(&self) -> &'static str {
        include_str!("aborts.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        let mut remarks = Vec::new();
        for message in &logs.torch_tpu.messages {
            let Some((kind, title, advice)) = of(&message.saying) else {
                continue;
            };
            let mut remark = Remark::new(kind, Severity::High, title);
            remark
                .places
                .push(place(logs, message.at, &message.text, "the run ends here"));
            remark.advice = advice.iter().map(|advice| (*advice).to_owned()).collect();
            remarks.push(remark);
        }
        remarks
    }
}

fn of(saying: &Saying) -> Option<(AdviceKind, &'static str, &'static [&'static str])> {
    Some(match saying {
        Saying::FlexAbort => (
            AdviceKind::OpSubstitution,
            "a compiled graph lacks an argument and the process aborts, as FlexAttention with a score_mod does",
            &[
                "use `F.scaled_dot_product_attention`, with what score_mod adds as an `attn_mask` of floats",
                "or run flex_attention outside `torch.compile`, where torch_tpu 0.2.0 computes it densely",
            ],
        ),
        Saying::FlexUnavailable => (
            AdviceKind::OpSubstitution,
            "transformers refuses FlexAttention on this device",
            &["load the model with `attn_implementation=\"sdpa\"`"],
        ),
        Saying::NoCompilationContext => (
            AdviceKind::Migration,
            "TorchTPU found no device to compile for, and the process aborts",
            &[
                "see that the process sees a TPU: libtpu is installed, no other process holds the chips, and TPU_VISIBLE_CHIPS and the topology's variables fit the host",
                "without a TPU set TPU_SKIP_MDS_QUERY=1 and compile ahead of time instead: `tpu-tune predict`",
            ],
        ),
        Saying::DynamicCompile => (
            AdviceKind::Recompilation,
            "TorchTPU refuses torch.compile(dynamic=True)",
            &[
                "leave `dynamic` unset, and give bounds to the axes that vary: `torch._dynamo.mark_dynamic(x, axis, min=…, max=…)`",
                "or pad to a few sizes",
            ],
        ),
        Saying::InductorBackend => (
            AdviceKind::Migration,
            "TorchTPU refuses torch.compile(backend=\"inductor\")",
            &["leave `backend` out: on TPUs `torch.compile` uses TorchTPU's own"],
        ),
        _ => return None,
    })
}
