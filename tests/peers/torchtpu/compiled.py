"""What torch.compile makes of batches of several sizes, a branch on a tensor and a print."""

import torch
import torch.nn.functional as F


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(96, 192)
        self.outer = torch.nn.Linear(192, 12)

    def forward(self, features):
        hidden = F.silu(self.inner(features))
        if (hidden.abs() > 1e4).any():
            hidden = hidden.clamp(-1e4, 1e4)
        print("forward")
        return self.outer(hidden)


torch.manual_seed(0)
model = torch.compile(Classifier().to("tpu"))
for batch in (32, 20, 17, 32, 40, 41, 42, 43, 44, 45):
    with torch.no_grad():
        model(torch.randn(batch, 96).to("tpu")).cpu()
