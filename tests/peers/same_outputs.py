"""Runs two versions of a model on the CPU with the same weights and inputs, and compares.

Usage: same_outputs.py BEFORE.py AFTER.py TOLERANCE; prints the largest difference of outputs, and
fails where it is above the tolerance. FlexAttention has no backward pass on the CPU.
"""

import importlib.util
import sys

import torch


def run(path):
    spec = importlib.util.spec_from_file_location("model", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.manual_seed(0)
    model = module.model()
    inputs = module.inputs()
    model.requires_grad_(False)
    output = model(*inputs)
    return list(output) if isinstance(output, tuple) else [output]


def main():
    before, after, tolerance = sys.argv[1], sys.argv[2], float(sys.argv[3])
    # FlexAttention runs as it is written, dense: nothing is compiled.
    torch.compile = lambda function=None, **_: function
    # Masks without a device are made on the CPU, whatever PyTorch was built for.
    torch.accelerator.current_accelerator = lambda *_, **__: None
    one, two = run(before), run(after)
    assert len(one) == len(two), f"{len(one)} and {len(two)} outputs"
    worst = 0.0
    for a, b in zip(one, two):
        assert a.shape == b.shape and a.dtype == b.dtype, f"{a.shape} {a.dtype}, {b.shape} {b.dtype}"
        assert torch.isfinite(a).all() and torch.isfinite(b).all(), "not finite"
        scale = max(1.0, a.abs().max().item())
        worst = max(worst, (a - b).abs().max().item() / scale)
    print(f"{len(one)} outputs, largest difference {worst:.3g}")
    assert worst <= tolerance, f"{worst} is more than {tolerance}"


main()
