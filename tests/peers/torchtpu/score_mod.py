"""FlexAttention with a score_mod, compiled: torch_tpu 0.2.0 aborts."""

import torch
from torch.nn.attention.flex_attention import flex_attention


def softer(score, batch, head, query, key):
    return score * 0.5


x = torch.randn(1, 2, 128, 64).to("tpu")
attention = torch.compile(lambda x: flex_attention(x, x, x, score_mod=softer))
print(attention(x).sum().cpu())
