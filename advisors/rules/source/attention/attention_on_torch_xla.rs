//! TS304: scaled_dot_product_attention on PyTorch/XLA, which has no kernel for it.

use knowledge::advice::AdviceKind;

use crate::finding::{Exhibit, Remark, Severity};
use crate::python::SourceContext;
use crate::rule::Rule;
use crate::rules::source::operations::code::{Code, with_places};

/// The rule.
#[derive(Debug)]
pub struct AttentionOnTorchXla;

impl Rule for AttentionOnTorchXla {
    fn code(&self) -> &'static str {
        "TS304"
    }

    fn name(&self) -> &'static str {
        "attention-on-torch-xla"
    }

    fn card(&self) -> &'static str {
        include_str!("attention_on_torch_xla.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        if !context.file.text.contains("scaled_dot_product_attention") {
            return Vec::new();
        }
        let Some(code) = Code::new(context).filter(Code::is_torch_xla) else {
            return Vec::new();
        };
        let places: Vec<_> = code
            .named_calls()
            .filter(|(_, _, name)| name == "torch.nn.functional.scaled_dot_product_attention")
            .map(|(_, call, _)| code.place(call, "no kernel on PyTorch/XLA"))
            .collect();
        if places.is_empty() {
            return Vec::new();
        }
        let mut remark = Remark::new(
            AdviceKind::OpSubstitution,
            Severity::Medium,
            "scaled_dot_product_attention on PyTorch/XLA is decomposed, and was slower than attention written out",
        );
        with_places(&mut remark, places);
        remark.evidence.push(Exhibit::text(
            "measured",
            "115.9 ms with scaled_dot_product_attention, 0.726 ms written out, on v5e with torch_xla 2.6",
            "https://github.com/pytorch/xla/issues/8746",
        ));
        remark.advice = vec![
            "Call the kernel of PyTorch/XLA: `torch_xla.experimental.custom_kernel.flash_attention(q, k, v, causal=...)`.".to_owned(),
            "Or write it out (`torch.softmax(q @ k.transpose(-2, -1) * scale, -1) @ v`) and compare on your version.".to_owned(),
            "On TorchTPU, which replaces PyTorch/XLA, scaled_dot_product_attention is a flash kernel: keep it there.".to_owned(),
        ];
        vec![remark]
    }
}
