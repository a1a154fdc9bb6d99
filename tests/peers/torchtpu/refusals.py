"""What TorchTPU says when it cannot do, or does slowly, what it is asked for."""

import torch
import torch.nn.functional as F
from torch_tpu._internal import execution_mode


def attempt(call):
    try:
        call()
    except Exception as error:
        print(type(error).__name__, error)


x = torch.randn(8, 96).to("tpu")
attempt(lambda: x.median())
attempt(lambda: torch.kthvalue(x, 3))
query = torch.randn(1, 4, 64, 160).to("tpu", torch.bfloat16)
attempt(lambda: F.scaled_dot_product_attention(query, query, query))
attempt(lambda: torch.compile(lambda y: y + 1, dynamic=True)(x))
attempt(lambda: torch.compile(lambda y: y + 1, backend="inductor")(x))
attempt(lambda: torch.take(x, torch.tensor([1, 2]).to("tpu")))
execution_mode.enable_cpu_fallback = True
for _ in range(3):
    attempt(lambda: print(torch.kthvalue(x, 3).values[0].item()))
