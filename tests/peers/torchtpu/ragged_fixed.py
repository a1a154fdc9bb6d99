"""The trainer of ragged.py with what its trace calls for: full batches, no branch on a tensor, and
losses read once."""

import sys

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

if "fused" in sys.argv:
    torch.tpu.eager_mode = torch.tpu.EagerMode.DEFER_AND_FUSE


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(96, 192)
        self.outer = torch.nn.Linear(192, 12)

    def forward(self, features):
        hidden = F.silu(self.inner(features))
        overflows = hidden.abs() > 1e4
        hidden = torch.where(overflows.any(), hidden.clamp(-1e4, 1e4), hidden)
        return self.outer(hidden)


torch.manual_seed(0)
shards = [
    TensorDataset(torch.randn(size, 96), torch.randint(0, 12, (size,))) for size in (116, 81)
]
model = Classifier().to("tpu")
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)

losses = []
for shard in shards:
    for features, labels in DataLoader(shard, batch_size=32, drop_last=True):
        features, labels = features.to("tpu"), labels.to("tpu")
        optimizer.zero_grad()
        loss = F.cross_entropy(model(features), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
print("losses", torch.stack(losses).tolist())
