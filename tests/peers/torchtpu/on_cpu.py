"""Runs a script with the real TorchTPU on XLA's CPU plugin: python on_cpu.py SCRIPT [ARGUMENTS].

TPU_LIBRARY_PATH names the shim, CPU_PJRT_PLUGIN the plugin behind it. At the end the counters of
TorchTPU's compilation cache are printed as a line of JSON that begins with `cache_stats`.
"""

import json
import runpy
import sys

import torch
from torch_tpu import _loader
from torch_tpu._internal.utils import hardware

hardware.get_tpu_device_count = lambda: 1
hardware.get_tpu_device_name = lambda: "TPU v6e"
_loader._init_device("tpu")


def main() -> None:
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")
    stats = torch.tpu._get_cache_stats()
    counters = {
        "requests": stats.num_cache_reqs,
        "hits": stats.num_cache_hits,
        "compilations": stats.num_compilations,
    }
    print("cache_stats", json.dumps(counters))


if __name__ == "__main__":
    main()
