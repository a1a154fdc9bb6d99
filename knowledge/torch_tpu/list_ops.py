"""Which ATen operators the installed torch_tpu runs, as a table for knowledge/data/torch_tpu/.

Run it with the Python of the version in question (README.md beside it); no TPU is needed, since the
dispatcher's tables are filled when the package is imported:

    TPU_SKIP_MDS_QUERY=1 python list_ops.py > ../data/torch_tpu/VERSION.ops

Each line is a class, an operator and its overloads (`-` for the one without a name):

    K  a kernel of its own for the TPU (the dispatcher's key PrivateUse1)
    D  no kernel, but PyTorch writes it with other operators (CompositeImplicitAutograd,
       CompositeExplicitAutograd); those may have kernels or not
    C  as U, but PyTorch has it written in Python for the keys that torch.compile traces through, so
       that compiled code runs while eager code raises
    U  none of these, though CUDA has a kernel: "operator ... is not implemented for TPU"

An operator whose functional form only forwards to a missing `out` form (PyTorch's structured
kernels) counts as missing: it is D by its keys and raises all the same.
"""

import importlib.metadata
from collections import defaultdict

import torch
import torch_tpu  # noqa: F401  (fills the dispatcher)

COMPOSITE = (
    "CompositeImplicitAutograd",
    "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
)
TRACED = {"Autograd", "CompositeImplicitAutograd"}
# Written in Python, but with their own default overload: they raise when compiled, too.
SELF_TRACED = {"_upsample_bicubic2d_aa", "_upsample_bilinear2d_aa"}


def is_traced(name):
    """Whether an overload of the operator is written in Python for tracing."""
    if name in SELF_TRACED:
        return False
    packet = getattr(torch.ops.aten, name)
    return any(
        key.name in TRACED
        for overload in packet.overloads()
        for key in getattr(packet, overload).py_kernels
    )


def main():
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    table = defaultdict(lambda: defaultdict(list))
    for full in sorted(torch._C._dispatch_get_all_op_names()):
        namespace, _, rest = full.partition("::")
        if namespace != "aten":
            continue
        name, _, overload = rest.partition(".")
        if has(full, "PrivateUse1"):
            kind = "K"
        elif has(full, "CompositeImplicitAutograd"):
            kind = "D"
        elif any(has(full, key) for key in COMPOSITE):
            kind = "E"
        elif has(full, "CUDA"):
            kind = "U"
        else:
            continue
        table[name][kind].append(overload or "-")
    version = importlib.metadata.version
    print(f"# torch_tpu {version('torch_tpu')}, torch {torch.__version__.split('+')[0]}")
    for name in sorted(table):
        kinds = table[name]
        explicit = kinds.pop("E", [])
        # An in-place form may be the one that has the kernel, and the other way round.
        twin = table.get(name.removesuffix("_") if name.endswith("_") else name + "_", {})
        missing = "U" in kinds and "K" not in kinds and "K" not in twin
        kinds["U" if missing else "D"] += explicit
        if kinds.get("U") and is_traced(name):
            kinds["C"] = kinds.pop("U")
        for kind in "KDCU":
            if overloads := sorted(kinds.get(kind, [])):
                print(kind, name, ",".join(overloads))


if __name__ == "__main__":
    main()
